"""The side of grading that asks: a student whose code runs in a process of its own, which is ended when it takes too
long, and begun again without what went wrong.
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

from torch import Tensor

from glassformer.config.errors import GlassformerError
from glassformer.teaching.answering import OUT_OF_MEMORY
from glassformer.teaching.exercise import StudentError
from glassformer.teaching.isolation import MB
from glassformer.teaching.nursery import STARTING, Nursery
from glassformer.teaching.wire import HEAD, Malformed, Unsendable, pack, sizes, unpack
from glassformer.text.escaping import on_one_line, printable

READ_SECONDS = 60
"""For reading and parsing a file, which the limit on its size bounds too."""
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


@dataclass(frozen=True)
class Source:
    """A submission's file, opened but not read."""

    name: str
    file: int
    """Its descriptor."""
    cells: Sequence[str]
    """The lesson's own cells, as `submitted.own_cells` returns them."""
    asked: Sequence[str]
    """The names that the lesson's exercises use."""
    hidden: Collection[str] = ()
    """Files that every process of the submission tries to read, to report whether it can."""


class PartInfo(NamedTuple):
    """What the grader knows of a part of a submission, told before any of its code ran."""

    label: str
    is_ours: bool
    names: Collection[str]


class Unreadable(Exception):
    """A file that is not a submission; says why in one line."""


FORGED = "writes into the pipe of its answers"


class Ended(Exception):
    """A process is no more; says why, in one line."""


class _Process:
    """A submission's process, and its pipes."""

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

    def send(self, request: Mapping[str, Any], seconds: float) -> int:
        """Send a request, and return its number, which every reply to it repeats."""
        until = time.monotonic() + seconds
        late = f"takes more than {seconds:g} s"
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
        return number

    def reply(self, number: int, seconds: float) -> Any:
        """Return the next reply to a request."""
        reply = self._receive(time.monotonic() + seconds, f"takes more than {seconds:g} s")
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
        """End the process; the nursery waits until it has ended before it starts another."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        for pipe in (self._requests, self._replies, self._output):
            if pipe >= 0:
                os.close(pipe)
        self._nursery.bury(self._handle)


def _pid_of(handle: int) -> int:
    """Return the number by which this process knows the one that a handle stands for."""
    with open(f"/proc/self/fdinfo/{handle}") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("Pid:")), -1)


def _line(reply: Mapping[str, Any]) -> str:
    """What went wrong; whoever said it, it is one line, and steers no terminal."""
    return printable(on_one_line(str(reply.get("line", ""))[:LONGEST_LINE]))


@dataclass
class Sandboxed:
    """A student whose code runs in another process."""

    nursery: Nursery
    source: Source
    bounds: Bounds
    module: str = "__main__"
    parts: Sequence[PartInfo] = ()
    isolation: Sequence[str] = ()
    """What its process tried in vain, and what succeeded."""
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
        try:
            self.begin()
        except Unreadable:
            raise StudentError("cannot be read in time") from None
        try:
            reply = self._ask_for(do, *args)
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
        """Read the file and run all parts that can be run, unless that is done. Raises `Unreadable`."""
        while self._process is None:
            if self._left <= 0:
                raise StudentError(f"takes more than {IN_ALL * self.bounds.seconds:g} s in all")
            self._process = _Process(self.nursery, self.bounds, self.source, self.module)
            self.isolation = self._process.isolation
            parts = self._read()
            self.parts = self.parts or parts
            places = [place for place in range(len(parts)) if place not in self._lost]
            try:
                request = self._send("run", places)
            except Ended as ended:  # none of the student's code has run yet
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
                if line.startswith(OUT_OF_MEMORY):  # it may still hold the memory that it took
                    self._lost.add(place)
                    self.end()
                    break

    def _read(self) -> list[PartInfo]:
        """Let the process read the file; none of the student's code has run yet."""
        try:
            assert self._process is not None
            asked = [self.source.name, list(self.source.cells), list(self.source.asked)]
            request = self._process.send({"do": "read", "with": asked}, READ_SECONDS)
            reply = self._process.reply(request, READ_SECONDS)
        except Ended as ended:
            self.end()
            raise Unreadable(f"{self.source.name}, as it is read, {ended}") from None
        told = reply.get("given")
        if told is None or "problem" in told:
            self.end()
            raise Unreadable(f"{self.source.name} {_line(reply)}" if told is None else told["problem"])
        return [PartInfo(str(label), bool(is_ours), set(names)) for label, is_ours, names in told["parts"]]

    def _ask_for(self, do: str, *args: Any) -> Any:
        return self._reply(self._send(do, *args))

    def _send(self, do: str, *args: Any) -> int:
        with self._timed() as (process, seconds):
            return process.send({"do": do, "with": list(args)}, seconds)

    def _reply(self, request: int) -> Any:
        with self._timed() as (process, seconds):
            return process.reply(request, seconds)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[tuple[_Process, float]]:
        """The process and the seconds that it has; it is closed when it has ended."""
        assert self._process is not None
        began = time.monotonic()
        try:
            yield self._process, min(self.bounds.seconds, self._left)
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
