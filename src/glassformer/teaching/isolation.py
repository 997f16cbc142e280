"""Confinement of a submission's process, and probes of the actions that the process can still perform.

`confine` runs in the submission's own process. `probe` then tries forbidden actions in the same process.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import secrets
import socket
import stat
import struct
import threading
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MB = 2**20
PRIVATE_FOLDER = "/submission"
"""Folder in bubblewrap's view that a submission may write to."""
PRIVATE_SIZE = b"size=64m,nr_inodes=4096,mode=777"
MAX_FILE_BYTES = 64 * MB
MAX_OPEN_FILES = 256
MAX_THREADS = 64
USERS = (2_000_000_000, 65534)
"""User ids that root changes to, the first that works: a user without files, then the usual unprivileged user."""
PDEATHSIG, DUMPABLE, SECCOMP, NO_NEW_PRIVS = 1, 4, 22, 38
"""Options of prctl."""
NEW_MOUNTS, NEW_IPC = 0x20000, 0x8000000
"""Flags of unshare."""
PRIVATE_MOUNTS, NO_SUID_OR_DEVICES = 0x44000, 0x6
"""Flags of mount; the first is recursive."""

SYSTEM_CALLS = tomllib.loads(Path(__file__).with_name("system_calls.toml").read_text())
"""Architecture constant of seccomp and numbers of system calls, by machine."""
ON_ALL_MACHINES = SYSTEM_CALLS.pop("all")
CHECKED = ("clone", "clone3", "kill", "tgkill", "prlimit64", "fcntl", "prctl")
"""Listed calls that are allowed for some arguments, or answered as missing; all other listed calls are refused."""

_libc = ctypes.CDLL(None, use_errno=True)


class NotConfined(Exception):
    """Raised if this process cannot be confined enough to run a submission; the message is one line."""


@dataclass(frozen=True)
class Confinement:
    """Confinement of a submission's process."""

    folder: str
    """The only folder that the process may write to."""
    memory: int
    """Memory limit in MB, in addition to the memory that PyTorch needs."""
    own_folder: bool = False
    """Whether to mount a folder that no other process sees, which needs bubblewrap."""
    readable: Sequence[str] = ()
    covered: Sequence[str] = ()
    """Files and folders in the readable ones that stay hidden. Landlock enforces both, if there is no bubblewrap."""
    runs: Sequence[str] = ()
    """Trained runs to link into the folder."""


def _call(name: str, *args: object) -> bool:
    return getattr(_libc, name)(*args) == 0


def _prctl(option: int, value: int = 0, pointer: object = 0) -> bool:
    return _call("prctl", option, value, pointer, 0, 0)


def set_readable_by_others(readable: bool) -> None:
    """Set whether processes of the same user may read this process's memory."""
    _prctl(DUMPABLE, int(readable))


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    _prctl(PDEATHSIG, 9)


def confine(box: Confinement) -> None:
    """Give up all rights that a submission must not have. Raise `NotConfined` if this process would stay root."""
    if box.own_folder:
        _mount_private(box.folder)
    threads = MAX_THREADS
    if os.geteuid() and not box.own_folder:  # the limit includes the user's running threads
        threads += _threads_of(os.getuid())
    if os.geteuid() == 0:
        _become_other_user(box)
    set_readable_by_others(True)  # otherwise its own files in /proc belong to root
    end_with_parent()
    _drop_capabilities()
    _prctl(NO_NEW_PRIVS, 1)
    os.chdir(box.folder)
    for run in box.runs:
        os.makedirs("runs", exist_ok=True)
        os.symlink(run, os.path.join("runs", os.path.basename(run)))
    with contextlib.suppress(OSError):  # if memory runs out, the kernel kills this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    _limit(box.memory, threads)
    if not box.own_folder:
        close_files(box.folder, box.readable, box.covered)
    _filter_system_calls(attributes=box.own_folder)


def _mount_private(folder: str) -> None:
    if not (_call("unshare", NEW_MOUNTS | NEW_IPC) and _call("mount", None, b"/", None, PRIVATE_MOUNTS, None)):
        raise NotConfined(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    if not _call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", NO_SUID_OR_DEVICES, PRIVATE_SIZE):
        raise NotConfined(f"no private folder: {os.strerror(ctypes.get_errno())}")


def _become_other_user(box: Confinement) -> None:
    for user in USERS:
        with contextlib.suppress(OSError):  # the container has no such user, or forbids the change
            if not box.own_folder:
                os.chown(box.folder, user, user)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            break
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise NotConfined("root cannot change to another user here")
    for file in (os.__file__, __file__):
        try:
            Path(file).read_bytes()
        except OSError:
            raise NotConfined(f"other users than root cannot read {os.path.dirname(file)}") from None


def _drop_capabilities() -> None:
    _call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))


def _limit(memory: int, threads: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _set_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory * MB)
    _set_limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    _set_limit(resource.RLIMIT_NPROC, threads)


def _set_limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (least, least))


def _threads_of(user: int) -> int:
    """Return the number of running threads of a real user id."""
    running = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # the process has ended
            lines = Path(f"/proc/{process}/status").read_text(errors="replace").splitlines()
            status = {name: words.split() for name, _, words in (line.partition(":") for line in lines)}
            if int(status["Uid"][0]) == user:
                running += int(status["Threads"][0])
    return running


# --- probes ---


def probe(hidden: Collection[str]) -> list[str]:
    """Try forbidden actions, and return one line per action; "weak" marks actions that succeed.

    `hidden`: files that must not be readable.
    """
    return [failed if not attempt() else f"weak: {succeeded}" for failed, succeeded, attempt in _attempts(hidden)]


def _attempts(hidden: Collection[str]) -> list[tuple[str, str, Callable[[], bool]]]:
    return [
        ("hidden files closed", "hidden files can be read", lambda: any(map(_can_read, hidden))),
        ("/etc/shadow closed", "/etc/shadow can be read", lambda: _can_read("/etc/shadow")),
        ("no sockets", "sockets can be opened", _can_open_socket),
        ("no new processes", "new processes can be started", _can_start_process),
        ("no files outside its folder", "files outside its folder can be written", lambda: any(map(_can_write, hidden))
         or any(_can_write(f"{folder}/x") for folder in ("", "/tmp", "/dev/shm", "/var/tmp"))),
        ("no changed modes of hidden files", "modes of hidden files can be changed",
         lambda: any(map(_can_change_mode, hidden))),
        ("no changed priorities", "priorities can be changed", _can_change_priority),
    ]  # fmt: skip


def _succeeds(attempt: Callable[..., object], *args: Any) -> bool:
    try:
        attempt(*args)
    except OSError:
        return False
    return True


def _can_read(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _can_write(beside: str) -> bool:
    """Return whether a file can be created in the folder of `beside`. Remove the file again."""
    path = os.path.join(os.path.dirname(beside), f".glassformer-{secrets.token_hex(8)}")
    if not _succeeds(lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))):
        return False
    _succeeds(os.unlink, path)
    return True


def _can_change_mode(path: str) -> bool:
    """Return whether a file's mode can be set, by setting it to its current value."""
    return _succeeds(lambda: os.chmod(path, stat.S_IMODE(os.stat(path).st_mode)))


def _can_change_priority() -> bool:
    """Return whether this process may set priorities, by setting its own to the current value."""
    return _succeeds(lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)))


def _can_open_socket() -> bool:
    kinds = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
    return any(_succeeds(lambda kind: socket.socket(kind).close(), kind) for kind in kinds)


def _can_start_process() -> bool:
    with contextlib.suppress(OSError):
        child = os.fork()
        if child == 0:
            os._exit(0)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        return True
    try:
        os.execv("/", ["/"])
    except OSError as error:
        return error.errno != errno.EPERM  # without the filter, executing a folder fails with EACCES


def probe_threads() -> str:
    """Start more threads than the limit, and return the report. Call it in a new process: its threads remain."""
    lock = threading.Lock()
    lock.acquire()
    threading.stack_size(2**16)
    try:
        for _ in range(MAX_THREADS + 1):
            threading.Thread(target=lock.acquire, daemon=True).start()
    except (RuntimeError, MemoryError):
        return f"at most {MAX_THREADS} threads"
    return "weak: threads are not limited"


# --- filter of system calls: a program for seccomp ---

ALLOW, REFUSE, MISSING = 0x7FFF0000, 0x50001, 0x50026
"""Actions of the filter: allow, fail with EPERM, fail with ENOSYS (so that libc starts threads with `clone`)."""
LOAD, EQUAL, HAS_BITS, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, MACHINE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in the `seccomp_data` that the filter reads."""
THREAD = 0x10000
SET_OWNER, SET_SIGNAL, SET_OWNER_EX = 8, 10, 15
"""Commands of fcntl with which a pipe would send any signal to another process."""
X32 = 0x40000000
"""First number of the x32 calls on x86-64, which would bypass the filter."""

Step = tuple[int, int, int, int]


def _filter_system_calls(*, attributes: bool) -> bool:
    """Install the filter, and return whether that succeeded.

    `attributes`: whether to allow changes to modes, owners and times of files.
    """
    table = SYSTEM_CALLS.get(platform.machine())
    if table is None:
        return False
    numbers = {**table["calls"], **ON_ALL_MACHINES["calls"]}
    if not attributes:
        numbers |= {**table["attributes"], **ON_ALL_MACHINES["attributes"]}
    steps = list(_steps(table["architecture"], numbers, os.getpid()))
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(buffer)))
    return _prctl(SECCOMP, 2, program)


def _steps(machine: int, numbers: dict[str, int], own: int) -> Iterator[Step]:
    """Yield the filter's steps: (operation, steps to skip if true, steps to skip if false, value)."""
    yield from ((LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, machine), (RETURN, 0, 0, REFUSE), (LOAD, 0, 0, NUMBER))
    yield from ((AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE))
    for name, number in numbers.items():
        if name not in CHECKED:
            yield from ((EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE))
    yield from ((EQUAL, 0, 1, numbers["clone3"]), (RETURN, 0, 0, MISSING))
    yield from _if_first(numbers["clone"], (HAS_BITS, 0, 1, THREAD))
    for name in ("kill", "tgkill"):
        yield from _if_first(numbers[name], (EQUAL, 0, 1, own))
    yield from _if_first(numbers["prctl"], (EQUAL, 1, 0, PDEATHSIG))
    yield from ((EQUAL, 0, 5, numbers["prlimit64"]), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 1, 0, 0))
    yield from ((EQUAL, 0, 1, own), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE))
    yield from ((EQUAL, 0, 6, numbers["fcntl"]), (LOAD, 0, 0, SECOND_ARGUMENT), (EQUAL, 2, 0, SET_OWNER))
    yield from ((EQUAL, 1, 0, SET_SIGNAL), (EQUAL, 0, 1, SET_OWNER_EX), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW))
    yield (RETURN, 0, 0, ALLOW)


def _if_first(number: int, test: Step) -> Iterator[Step]:
    """Yield the steps that allow a call only if its first argument passes a test."""
    yield from ((EQUAL, 0, 4, number), (LOAD, 0, 0, FIRST_ARGUMENT), test)
    yield from ((RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE))


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of Landlock's system calls, which are the same on all machines."""
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
CHANGE = 0b1_1111_1111_0000 | WRITE_FILE
"""Rights to write, create and remove files."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
"""Rights that a rule for a single file may have."""
ABI_WITH_TRUNCATE = 3
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


def close_files(folder: str, readable: Collection[str], covered: Collection[str]) -> bool:
    """Restrict file access with Landlock, and return whether the system supports it.

    The process may write only to `folder`. It may read only `folder`, and `readable` without `covered`.
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
    """Yield the files and folders that together contain all of `path` except the covered paths."""
    if path in covered:
        return
    if not any(one.startswith(f"{path}/") for one in covered):
        yield path
        return
    for name in os.listdir(path):
        yield from _without(os.path.join(path, name), covered)


def _allow(rules: int, path: str, rights: int) -> None:
    with contextlib.suppress(OSError):  # the file was removed, or belongs to another user
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = rights if os.path.isdir(path) else rights & OF_FILES
        beneath = ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)
        _libc.syscall(ADD_RULE, rules, 1, beneath, 0)
        os.close(place)
