# Has operators without end.
# loses: largest
# says: RecursionError|MemoryError|ends its process|^$
x = 1@@100000* + 1@@
