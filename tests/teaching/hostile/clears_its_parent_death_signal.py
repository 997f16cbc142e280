# Clears its parent-death signal.
# loses: nothing
# says:
libc = sys.modules["ctypes"].CDLL(None, use_errno=True)
if libc.prctl(1, 0, 0, 0, 0) == 0:
    raise ValueError("SECRET")
