# Kills its parent.
# loses: nothing
# says: PermissionError
os.kill(os.getppid(), 9)
