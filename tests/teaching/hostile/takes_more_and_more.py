# Takes more and more.
# loses: nothing
# says: out of memory
x = []
while True:
    x.append(bytearray(2**24))
