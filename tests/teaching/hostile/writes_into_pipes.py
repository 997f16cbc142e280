# Writes into pipes.
# loses: nothing
# says: pipe
for pipe in range(3, 64):
    try:
        os.write(pipe, bytes(64))
    except OSError:
        pass
