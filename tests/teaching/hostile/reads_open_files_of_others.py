# Reads open files of others.
# loses: nothing
# says:
found = []
for one in filter(str.isdigit, os.listdir("/proc")):
    try:
        found += [os.readlink(f"/proc/{one}/fd/{fd}") for fd in os.listdir(f"/proc/{one}/fd")]
    except OSError:
        pass
if any("handed-in" in name for name in found):
    raise ValueError("SECRET")
