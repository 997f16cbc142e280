# Reads the grader.
# loses: nothing
# says: (Permission|FileNotFound)Error
open(f"/proc/{os.getppid()}/mem", "rb").read(1)
