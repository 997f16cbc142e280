# Reads a roster.
# loses: nothing
# says: FileNotFoundError|PermissionError
raise ValueError("SECRET" + open(os.path.join(os.path.dirname(hidden), "roster.csv")).read())
