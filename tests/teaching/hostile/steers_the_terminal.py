# Steers the terminal.
# loses: mean
# says: raises ValueError: ·
def mean(x):
    raise ValueError("\x1b[2J")
