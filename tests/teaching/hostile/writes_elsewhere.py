# Writes elsewhere.
# loses: nothing
# says: Error
open(others, "w").write("x")
