# Imports socket.
# loses: nothing
# says: imports socket, which is not allowed here
import socket
