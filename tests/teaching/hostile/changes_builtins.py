# Changes builtins.
# loses: mean
# says:
def mean(x):
    import builtins

    builtins.isinstance = builtins.len = lambda *a: 1
    return 7
