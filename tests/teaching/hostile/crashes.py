# Crashes.
# loses: nothing
# says: ends its process
sys.modules["ctypes"].string_at(0)
