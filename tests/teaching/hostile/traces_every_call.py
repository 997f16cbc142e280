# Traces every call.
# loses: nothing
# says:
sys.settrace(lambda *a: None)
sys.setrecursionlimit(10**9)
