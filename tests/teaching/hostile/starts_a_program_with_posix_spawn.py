# Starts a program with posix_spawn.
# loses: nothing
# says: PermissionError
raise ValueError("SECRET" + str(os.posix_spawn("/bin/true", ["true"], {})))
