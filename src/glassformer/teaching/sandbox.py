"""The side of grading that asks: a student whose code runs in a process of its own, which is ended when it takes too
long, and begun again without what went wrong.
"""

import array
import contextlib
import json
import math
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from glassformer.config.errors import GlassformerError, Misuse
from glassformer.teaching.answering import OUT_OF_MEMORY
from glassformer.teaching.exercise import StudentError
from glassformer.teaching.isolation import MB, set_readable_by_others
from glassformer.teaching.submitted import Part
from glassformer.teaching.wire import HEAD, Malformed, Unsendable, pack, sizes, unpack
from glassformer.text.escaping import on_one_line, printable

START = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from glassformer.teaching.submission import nursery
nursery(int(sys.argv[1]))
"""
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""What a submission sees of the grader's; nothing of it is secret."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PLAIN = {"MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": ""}
"""No window, no GPU."""
STARTING = 300
"""Seconds after which a process that does not begin is given up: the machine may be busy."""
IN_ALL = 10
"""A submission may take so many times what one cell may."""
GLANCE = 0.1
"""Seconds between two looks at a process's memory."""
LONGEST_LINE = 400
"""Characters."""


@dataclass(frozen=True)
class Bounds:
    """What a submission may take."""

    seconds: float = 30
    """For each cell, and each call of what it defines."""
    memory: int = 2048
    """In MB, beside what torch needs."""
    hidden: Sequence[str] = ()
    """Files and folders that it cannot read."""


FORGED = "writes into the pipe of its answers"


class Ended(Exception):
    """A process is no more; says why, in one line."""


class Nursery:
    """Where processes for submissions come from; it begins with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def begin(self, about: Mapping[str, Any], pipes: Sequence[int]) -> int:
        """Start a process; gives its id."""
        for _ in range(2):  # a submission may have ended the nursery
            try:
                channel = self._open()
                socket.send_fds(channel, [json.dumps(about).encode()], pipes)
                if said := channel.recv(8):
                    return array.array("q", said)[0]
            except OSError:
                pass
            self.close()
        raise GlassformerError("the process that runs submissions does not begin")

    def _open(self) -> socket.socket:
        if self._channel is None:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._channel.settimeout(STARTING)
            environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-c", START, str(theirs.fileno()), json.dumps(sys.path)],
                    env={**environment, **ONE_THREAD, **PLAIN, "HOME": tempfile.gettempdir()},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                )
            if self._channel.recv(8) != b"ready":
                raise GlassformerError(f"submissions cannot be run: {self._last_words()}")
        return self._channel

    def _last_words(self) -> str:
        assert self._process is not None
        _, said = self._process.communicate(timeout=STARTING)
        return said.decode(errors="replace").strip().rpartition("\n")[2]

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = self._channel = None


@contextlib.contextmanager
def nursery() -> Iterator[Nursery]:
    """A nursery; as long as it is there, nobody looks into this process."""
    if not hasattr(os, "pidfd_open"):
        raise Misuse(
            "to run what was handed in needs Linux, or a container; lesson.check(…) in a notebook runs anywhere"
        )
    one = Nursery()
    set_readable_by_others(False)
    try:
        yield one
    finally:
        one.close()
        set_readable_by_others(True)


class _Process:
    """A submission's process, and its pipes."""

    def __init__(self, nursery: Nursery, bounds: Bounds, module: str) -> None:
        self.bounds = bounds
        self.printed = 0
        self.folder = tempfile.mkdtemp(prefix="glassformer-")
        about = {"folder": self.folder, "hidden": list(bounds.hidden), "memory": bounds.memory, "module": module}
        pipes = [os.pipe() for _ in range(3)]
        (requests, self._requests), (self._replies, replies), (self._output, output) = pipes
        try:
            self.pid = nursery.begin(about, [requests, replies, output])
        finally:
            for end in (requests, replies, output):
                os.close(end)
        for end in (self._requests, self._replies, self._output):
            os.set_blocking(end, False)
        self._most = math.inf
        self._handle = -1
        with contextlib.suppress(OSError):  # an older system, or it has ended
            self._handle = os.pidfd_open(self.pid)
        try:
            self.walls: list[str] = self._receive(time.monotonic() + STARTING, "does not begin")["walls"]
        except Ended:
            self.close()
            raise GlassformerError("a process for a submission does not begin") from None
        self._most = self._memory() + bounds.memory * MB

    def ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        """What it replies."""
        until = time.monotonic() + seconds
        late = f"takes more than {self.bounds.seconds:g} s"
        number = secrets.randbelow(2**62)
        rest = memoryview(pack({**request, "number": number}))
        while rest:
            for pipe in self._wait([self._output], [self._requests], until, late):
                if pipe == self._requests:
                    try:
                        rest = rest[os.write(pipe, rest) :]
                    except OSError:
                        raise Ended("ends its process") from None
                else:
                    self._drain()
        reply = self._receive(until, late)
        if reply.get("number") != number:
            raise Ended(FORGED)
        return reply

    def _receive(self, until: float, late: str) -> Any:
        try:
            text, blob = sizes(self._read(HEAD.size, until, late))
            reply = unpack(self._read(text, until, late), self._read(blob, until, late))
        except Malformed:
            raise Ended(FORGED) from None
        if not isinstance(reply, dict):
            raise Ended(FORGED)
        return reply

    def _read(self, length: int, until: float, late: str) -> bytes:
        pieces = bytearray()
        while len(pieces) < length:
            for pipe in self._wait([self._replies, self._output], [], until, late):
                if pipe == self._output:
                    self._drain()
                    continue
                piece = os.read(pipe, min(length - len(pieces), 2**20))
                if not piece:
                    raise Ended("ends its process")
                pieces += piece
        return bytes(pieces)

    def _wait(self, readable: Sequence[int], writable: Sequence[int], until: float, late: str) -> list[int]:
        """The pipes that are ready; looks at time and memory meanwhile."""
        with selectors.DefaultSelector() as selector:
            for pipe in readable:
                if pipe >= 0:
                    selector.register(pipe, selectors.EVENT_READ)
            for pipe in writable:
                selector.register(pipe, selectors.EVENT_WRITE)
            while True:
                ready = [key.fd for key, _ in selector.select(GLANCE)]
                if time.monotonic() > until:
                    raise Ended(late)
                if self._memory() > self._most:
                    raise Ended(f"needs more than {self.bounds.memory} MB of memory")
                if ready:
                    return ready

    def _drain(self) -> None:
        piece = os.read(self._output, 2**16) if self._output >= 0 else b""
        if not piece and self._output >= 0:
            os.close(self._output)
            self._output = -1
        self.printed += len(piece)

    def _memory(self) -> int:
        try:
            with open(f"/proc/{self.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):  # it has ended
            return 0

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)
        for pipe in (self._requests, self._replies, self._output, self._handle):
            if pipe >= 0:
                os.close(pipe)
        shutil.rmtree(self.folder, ignore_errors=True)


def _line(reply: Mapping[str, Any]) -> str:
    """What went wrong; whoever said it, it is one line, and steers no terminal."""
    return printable(on_one_line(str(reply.get("line", ""))[:LONGEST_LINE]))


@dataclass
class Sandboxed:
    """A student whose code runs elsewhere."""

    nursery: Nursery
    parts: Sequence[Part]
    bounds: Bounds
    module: str = "__main__"
    walls: list[str] = field(default_factory=list)
    """What keeps its code in."""
    wrong: dict[int, str] = field(default_factory=dict)
    """What went wrong with which part."""
    printed: int = 0
    """Bytes."""
    _lost: set[int] = field(default_factory=set)
    """Parts that are not run again."""
    _process: _Process | None = None
    _left: float = 0

    def __post_init__(self) -> None:
        self._left = IN_ALL * self.bounds.seconds

    def value(self, name: str) -> Any:
        return self._ask(name, "value", name)

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self._ask(name, "call", name, args, dict(kwargs))

    def run_module(
        self, name: str, build: Mapping[str, Any], weights: Mapping[str, Tensor], args: tuple[Any, ...], learn: bool
    ) -> Any:
        return self._ask(name, "run_module", name, dict(build), dict(weights), args, learn)

    def _ask(self, name: str, do: str, *args: Any) -> Any:
        self.begin()
        try:
            reply = self._request(do, *args)
        except Ended as ended:
            raise StudentError(str(ended)) from None
        except Unsendable as error:
            raise GlassformerError(f"an exercise asks with {error}") from None
        if "given" in reply:
            return reply["given"]
        line = _line(reply) or "gives no answer"
        raise StudentError(line + self._reason(name) if line == f"{name} is not defined" else line)

    def _reason(self, name: str) -> str:
        """Why a name is not defined: what went wrong where it should be."""
        return next((f": {self.parts[place].label} {line}" for place, line in self.wrong.items()
                     if name in self.parts[place].names), "")  # fmt: skip

    def begin(self) -> None:
        """Run all parts that can be run, unless that is done."""
        while self._process is None:
            if self._left <= 0:
                raise StudentError(f"takes more than {IN_ALL * self.bounds.seconds:g} s in all")
            self._process = _Process(self.nursery, self.bounds, self.module)
            self.walls = self._process.walls
            for place, part in enumerate(self.parts):
                if place in self._lost:
                    continue
                try:
                    reply = self._request("cell", part.label, part.source)
                except Ended as ended:
                    self.wrong[place] = str(ended)
                    self._lost.add(place)
                    break
                except Unsendable:
                    self.wrong[place] = "is too long to be run"
                    self._lost.add(place)
                    continue
                if line := _line(reply):
                    self.wrong[place] = line
                if line.startswith(OUT_OF_MEMORY):  # what it took may be held still
                    self._lost.add(place)
                    self.end()
                    break

    def _request(self, do: str, *args: Any) -> Any:
        assert self._process is not None
        began = time.monotonic()
        try:
            return self._process.ask({"do": do, "with": list(args)}, min(self.bounds.seconds, self._left))
        except Ended:
            self.end()
            raise
        finally:
            self._left -= time.monotonic() - began

    def end(self) -> None:
        if self._process is not None:
            self.printed += self._process.printed
            self._process.close()
            self._process = None
