"""How a process shuts itself in before it runs what a student wrote. Each wall is put up where the system allows it,
and said to be there only then.
"""

import ctypes
import os
import platform
import resource
import stat
import struct
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from glassformer.teaching.landlock import close_files

MB = 2**20
COVERED, READ_ONLY_FILES = "hidden files covered", "files read-only"
LARGEST_FILE = 64 * MB
NOBODY = 65534
PDEATHSIG, DUMPABLE, SECCOMP, NO_NEW_PRIVS = 1, 4, 22, 38
"""Of prctl."""
NEWNS, NEWIPC, NEWUSER, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x40000000
"""Of unshare."""
PRIVATE, BIND, READ_ONLY, NO_SUID_OR_DEVICES = 0x44000, 0x1000, 0x1, 0x6
"""Of mount; private is recursive."""
MOUNT_SETATTR, HERE, RECURSIVE = 442, -100, 0x8000

SYSTEM_CALLS = {
    "x86_64": (0xC000003E, {
        "clone": 56, "clone3": 435, "kill": 62, "tgkill": 234, "prlimit64": 302, "fcntl": 72,
        "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "socket": 41, "connect": 42, "ptrace": 101,
        "process_vm_readv": 310, "process_vm_writev": 311, "tkill": 200, "rt_sigqueueinfo": 129,
        "rt_tgsigqueueinfo": 297, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "bpf": 321,
        "perf_event_open": 298, "keyctl": 250, "userfaultfd": 323, "socketpair": 53, "memfd_create": 319,
        "shmget": 29, "msgget": 68, "semget": 64,
    }),
    "aarch64": (0xC00000B7, {
        "clone": 220, "clone3": 435, "kill": 129, "tgkill": 131, "prlimit64": 261, "fcntl": 25,
        "execve": 221, "execveat": 281, "socket": 198, "connect": 203, "ptrace": 117,
        "process_vm_readv": 270, "process_vm_writev": 271, "tkill": 130, "rt_sigqueueinfo": 138,
        "rt_tgsigqueueinfo": 240, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "bpf": 280,
        "perf_event_open": 241, "keyctl": 219, "userfaultfd": 282, "socketpair": 199, "memfd_create": 279,
        "shmget": 194, "msgget": 186, "semget": 190,
    }),
}  # fmt: skip
"""By machine: its name for seccomp, and the numbers of its calls. Those that keep memory which no limit counts are
among them: memfd_create, shmget, msgget, semget."""
ON_ALL_MACHINES = {"pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430,
                   "fspick": 433, "pidfd_open": 434, "pidfd_getfd": 438, "mount_setattr": MOUNT_SETATTR,
                   "memfd_secret": 447}  # fmt: skip
CHECKED = ("clone", "clone3", "kill", "tgkill", "prlimit64", "fcntl")
"""Calls that are allowed for some arguments, or said not to exist; all others in the lists are refused."""

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: object) -> bool:
    return getattr(_libc, name)(*args) == 0


def _prctl(option: int, value: object = 0) -> bool:
    return _call("prctl", option, value, 0, 0, 0)


def set_readable_by_others(readable: bool) -> None:
    """Whether processes of the same user may look into this one's memory."""
    _prctl(DUMPABLE, int(readable))


def shut_in(folder: str, hidden: Collection[str], memory: int) -> list[str]:
    """Leave this process the folder and `memory` MB, and little else; gives what could be done, in words.

    `hidden`: files and folders that it cannot read from now on.
    """
    words = list[str]()
    set_readable_by_others(True)  # otherwise its own files in /proc are not its own
    if _unshare():
        words.append("no network")
        words += _mount(folder, hidden)
    if os.geteuid() == 0 and _readable_by_all() and _become_nobody(folder):
        words.append("another user")
    _prctl(PDEATHSIG, 9)
    _drop_capabilities()
    _prctl(NO_NEW_PRIVS, 1)
    os.chdir(folder)
    if close_files(folder, hidden):  # also what another process still sees below its /proc/PID/root
        words += [word for word in (COVERED, READ_ONLY_FILES) if word not in words]
    filtered = _filter_system_calls()
    _limit(memory, processes=filtered)
    words += [f"{memory} MB of memory", f"files of {LARGEST_FILE // MB} MB"]
    words.append("no new processes, no sockets" if filtered else "weak: new processes and sockets are possible")
    return words if COVERED in words else [*words, "weak: hidden files can be read"]


def _unshare() -> bool:
    """Namespaces of its own."""
    apart = NEWNS | NEWIPC | NEWNET
    user, group = os.getuid(), os.getgid()
    if user == 0 and _call("unshare", apart):
        return True
    if not _call("unshare", apart | NEWUSER):
        return False
    try:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", file).write_text(text)
    except OSError:
        return False
    return True


def _mount(folder: str, hidden: Collection[str]) -> list[str]:
    """Nothing over what is hidden, a small disk of its own at the folder, and the rest for reading alone."""
    if not _call("mount", None, b"/", None, PRIVATE, None):
        return []
    size = f"size={LARGEST_FILE},mode=777".encode()
    if not _call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", NO_SUID_OR_DEVICES, size):
        return []
    covered = [_cover(path) for path in hidden if os.path.lexists(path)]
    read_only = _set_read_only("/", True) and _set_read_only(folder, False)
    return [COVERED] * all(covered) + [READ_ONLY_FILES] * read_only


def _cover(path: str) -> bool:
    where = os.fsencode(os.path.realpath(path))
    if os.path.isdir(where):
        return _call("mount", b"tmpfs", where, b"tmpfs", NO_SUID_OR_DEVICES | READ_ONLY, b"size=4k")
    return _call("mount", b"/dev/null", where, None, BIND, None)


def _set_read_only(path: str, on: bool) -> bool:
    attributes = ctypes.create_string_buffer(struct.pack("QQQQ", int(on), int(not on), 0, 0), 32)
    flags = RECURSIVE if on else 0
    return _call("syscall", MOUNT_SETATTR, HERE, os.fsencode(path), flags, attributes, ctypes.c_size_t(32))


def _readable_by_all() -> bool:
    """Whether another user could import what this one does."""
    places = [Path(place).resolve() for place in (sys.base_prefix, sys.prefix, __file__, os.__file__)]
    return all(_others_enter(one) for place in places for one in (place, *place.parents) if one.is_dir())


def _become_nobody(folder: str) -> bool:
    try:
        os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:  # a container that has no such rights
        return False
    return True


def _others_enter(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def _drop_capabilities() -> None:
    _call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))


def _limit(memory: int, *, processes: bool) -> None:
    """`processes`: whether new ones are refused already; otherwise their number is limited."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + memory * MB,
        resource.RLIMIT_FSIZE: LARGEST_FILE,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
    }
    if not processes:
        limits[resource.RLIMIT_NPROC] = 512
    for which, most in limits.items():
        _, hard = resource.getrlimit(which)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (least, least))


# --- which system calls there are, in seccomp's language ---

ALLOW, REFUSE, MISSING = 0x7FFF0000, 0x50001, 0x50026
"""What happens to a call: EPERM, ENOSYS (so that threads are made in the older way)."""
LOAD, EQUAL, HAS_BITS, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, MACHINE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24
"""Where they are in what the filter is shown."""
THREAD = 0x10000
SET_OWNER, SET_SIGNAL, SET_OWNER_EX = 8, 10, 15
"""Of fcntl: a pipe would send another process any signal."""
X32 = 0x40000000
"""Calls of x86's third way, which would pass by."""

Step = tuple[int, int, int, int]


def _filter_system_calls() -> bool:
    if platform.machine() not in SYSTEM_CALLS:
        return False
    steps = list(_steps(*SYSTEM_CALLS[platform.machine()], os.getpid()))
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(buffer)))
    return _prctl_pointer(SECCOMP, 2, program)


def _prctl_pointer(option: int, value: int, pointer: object) -> bool:
    return _call("prctl", option, value, pointer, 0, 0)


def _steps(machine: int, numbers: dict[str, int], own: int) -> Iterator[Step]:
    """Each rule ends or is stepped over: (operation, steps over if so, steps over if not, value)."""
    yield from ((LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, machine), (RETURN, 0, 0, REFUSE), (LOAD, 0, 0, NUMBER))
    yield from ((AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE))
    for name, number in {**numbers, **ON_ALL_MACHINES}.items():
        if name not in CHECKED:
            yield from ((EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE))
    yield from ((EQUAL, 0, 1, numbers["clone3"]), (RETURN, 0, 0, MISSING))
    yield from _if_first(numbers["clone"], (HAS_BITS, 0, 1, THREAD))
    for name in ("kill", "tgkill"):
        yield from _if_first(numbers[name], (EQUAL, 0, 1, own))
    yield from ((EQUAL, 0, 5, numbers["prlimit64"]), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 1, 0, 0))
    yield from ((EQUAL, 0, 1, own), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE))
    yield from ((EQUAL, 0, 6, numbers["fcntl"]), (LOAD, 0, 0, SECOND_ARGUMENT), (EQUAL, 2, 0, SET_OWNER))
    yield from ((EQUAL, 1, 0, SET_SIGNAL), (EQUAL, 0, 1, SET_OWNER_EX), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW))
    yield (RETURN, 0, 0, ALLOW)


def _if_first(number: int, test: Step) -> Iterator[Step]:
    """A call is allowed if its first argument is so."""
    yield from ((EQUAL, 0, 4, number), (LOAD, 0, 0, FIRST_ARGUMENT), test)
    yield from ((RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE))
