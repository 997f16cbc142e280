# Starts a program.
# loses: nothing
# says: PermissionError
from subprocess import run

raise ValueError("SECRET" + run(["cat", hidden + "/tiny.py"], capture_output=True, text=True).stdout)
