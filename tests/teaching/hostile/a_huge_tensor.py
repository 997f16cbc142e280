# A huge tensor.
# loses: mean
# says: more than can be compared
def mean(x):
    return torch.zeros(2**25)
