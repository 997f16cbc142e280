# Writes much.
# loses: nothing
# says: OSError
open("x", "wb").write(bytes(10**8))
