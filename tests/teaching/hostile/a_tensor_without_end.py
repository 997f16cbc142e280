# A tensor without end.
# loses: mean
# says: more than can be compared
def mean(x):
    return torch.zeros(1).expand(2**40)
