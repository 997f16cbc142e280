# Computes a number without end.
# loses: nothing
# says: takes more than 3 s|out of memory|MemoryError
x = 9**9**8
