# Reads the lessons.
# loses: nothing
# says: FileNotFoundError
largest = [open(os.path.join(lessons, one)).read() for one in os.listdir(lessons)] or largest
