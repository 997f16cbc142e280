# Exits in every cell.
# loses: all
# says: ends its process more than 20 times
@@400*os._exit(0)
@@
