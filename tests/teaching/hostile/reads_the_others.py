# Reads the others.
# loses: nothing
# says: FileNotFoundError
largest = open(others).read() or largest
