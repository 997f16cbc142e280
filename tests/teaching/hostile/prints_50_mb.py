# Prints 50 MB.
# loses: nothing
# says: prints 50 MB
print("x" * 50_000_000)
