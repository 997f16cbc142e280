# Takes memory in a call.
# loses: mean
# says: out of memory
def mean(x):
    return bytearray(2**33)
