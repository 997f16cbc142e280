# Makes a namespace.
# loses: nothing
# says:
libc = sys.modules["ctypes"].CDLL(None, use_errno=True)
if libc.unshare(0x10000000) == 0:
    raise ValueError("SECRET")
