# Kills its parent by a pipe.
# loses: nothing
# says: PermissionError
import fcntl

fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())
