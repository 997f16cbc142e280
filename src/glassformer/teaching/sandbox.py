"""Grader's side of a submission: a student whose code runs in a separate process.

A process that takes too long is killed, and started again without the part that failed.
"""

import contextlib
import math
import os
import secrets
import select
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glassformer.config.errors import GlassformerError
from glassformer.teaching.answering import OUT_OF_MEMORY
from glassformer.teaching.exercise import StudentError
from glassformer.teaching.isolation import MB
from glassformer.teaching.nursery import STARTING, Nursery
from glassformer.teaching.wire import HEAD, Malformed, Unsendable, pack, sizes, unpack
from glassformer.text.escaping import printable_line

READ_SECONDS = 60
"""Time limit in seconds for reading and parsing a file, whose size is limited too."""
IN_ALL = 10
"""Time limit of a whole submission, as a multiple of the limit per cell."""
MAX_RESTARTS = 20
"""Maximum number of restarts of a submission's process."""
GLANCE = 0.1
"""Seconds between two checks of a process's memory."""
LONGEST_LINE = 400
"""Maximum number of characters in an error line."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a submission."""

    seconds: float = 30
    """Time limit for each cell and each call of a function or module."""
    memory: int = 2048
    """Memory limit in MB, in addition to the memory that PyTorch needs."""


@dataclass(frozen=True)
class Source:
    """A submission's file, opened but not read."""

    name: str
    file: int
    """File descriptor."""
    cells: Sequence[str]
    """The lesson's own cells, as `submitted.own_cells` returns them."""
    asked: Sequence[str]
    """Names that the lesson's exercises use."""
    hidden: Collection[str] = ()
    """Files that every process of the submission tries to read, to report whether it can."""


class PartInfo(NamedTuple):
    """Description of a part of a submission, received before any of its code ran."""

    label: str
    is_ours: bool
    names: Collection[str]


class Unreadable(Exception):
    """Raised for a file that is not a submission; the message is one line."""


FORGED = "writes into the pipe of its answers"


class Ended(Exception):
    """Raised if a submission's process ended or broke a limit; the message is one line."""


class _Process:
    """Process of a submission, and the pipes to it."""

    def __init__(self, nursery: Nursery, bounds: Bounds, source: Source, module: str) -> None:
        self.bounds = bounds
        self.printed = 0
        self._nursery = nursery
        pipes = [os.pipe() for _ in range(3)]
        (requests, self._requests), (self._replies, replies), (self._output, output) = pipes
        os.lseek(source.file, 0, os.SEEK_SET)
        about = {"module": module, "hidden": list(source.hidden)}
        try:
            self._handle = nursery.begin(about, bounds.memory, [source.file, requests, replies, output])
        finally:
            for end in (requests, replies, output):
                os.close(end)
        for end in (self._requests, self._replies, self._output):
            os.set_blocking(end, False)
        self._most = math.inf
        self._next_glance = 0.0
        self.pid = _pid_of(self._handle)
        try:
            said = self._receive(time.monotonic() + STARTING, "does not begin")
            self.isolation = [*nursery.isolation, *map(str, said["isolation"])]
        except Ended:
            self.close()
            raise GlassformerError("a process for a submission does not begin") from None
        self._most = self._memory() + bounds.memory * MB

    def send(self, request: Mapping[str, Any], seconds: float, late: str) -> int:
        """Send a request, and return its number, which every reply to it repeats.

        `late`: message of `Ended` if the process takes longer than `seconds`.
        """
        until = time.monotonic() + seconds
        number = secrets.randbelow(2**62)
        rest = memoryview(pack({**request, "number": number}))
        while rest:
            for pipe in self._wait([self._output], [self._requests], until, late):
                if pipe == self._requests:
                    try:
                        rest = rest[os.write(pipe, rest) :]
                    except BlockingIOError:  # the process may have filled or emptied the pipe itself
                        continue
                    except OSError:
                        raise Ended("ends its process") from None
                else:
                    self._drain()
        return number

    def reply(self, number: int, seconds: float, late: str) -> Any:
        """Return the next reply to a request."""
        reply = self._receive(time.monotonic() + seconds, late)
        repeated = reply.get("number")
        if type(repeated) is not int or repeated != number:
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
                try:
                    piece = os.read(pipe, min(length - len(pieces), 2**20))
                except BlockingIOError:  # the process can open its end for reading, and read it itself
                    continue
                if not piece:
                    raise Ended("ends its process")
                pieces += piece
        return bytes(pieces)

    def _wait(self, readable: Sequence[int], writable: Sequence[int], until: float, late: str) -> list[int]:
        """Return the pipes that are ready. Raise `Ended` if the process exceeds its time or memory."""
        poll = select.poll()
        for pipe in readable:
            if pipe >= 0:
                poll.register(pipe, select.POLLIN)
        for pipe in writable:
            poll.register(pipe, select.POLLOUT)
        while True:
            ready = [pipe for pipe, _ in poll.poll(GLANCE * 1000)]
            now = time.monotonic()
            if now > until:
                raise Ended(late)
            if now > self._next_glance:
                self._next_glance = now + GLANCE
                if self._memory() > self._most:
                    raise Ended(f"needs more than {self.bounds.memory} MB of memory")
            if ready:
                return ready

    def _drain(self) -> None:
        if self._output < 0:
            return
        try:
            piece = os.read(self._output, 2**16)
        except BlockingIOError:  # the process has read it itself
            return
        if not piece:
            os.close(self._output)
            self._output = -1
        self.printed += len(piece)

    def _memory(self) -> int:
        try:
            with open(f"/proc/{self.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):  # the process has ended
            return 0

    def close(self) -> None:
        """Kill the process. The nursery waits for its end before it starts another process."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        for pipe in (self._requests, self._replies, self._output):
            if pipe >= 0:
                os.close(pipe)
        self._nursery.bury(self._handle)


def _pid_of(handle: int) -> int:
    """Return the process id that a handle (a pidfd) stands for in this process's namespace."""
    with open(f"/proc/self/fdinfo/{handle}") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("Pid:")), -1)


def _line(reply: Mapping[str, Any]) -> str:
    """Return the error in a reply as one short line without control characters, because the sender is not trusted."""
    line = reply.get("line")
    return printable_line(line[:LONGEST_LINE]) if isinstance(line, str) else ""


@dataclass
class Sandboxed:
    """Student whose code runs in another process."""

    nursery: Nursery
    source: Source
    bounds: Bounds
    module: str = "__main__"
    parts: Sequence[PartInfo] = ()
    isolation: Sequence[str] = ()
    """Forbidden actions that the process tried; "weak" marks actions that succeeded."""
    wrong: dict[int, str] = field(default_factory=dict)
    """Error lines by number of the part."""
    printed: int = 0
    """Number of bytes that the submission printed."""
    _lost: set[int] = field(default_factory=set)
    """Numbers of parts that are not run again."""
    _process: _Process | None = None
    _left: float = 0
    _started: int = 0

    def __post_init__(self) -> None:
        self._left = IN_ALL * self.bounds.seconds

    def value(self, name: str) -> Any:
        return self._ask(name, "value", name)

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self._ask(name, "call", name, args, dict(kwargs))

    def run_module(self, name: str, *call: Any) -> Any:
        return self._ask(name, "run_module", name, *call)

    def _ask(self, name: str, do: str, *args: Any) -> Any:
        try:
            self.begin()
        except Unreadable:
            raise StudentError("cannot be read in time") from None
        try:
            reply = self._reply(self._send(do, *args))
        except Ended as ended:
            raise StudentError(str(ended)) from None
        except Unsendable as error:
            raise GlassformerError(f"an exercise asks with {error}") from None
        if "given" in reply:
            return reply["given"]
        line = _line(reply) or "gives no answer"
        raise StudentError(line + self._reason(name) if line == f"{name} is not defined" else line)

    def _reason(self, name: str) -> str:
        """Return why a name is not defined: the error of the part that should define it; empty if unknown."""
        return next((f": {self.parts[place].label} {line}" for place, line in self.wrong.items()
                     if name in self.parts[place].names), "")  # fmt: skip

    def begin(self) -> None:
        """Read the file and run all parts that can be run, unless the process is ready.

        Raise `Unreadable` if the file cannot be read, and `StudentError` if the submission has used up its time or its
        restarts.
        """
        while self._process is None:
            if self._left <= 0:
                raise StudentError(self._late_in_all())
            if self._started > MAX_RESTARTS:
                raise StudentError(f"ends its process more than {MAX_RESTARTS} times")
            began, self._started = time.monotonic(), self._started + 1
            self._process = _Process(self.nursery, self.bounds, self.source, self.module)
            self.isolation = self._process.isolation
            parts = self._read()
            self.parts = self.parts or parts
            if self._started > 1:  # the first start may include the start of the nursery
                self._left -= time.monotonic() - began
                if self._left <= 0:
                    self.end()
                    continue
            places = [place for place in range(len(parts)) if place not in self._lost]
            try:
                request = self._send("run", places)
            except Ended as ended:  # none of the student's code has run in this process yet
                if self._started > 1:
                    raise StudentError(str(ended)) from None
                raise Unreadable(f"{self.source.name} {ended}") from None
            for place in places:
                try:
                    line = _line(self._reply(request))
                except Ended as ended:
                    self.wrong[place] = str(ended)
                    self._lost.add(place)
                    break
                if line:
                    self.wrong[place] = line
                if line.startswith(OUT_OF_MEMORY):  # the process may still hold the memory
                    self._lost.add(place)
                    self.end()
                    break

    def _read(self) -> list[PartInfo]:
        """Make the process read the file, before any of the student's code runs, and return the parts."""
        try:
            assert self._process is not None
            asked = [self.source.name, list(self.source.cells), list(self.source.asked)]
            late = f"takes more than {READ_SECONDS:g} s"
            request = self._process.send({"do": "read", "with": asked}, READ_SECONDS, late)
            reply = self._process.reply(request, READ_SECONDS, late)
        except Ended as ended:
            self.end()
            raise Unreadable(f"{self.source.name}, as it is read, {ended}") from None
        told = reply.get("given")
        if told is None or "problem" in told:
            self.end()
            raise Unreadable(f"{self.source.name} {_line(reply)}" if told is None else told["problem"])
        return [PartInfo(str(label), bool(is_ours), set(names)) for label, is_ours, names in told["parts"]]

    def _send(self, do: str, *args: Any) -> int:
        with self._timed() as (process, seconds, late):
            return process.send({"do": do, "with": list(args)}, seconds, late)

    def _reply(self, request: int) -> Any:
        with self._timed() as (process, seconds, late):
            return process.reply(request, seconds, late)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[tuple[_Process, float, str]]:
        """Yield the process, its time limit and the message for exceeding it; close the process if it ends."""
        assert self._process is not None
        began = time.monotonic()
        try:
            if self._left < self.bounds.seconds:
                yield self._process, self._left, self._late_in_all()
            else:
                yield self._process, self.bounds.seconds, f"takes more than {self.bounds.seconds:g} s"
        except Ended:
            self.end()
            raise
        finally:
            self._left -= time.monotonic() - began

    def _late_in_all(self) -> str:
        return f"takes more than {IN_ALL * self.bounds.seconds:g} s in all"

    def end(self) -> None:
        if self._process is not None:
            self.printed += self._process.printed
            self._process.close()
            self._process = None
