# Forks.
# loses: nothing
# says: PermissionError
while True:
    os.fork()
