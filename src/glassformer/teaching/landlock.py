"""Files that a process closes to itself, with Linux's Landlock, for which no rights are needed."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls, on all machines."""
READ, TRUNCATE = 1 << 2, 1 << 14
WRITE = 0b1_1111_1111_0010 & ~READ & ~(1 << 3)
"""To write into files, to make them and to remove them; lists of names stay open, for imports need them."""
ABI_WITH_TRUNCATE = 3

_libc = ctypes.CDLL(None, use_errno=True)


def close_files(folder: str, hidden: Collection[str]) -> bool:
    """From here on this process writes in the folder alone, and reads all but what is hidden. Gives whether it could be
    done.
    """
    abi = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    write = WRITE | (TRUNCATE if abi >= ABI_WITH_TRUNCATE else 0)
    handled = ctypes.create_string_buffer(struct.pack("Q", READ | write), 8)
    rules = _libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    _allow(rules, folder, READ | write)
    _allow(rules, os.devnull, READ | (write & 0b10))
    closed = {os.path.realpath(one) for one in hidden}
    for path in _open_to_read("/", closed, {str(above) for one in closed for above in Path(one).parents}):
        _allow(rules, path, READ)
    done: bool = _libc.syscall(RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return done


def _open_to_read(root: str, hidden: Collection[str], above: Collection[str]) -> Iterator[str]:
    """The folders and files that together are all but the hidden ones. `above`: the folders that hold some of them."""
    with contextlib.suppress(OSError), os.scandir(root) as entries:  # some nobody may list
        for entry in entries:
            if entry.path in above:
                yield from _open_to_read(entry.path, hidden, above)
            elif entry.path not in hidden and not entry.is_symlink():
                yield entry.path


def _allow(rules: int, path: str, what: int) -> None:
    with contextlib.suppress(OSError):  # it is gone, or not ours
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        beneath = ctypes.create_string_buffer(struct.pack("=Qi", what, place), 12)
        _libc.syscall(ADD_RULE, rules, 1, beneath, 0)
        os.close(place)
