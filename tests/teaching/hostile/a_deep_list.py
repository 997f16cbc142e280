# A deep list.
# loses: mean
# says: too deep
def mean(x):
    x = []
    for _ in range(10**5):
        x = [x]
    return x
