"""Close files to this process with Linux's Landlock, for which no rights are needed."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Collection, Iterator

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls, on all machines."""
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
CHANGE = 0b1_1111_1111_0000 | WRITE_FILE
"""Write into files, make and remove them."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
"""Rights that a rule for a single file may have."""
ABI_WITH_TRUNCATE = 3
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

_libc = ctypes.CDLL(None, use_errno=True)


def close_files(folder: str, readable: Collection[str], covered: Collection[str]) -> bool:
    """Let this process write in the folder alone, and read only there and in `readable` without `covered`.

    Returns whether the system has Landlock.
    """
    abi = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    change = CHANGE | (TRUNCATE if abi >= ABI_WITH_TRUNCATE else 0)
    handled = ctypes.create_string_buffer(struct.pack("Q", READ_FILE | READ_FOLDER | change), 8)
    rules = _libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    _allow(rules, folder, READ_FILE | READ_FOLDER | change)
    for device in DEVICES:
        _allow(rules, device, READ_FILE | WRITE_FILE)
    for path in readable:
        for part in _without(path, covered):
            _allow(rules, part, READ_FILE | READ_FOLDER)
    closed: bool = _libc.syscall(RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return closed


def _without(path: str, covered: Collection[str]) -> Iterator[str]:
    """Yield the files and folders that together are all of `path` except the covered ones."""
    if path in covered:
        return
    if not any(one.startswith(f"{path}/") for one in covered):
        yield path
        return
    for name in os.listdir(path):
        yield from _without(os.path.join(path, name), covered)


def _allow(rules: int, path: str, rights: int) -> None:
    with contextlib.suppress(OSError):  # it was removed, or belongs to another user
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = rights if os.path.isdir(path) else rights & OF_FILES
        beneath = ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)
        _libc.syscall(ADD_RULE, rules, 1, beneath, 0)
        os.close(place)
