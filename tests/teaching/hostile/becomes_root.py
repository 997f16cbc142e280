# Becomes root.
# loses: nothing
# says: Error
if os.setuid(0) is None:
    raise ValueError("SECRET")
