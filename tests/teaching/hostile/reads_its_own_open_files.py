# Reads its own open files.
# loses: nothing
# says:
for fd in range(3, 256):
    try:
        found = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        continue
    if found.startswith("/") and "handed-in" in found:
        raise ValueError("SECRET")
