# Loops.
# loses: nothing
# says: takes more than 3 s
while True:
    pass
