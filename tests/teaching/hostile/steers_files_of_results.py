# Steers files of results.
# loses: mean
# says: note
def mean(x):
    raise ValueError("half of a pair \ud800 \x1b[2J \u202e \u2028")


raise ValueError("note \udc80 \x1b[31m\n")
