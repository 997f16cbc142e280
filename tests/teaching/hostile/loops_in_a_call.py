# Loops in a call.
# loses: Layer
# says: takes more than 3 s
def Layer(width):
    while True:
        pass
