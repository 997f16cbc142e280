# Keeps memory that nobody counts.
# loses: nothing
# says: PermissionError
os.write(os.memfd_create("x"), bytes(2**20))
