# No number.
# loses: mean
# says: gives nan
def mean(x):
    return x.mean(-1) * float("nan")
