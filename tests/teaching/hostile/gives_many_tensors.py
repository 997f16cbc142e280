# Gives many tensors.
# loses: largest
# says: gives more than can be compared
largest = [torch.zeros(0)] * 180_000
