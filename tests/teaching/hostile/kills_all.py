# Kills all.
# loses: nothing
# says: PermissionError
os.kill(-1, 9)
