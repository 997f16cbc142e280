# Gives a column of 64 million.
# loses: largest
# says: is not the largest
largest = torch.zeros(2**26, 1, dtype=torch.uint8)
