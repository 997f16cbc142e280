# Gives rows of 32 million.
# loses: largest
# says: is not the largest
largest = torch.zeros(2, 2**25, dtype=torch.uint8)
