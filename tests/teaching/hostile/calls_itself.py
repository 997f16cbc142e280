# Calls itself.
# loses: mean
# says: RecursionError
def mean(x):
    return mean(x)
