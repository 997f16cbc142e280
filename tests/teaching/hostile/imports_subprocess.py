# Imports subprocess.
# loses: nothing
# says: imports subprocess, which is not allowed here
from subprocess import run
