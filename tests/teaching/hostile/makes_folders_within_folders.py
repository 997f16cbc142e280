# Makes folders within folders.
# loses: nothing
# says:
for _ in range(1000):
    os.mkdir("x")
    os.chdir("x")
