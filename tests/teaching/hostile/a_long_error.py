# A long error.
# loses: mean
# says: raises ValueError: x
def mean(x):
    raise ValueError("x\n" + "y" * 10**6)
