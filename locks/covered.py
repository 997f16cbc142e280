"""Exit with 0 if the locks cover this Python and platform: every locked package has a wheel for them."""

import platform
import sys

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
MACHINES = ("x86_64", "aarch64")

covered = (
    sys.implementation.name == "cpython"
    and sys.version_info[:2] in PYTHONS
    and sys.platform == "linux"
    and platform.libc_ver()[0] == "glibc"
    and platform.machine() in MACHINES
)
if not covered:
    here = f"{platform.python_implementation()} {platform.python_version()} on {sys.platform} {platform.machine()}"
    sys.exit(
        f"locks/ does not cover {here}: installing the versions of constraints.txt instead, without checking hashes"
    )
