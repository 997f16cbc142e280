# Opens a socket.
# loses: nothing
# says: PermissionError
sys.modules["socket"].socket()
