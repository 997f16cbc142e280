# Unpacks a bomb.
# loses: nothing
# says: out of memory|takes more than
import zlib

x = zlib.decompress(zlib.compress(bytes(2**28))) * 16
