"""Student's side of grading: the process that runs a submission.

`nursery` imports PyTorch once and forks a process for each submission. That process confines itself, runs the cells and
answers requests. It knows neither references nor points.
"""

import __future__

import builtins
import contextlib
import gc
import importlib
import importlib.abc
import io
import json
import linecache
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import torch

from glassformer.config.errors import GlassformerError
from glassformer.teaching.answering import Here, NotAllowed, what_happened
from glassformer.teaching.exercise import StudentError
from glassformer.teaching.isolation import (
    Confinement,
    NotConfined,
    confine,
    end_with_parent,
    probe,
    probe_threads,
    set_readable_by_others,
)
from glassformer.teaching.submitted import Part, read_submission, without_magics
from glassformer.teaching.wire import HEAD, Unsendable, pack, sizes, unpack

REFUSED = ("socket", "_socket", "ssl", "_posixsubprocess", "ctypes", "_ctypes", "cffi", "pty", "glassformer.teaching",
           "glassformer.cli")  # fmt: skip
"""Modules that a submission must not import.

`subprocess` and `multiprocessing` are allowed, because honest submissions import them without using them. The system
refuses new processes.
"""
MAX_MESSAGE = 2**20
WARM_UP = b'{"cells": [{"cell_type": "code", "source": "%time\\ndef f(x):\\n    return x"}]}'
MAX_NAMES = 1000
"""Maximum number of names reported per part; the first in alphabetical order are kept."""
KEPT_FROM_ALL = ("glassformer.teaching.exercises", "glassformer.teaching.lesson", "glassformer.teaching.grade")
"""Modules that cannot be imported in this process, because they contain solutions."""
FUTURE_FLAGS = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def nursery(fd: int) -> None:
    """Fork a process for each message on a socket, until the parent ends.

    A message has a `Confinement` and more, and comes with the descriptors of the submission and three pipes.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_readable_by_others(False)
    end_with_parent()
    torch.set_num_threads(1)
    channel = socket.socket(fileno=fd)
    channel.sendall(_rehearse(json.loads(channel.recv(MAX_MESSAGE))).encode())
    read_submission(WARM_UP, "warm-up.ipynb", [], set())  # compiles regular expressions before the forks
    gc.freeze()  # a collection in a fork would copy all of torch's objects
    while True:
        about, handles, _, _ = socket.recv_fds(channel, MAX_MESSAGE, 4)
        if not about:
            return
        pid = os.fork()
        if pid == 0:
            message, about = [about], b""  # so that no frame above the submission holds the paths
            _live(json.loads(message.pop()), handles)
        for handle in handles:
            os.close(handle)
        try:
            handle = os.pidfd_open(pid)
        except OSError:  # the process has ended
            channel.sendall(b"ended")
        else:
            socket.send_fds(channel, [b"begun"], [handle])
            os.close(handle)


def _rehearse(box: Mapping[str, Any]) -> str:
    """Confine a fork of this process, and return its report on threads.

    If that fails, end this process with the reason as its last line.
    """
    said, say = os.pipe()
    if os.fork() == 0:
        try:
            confine(Confinement(**box))
            os.write(say, f"ok {probe_threads()}".encode())
        except (NotConfined, OSError) as error:
            os.write(say, str(error).encode())
        finally:
            os._exit(0)
    os.close(say)
    with open(said) as pipe:
        result, _, threads = (line := pipe.read()).partition(" ")
    if result != "ok":
        raise SystemExit(line or "a process cannot be confined")
    return threads


def _live(about: Mapping[str, Any], handles: Sequence[int]) -> NoReturn:
    file, requests, replies, output = handles
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for place, pipe in enumerate((nothing, output, output)):
            os.dup2(pipe, place)
        for other in {int(one) for one in os.listdir("/proc/self/fd")} - {0, 1, 2, file, requests, replies}:
            with contextlib.suppress(OSError):  # the descriptor of the listing is closed already
                os.close(other)
        box = Confinement(**about["box"])
        os.environ.update(dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "GLASSFORMER_CACHE"), box.folder))
        tempfile.tempdir = None  # forget the nursery's folder
        confine(box)
        student = _Student(about["module"], file)
        _send(replies, {"isolation": probe(about["hidden"])})
        del about, box
        while (request := _receive(requests)) is not None:
            asked = (
                [request] if request["do"] != "run" else [{"do": "run", "with": [one]} for one in request["with"][0]]
            )
            for one in asked:
                _send(replies, {**_reply(student, one), "number": request["number"]})
    finally:
        os._exit(0)


def _receive(pipe: int) -> Any:
    head = _read(pipe, HEAD.size)
    return unpack(*(_read(pipe, length) for length in sizes(head))) if head else None


def _read(pipe: int, length: int) -> bytes:
    pieces = list[bytes]()
    while length and (piece := os.read(pipe, min(length, 2**20))):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def _send(pipe: int, value: Any) -> None:
    rest = memoryview(pack(value))
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _reply(student: "_Student", request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        given = {"given": getattr(student, request["do"])(*request["with"])}
        pack(given)
        return given
    except StudentError as error:
        return {"line": str(error)}
    except Unsendable as error:
        return {"line": f"gives {error}"}
    except BaseException as error:
        return {"line": what_happened(error)}


class _Student(Here):
    """Names that the submission has defined so far."""

    def __init__(self, module: str, file: int) -> None:
        """Prepare an empty module. `module`: its name for the code. `file`: descriptor of the submission, read once."""
        self.module, self.file = ModuleType(module), file
        self.parts = list[Part]()
        self._flags = 0
        super().__init__(vars(self.module))

    def read(self, name: str, cells: Sequence[str], asked: Sequence[str]) -> dict[str, Any]:
        """Read the file before any of its code runs, and return its `parts` or the `problem`."""
        try:
            content = b"".join(iter(lambda: os.read(self.file, 2**20), b""))
            os.close(self.file)
            self.parts = read_submission(content, name, cells, set(asked))
        except GlassformerError as problem:
            return {"problem": str(problem)}
        summary = [(part.label, part.is_ours, sorted(part.names)[:MAX_NAMES]) for part in self.parts]
        _keep_sources(self.parts)
        sys.modules[self.module.__name__] = self.module
        shell = _Shell(self)
        vars(self.module).update(display=lambda *shown, **more: None, get_ipython=lambda: shell)  # as in a notebook
        _refuse_imports(vars(self.module))
        return {"parts": summary}

    def run(self, place: int) -> None:
        """Run a part."""
        self.execute(self.parts[place].source, _filename(self.parts[place]))

    def execute(self, source: str, filename: str) -> None:
        """Run source code. A `from __future__ import` also applies to all later code, as in IPython."""
        code = compile(source, filename, "exec", self._flags, dont_inherit=True)
        self._flags |= code.co_flags & FUTURE_FLAGS
        exec(code, vars(self.module))


class _Shell:
    """Replacement for the object that `get_ipython()` returns.

    It runs the code of %time, %%time and %%capture, and ignores all other calls.
    """

    def __init__(self, student: _Student) -> None:
        self._student = student

    def run_line_magic(self, name: str, line: str = "", *more: Any) -> None:
        self._run(f"%{name} {line}")

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        self._run(f"%%{name} {line}\n{cell}")

    def _run(self, source: str) -> None:
        self._student.execute(without_magics(source), "<get_ipython>")

    def __getattr__(self, name: str) -> "_Shell":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **more: Any) -> None:
        pass

    def __contains__(self, setting: object) -> bool:
        return False


def _filename(part: Part) -> str:
    return f"<{part.label}>"


def _keep_sources(parts: Sequence[Part]) -> None:
    """Make the sources of all parts available to `inspect` and tracebacks. Parts of one file share line numbers."""
    sources = dict[str, list[str]]()
    for part in parts:
        lines = sources.setdefault(_filename(part), [])
        lines += io.StringIO(part.source).readlines()[len(lines) :]
    linecache.cache.update({name: (0, None, lines, name) for name, lines in sources.items()})


def _refuse_imports(names: Mapping[str, Any]) -> None:
    """Make forbidden imports raise a clear error. Isolation does not depend on it."""
    plain_import, plain_import_module = builtins.__import__, importlib.import_module

    def guarded(
        name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
    ) -> ModuleType:
        if globals is names:
            _check([name, *(f"{name}.{part}" for part in fromlist or ())])
        module = plain_import(name, globals, locals, fromlist or (), level)
        if globals is names and name == "IPython":  # its own get_ipython() returns None here
            vars(module)["get_ipython"] = names.get("get_ipython")
        return module

    def import_module(name: str, package: str | None = None) -> ModuleType:
        if sys._getframe(1).f_globals is names:
            _check([name])
        return plain_import_module(name, package)

    builtins.__import__, importlib.import_module = guarded, import_module
    for name in [name for name in sys.modules if name.startswith("glassformer.teaching")]:
        del sys.modules[name]
    package = sys.modules["glassformer"]
    vars(package).pop("teaching", None)
    sys.meta_path.insert(0, _Kept())
    vars(package).update(lesson=_stand_in, grade=_stand_in)


def _check(names: Sequence[str]) -> None:
    for name in names:
        if any(name == one or name.startswith(f"{one}.") for one in REFUSED):
            raise NotAllowed(f"imports {name}, which is not allowed here")


class _Kept(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.startswith(KEPT_FROM_ALL):
            raise NotAllowed(f"imports {name}, which is not allowed here")


def _stand_in(*args: Any, **more: Any) -> Any:
    """Return a replacement for a lesson or grades. The grader runs the checks."""
    return SimpleNamespace(check=lambda **named: None, name="", title="", exercises=[], points=0)
