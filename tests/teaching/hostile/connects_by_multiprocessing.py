# Opens a listening connection of multiprocessing.
# loses: nothing
# says: PermissionError
from multiprocessing.connection import Listener

raise ValueError("SECRET" + str(Listener(family="AF_UNIX")))
