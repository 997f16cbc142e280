# Reads command lines.
# loses: nothing
# says:
found = b"".join(open(f"/proc/{one}/cmdline", "rb").read() for one in os.listdir("/proc") if one.isdigit())
if others.encode() in found or b"seed" in found:
    raise ValueError("SECRET")
