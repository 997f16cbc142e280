# Mounts a file system.
# loses: nothing
# says:
libc = sys.modules["ctypes"].CDLL(None, use_errno=True)
if libc.mount(b"proc", os.getcwd().encode(), b"proc", 0, None) == 0:
    raise ValueError("SECRET")
