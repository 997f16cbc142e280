# Writes into the libraries.
# loses: nothing
# says: OSError|PermissionError
if open(torch.__file__, "a").write("x"):
    raise ValueError("SECRET")
