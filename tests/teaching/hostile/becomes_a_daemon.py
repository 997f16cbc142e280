# Becomes a daemon.
# loses: nothing
# says: PermissionError
if os.fork() == 0:
    os.setsid()
    while True:
        pass
