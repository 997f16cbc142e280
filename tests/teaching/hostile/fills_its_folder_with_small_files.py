# Fills its folder with small files.
# loses: nothing
# says: OSError|takes more
for number in range(100_000):
    open(f"file-{number}", "w").close()
