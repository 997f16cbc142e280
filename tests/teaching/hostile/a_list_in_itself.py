# A list in itself.
# loses: mean
# says: too deep
def mean(x):
    x = []
    x.append(x)
    return x
