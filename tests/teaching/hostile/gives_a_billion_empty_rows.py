# Gives a billion empty rows.
# loses: largest
# says: gives a tensor of the shape 1000000000×0
largest = torch.empty(10**9, 0)
