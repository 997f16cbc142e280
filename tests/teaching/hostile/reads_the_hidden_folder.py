# Reads the hidden folder.
# loses: nothing
# says: FileNotFoundError
largest = [open(os.path.join(hidden, one)).read() for one in os.listdir(hidden)] or largest
