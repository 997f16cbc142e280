# Writes into the first process.
# loses: nothing
# says: PermissionError|FileNotFoundError
if open("/proc/1/mem", "r+b"):
    raise ValueError("SECRET")
