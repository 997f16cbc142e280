# Reads etc shadow.
# loses: nothing
# says: FileNotFoundError|PermissionError
raise ValueError(open("/etc/shadow").read())
