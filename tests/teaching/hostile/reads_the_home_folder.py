# Reads the home folder.
# loses: nothing
# says: FileNotFoundError|PermissionError
raise ValueError("SECRET" + repr(os.listdir("/home") + os.listdir("/home")))
