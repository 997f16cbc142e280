# Imports ctypes.
# loses: nothing
# says: imports ctypes, which is not allowed here
import importlib

importlib.import_module("ctypes")
