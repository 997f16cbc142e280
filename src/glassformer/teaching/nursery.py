"""Nursery: a process that imports PyTorch once and is forked for each submission.

Submissions are isolated with bubblewrap or, if it is not available, with Landlock and seccomp alone.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from glassformer.config.errors import GlassformerError, Misuse
from glassformer.teaching.isolation import PRIVATE_FOLDER, Confinement, set_readable_by_others
from glassformer.teaching.view import View, bubblewrap, find_bubblewrap

START = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from glassformer.teaching.submission import nursery
nursery(int(sys.argv[1]))
"""
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "GLASSFORMER_LIMITS")
"""Environment variables of the grader that a submission sees; none of them is secret."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PLAIN = {"MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": "", "USER": "student"}
"""Environment variables that disable windows and GPUs, and name users without a name."""
STARTING = 300
"""Maximum seconds to wait for a process to start, which takes long on a busy machine."""
END_SECONDS = 10
"""Maximum seconds to wait for a killed process to end."""
BACKENDS = ("bubblewrap", "landlock")
"""Isolation backends, in the order in which they are tried."""
AS_ROOT = (
    "submissions must not run as root: install bubblewrap, or start grade as another user, with an interpreter that "
    "this user can read"
)


class NoBackend(Exception):
    """Raised if an isolation backend does not work here; the message is one line."""


class Nursery:
    """Source of processes for submissions. The nursery process starts with the first of them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._backend = ""
        self._why_not = list[str]()
        self._threads = ""
        self._killed = -1
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    @property
    def isolation(self) -> list[str]:
        """Return the reasons why better backends do not work, the backend, and the report on threads."""
        return [*(f"without {reason}" for reason in self._why_not), self._backend, self._threads]

    def begin(self, about: Mapping[str, Any], memory: int, handles: Sequence[int]) -> int:
        """Start a process with the given open files, and return its handle (a pidfd)."""
        for _ in range(2):  # a submission may have ended the nursery
            with contextlib.suppress(OSError):
                channel = self._open(memory)
                self._clear()
                message = {**about, "box": asdict(self._confinement(memory))}
                socket.send_fds(channel, [json.dumps(message).encode()], handles)
                _, received, _, _ = socket.recv_fds(channel, 8, 1)
                if received:
                    return received[0]
            self.close()
        raise GlassformerError("the process that runs submissions does not begin")

    def bury(self, handle: int) -> None:
        """Register a killed process: before the next start, wait for its end, close its handle and remove its files."""
        self._killed = handle

    def _clear(self) -> None:
        """Wait for the last killed process, close its handle and remove the files that it wrote."""
        if self._killed >= 0:
            select.select([self._killed], [], [], END_SECONDS)
            os.close(self._killed)
            self._killed = -1
        if self._folder:
            subprocess.run(["rm", "-rf", "--", self._folder], stderr=subprocess.DEVNULL)  # rmtree fails on deep folders
            self._folder = ""

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = self._channel = None
        self._clear()

    def _open(self, memory: int) -> socket.socket:
        """Return the channel to the nursery process. Start the process with the first backend that works if needed."""
        if self._channel is None:
            self._why_not.clear()
            for self._backend in BACKENDS:
                try:
                    self._start(memory)
                    break
                except NoBackend as reason:
                    self.close()
                    self._why_not.append(f"{self._backend} ({reason})")
            else:
                reasons = ", ".join(self._why_not)
                raise Misuse(f"{AS_ROOT}: {reasons}" if os.geteuid() == 0 else f"submissions cannot be run: {reasons}")
        assert self._channel is not None
        return self._channel

    def _start(self, memory: int) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(STARTING)
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        paths = json.dumps(list(self._view.python_path))
        places = {"HOME": tempfile.gettempdir()}
        command = [sys.executable, "-I", "-c", START, str(theirs.fileno()), paths]
        if self._backend == "bubblewrap":
            bwrap = find_bubblewrap()
            if bwrap is None:
                theirs.close()
                raise NoBackend("bwrap is not installed")
            command = bubblewrap(bwrap, self._view, command)
            places = {"HOME": PRIVATE_FOLDER, "TMPDIR": PRIVATE_FOLDER}
        with theirs:
            self._process = subprocess.Popen(
                command,
                env={**environment, **ONE_THREAD, **PLAIN, **places},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        with contextlib.suppress(OSError):  # the process has ended: its last line is the reason
            self._channel.send(json.dumps(asdict(self._confinement(memory))).encode())
            self._threads = self._channel.recv(100).decode()
            self._clear()
            if self._threads:
                return
        _, said = self._process.communicate(timeout=STARTING)
        raise NoBackend(said.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("bwrap: "))

    def _confinement(self, memory: int) -> Confinement:
        if self._backend == "bubblewrap":
            return Confinement(PRIVATE_FOLDER, memory, own_folder=True, runs=self._view.runs)
        self._clear()
        self._folder = tempfile.mkdtemp(prefix="glassformer-")
        return Confinement(
            self._folder, memory, readable=self._view.readable, covered=self._view.covered, runs=self._view.runs
        )


@contextlib.contextmanager
def nursery(view: View) -> Iterator[Nursery]:
    """Yield a nursery. Until it is closed, no other process can read the memory of this one."""
    if not hasattr(os, "pidfd_open"):
        raise Misuse(
            "to run what was handed in needs Linux, or a container; lesson.check(…) in a notebook runs anywhere"
        )
    one = Nursery(view)
    set_readable_by_others(False)
    try:
        yield one
    finally:
        one.close()
        set_readable_by_others(True)
