# Exits at once.
# loses: nothing
# says: ends its process
os._exit(0)
