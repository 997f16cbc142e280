"""Submissions that mean no good, in real processes: each loses its own points and no others, and the grader goes on."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from glassformer.teaching.grade import Grades, Submission, grade
from glassformer.teaching.isolation import COVERED
from glassformer.teaching.lesson import read_lesson
from glassformer.text.escaping import on_one_line, printable
from helpers import tiny_lesson

pytestmark = pytest.mark.slow

GOOD = """
import os, sys
import torch
from torch import nn

def mean(x):
    return x.mean(-1)

class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight

largest = (1, 2)
"""
ALL, MEAN, LAYER = 6, 4, 1


@dataclass(frozen=True)
class Attack:
    """What is written behind a good submission, the points that are left, and what is said."""

    code: str
    points: float
    line: str
    needs: str = ""
    """A wall, without which it cannot be held off."""


FORGED = """
from glassformer.config import errors
import json, struct
def mean(x):
    text = json.dumps({"d": [["given", 1.0], ["points", 99]]}).encode()
    for pipe in range(3, 64):
        try:
            os.write(pipe, struct.pack(">QQ", len(text), 0) + text)
        except OSError:
            pass
    return 1.0
"""
BELOW_ROOTS = """
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        try:
            largest = [open(f"/proc/{pid}/root{hidden}/{one}").read() for one in os.listdir(hidden) or ["tiny.py"]]
        except OSError:
            pass
"""
READS = "largest = [open(os.path.join({0}, one)).read() for one in os.listdir({0})] or largest"
ATTACKS = {
    "nothing": Attack("", ALL, ""),
    "loops": Attack("while True:\n    pass", ALL, "takes more than 5 s"),
    "catches all": Attack(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass", ALL, "takes more than 5 s"
    ),
    "loops in a call": Attack("def Layer(width):\n    while True: pass", ALL - LAYER, "takes more than 5 s"),
    "forks": Attack("while True:\n    os.fork()", ALL, "PermissionError", "no new processes, no sockets"),
    "takes a tensor of 10 GB": Attack("x = torch.ones(10 * 2**28)", ALL, "out of memory"),
    "takes more and more": Attack("x = []\nwhile True:\n    x.append(bytearray(2**24))", ALL, "out of memory"),
    "takes memory in a call": Attack("def mean(x):\n    return bytearray(2**33)", ALL - MEAN, "out of memory"),
    "keeps memory that nobody counts": Attack(
        'os.write(os.memfd_create("x"), bytes(2**20))', ALL, "PermissionError", "no new processes, no sockets"
    ),
    "prints 50 MB": Attack('print("x" * 50_000_000)', ALL, "prints 50 MB"),
    "exits at once": Attack("os._exit(0)", ALL, "ends its process"),
    "exits in a call": Attack("def mean(x):\n    os._exit(0)", ALL - MEAN, "ends its process"),
    "exits": Attack("raise SystemExit", ALL, "ends the program"),
    "kills its parent": Attack("os.kill(os.getppid(), 9)", ALL, "PermissionError", "no new processes, no sockets"),
    "kills its parent by a pipe": Attack(
        "import fcntl\nfcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
        ALL,
        "PermissionError",
        "no new processes, no sockets",
    ),
    "kills all": Attack("os.kill(-1, 9)", ALL, "PermissionError", "no new processes, no sockets"),
    "crashes": Attack('sys.modules["ctypes"].string_at(0)', ALL, "ends its process"),
    "writes into pipes": Attack(
        "for pipe in range(3, 64):\n    try:\n        os.write(pipe, bytes(64))\n    except OSError: pass", ALL, "pipe"
    ),
    "forges answers": Attack(FORGED, ALL - MEAN, "writes into the pipe"),
    "opens a socket": Attack('sys.modules["socket"].socket()', ALL, "PermissionError", "no new processes, no sockets"),
    "imports socket": Attack("import socket", ALL, "imports socket, which is not allowed here"),
    "imports subprocess": Attack("from subprocess import run", ALL, "imports subprocess, which is not allowed here"),
    "imports ctypes": Attack(
        'import importlib\nimportlib.import_module("ctypes")', ALL, "imports ctypes, which is not allowed here"
    ),
    "imports the reference": Attack(
        "from glassformer.teaching import exercises", ALL, "imports glassformer.teaching.*not allowed"
    ),
    "asks for the reference": Attack(
        "import glassformer\nlargest = glassformer.teaching.exercises", ALL, "AttributeError"
    ),
    "reads the hidden folder": Attack(READS.format("hidden"), ALL, "", COVERED),
    "reads the hidden folder as another process sees it": Attack(BELOW_ROOTS, ALL, "", COVERED),
    "reads the lessons": Attack(READS.format("lessons"), ALL, "", COVERED),
    "reads the others": Attack("largest = open(others).read() or largest", ALL, "", COVERED),
    "reads the grader": Attack('open(f"/proc/{os.getppid()}/mem", "rb").read(1)', ALL, "PermissionError"),
    "writes elsewhere": Attack('open(others, "w").write("x")', ALL, "", COVERED),
    "writes much": Attack('open("x", "wb").write(bytes(10**8))', ALL, "OSError"),
    "deletes its folder": Attack("import shutil\nshutil.rmtree(os.getcwd())\nos.chdir('/')", ALL, ""),
    "replaces stdout": Attack("sys.stdout = sys.stderr = None", ALL, ""),
    "closes stdout": Attack("sys.stdout.close()", ALL, ""),
    "closes everything": Attack("os.closerange(0, 256)", ALL, "ends its process"),
    "has a long line": Attack(f"x = {'1' * 5_000_000!r}", ALL, "is too long to be run"),
    "has many lines": Attack("x = 1\n" * 100_000, ALL, ""),
    "leaves threads": Attack(
        "import threading\ndef idle():\n    while 1: pass\nfor _ in '12':\n    threading.Thread(target=idle).start()",
        ALL,
        "",
    ),
    "changes torch": Attack(
        "torch.allclose = torch.equal = lambda *a, **k: True\ntorch.Tensor.__eq__ = lambda *a: True\n"
        "def mean(x):\n    return x.sum(-1) + 1",
        ALL - MEAN,
        "is right",
    ),
    "changes builtins": Attack(
        "def mean(x):\n    import builtins\n    builtins.isinstance = builtins.len = lambda *a: 1\n    return 7",
        ALL - MEAN,
        "",
    ),
    "is equal to all": Attack(
        "class Yes:\n    __eq__ = lambda *a: True\ndef mean(x):\n    return Yes()",
        ALL - MEAN,
        "gives Yes, which is neither",
    ),
    "a tensor of its own": Attack(
        "class Mine(torch.Tensor):\n    pass\ndef mean(x):\n    return x.mean(-1).as_subclass(Mine)", ALL, ""
    ),
    "a tensor that says yes": Attack(
        "class Yes(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, *a, **k):\n        return True\n"
        "def mean(x):\n    return x.as_subclass(Yes)",
        ALL - MEAN,
        "raises",
    ),
    "no number": Attack("def mean(x):\n    return x.mean(-1) * float('nan')", ALL - MEAN, "gives nan"),
    "a huge tensor": Attack("def mean(x):\n    return torch.zeros(2**25)", ALL - MEAN, "more than can be compared"),
    "a tensor without end": Attack(
        "def mean(x):\n    return torch.zeros(1).expand(2**40)", ALL - MEAN, "more than can be compared"
    ),
    "a deep list": Attack(
        "def mean(x):\n    x = []\n    for _ in range(10**5):\n        x = [x]\n    return x", ALL - MEAN, "too deep"
    ),
    "a list in itself": Attack("def mean(x):\n    x = []\n    x.append(x)\n    return x", ALL - MEAN, "too deep"),
    "calls itself": Attack("def mean(x):\n    return mean(x)", ALL - MEAN, "RecursionError"),
    "steers the terminal": Attack("def mean(x):\n    raise ValueError('\\x1b[2J')", ALL - MEAN, "raises ValueError: ·"),
    "a long error": Attack(
        "def mean(x):\n    raise ValueError('x\\n' + 'y' * 10**6)", ALL - MEAN, "raises ValueError: x"
    ),
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Submission]]:
    folder = tmp_path_factory.mktemp("hostile")
    for name in ("lessons", "hidden", "handed-in"):
        (folder / name).mkdir()
    (folder / "lessons" / "tiny.md").write_text(tiny_lesson.TEXT)
    (folder / "hidden" / "tiny.py").write_text("from helpers.tiny_lesson import EXERCISES")
    places = {"hidden": folder / "hidden", "lessons": folder / "lessons", "others": folder / "handed-in" / "0.py"}
    good = GOOD + "".join(f"{name} = {str(place)!r}\n" for name, place in places.items())
    files = list[Path]()
    for number, attack in enumerate(ATTACKS.values()):
        files.append(folder / "handed-in" / f"{number}.py")
        files[-1].write_text(good + attack.code + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.teaching.lesson.FOLDER", folder / "lessons")
        patch.setitem(sys.modules, "glassformer.teaching.exercises.tiny", tiny_lesson)
        lesson = read_lesson(folder / "lessons" / "tiny.md")
        grades: Grades = grade(files, lesson, hidden=folder / "hidden", seconds=5, memory=500, seed=5)
    yield dict(zip(ATTACKS, grades, strict=True))
    assert (folder / "handed-in" / "0.py").read_text() == good + "\n"


@pytest.mark.parametrize("name", ATTACKS)
def test_it_costs_its_own_points_alone(name: str, graded: dict[str, Submission]) -> None:
    attack, got = ATTACKS[name], graded[name]
    if attack.needs and attack.needs not in got.isolation:
        pytest.skip(f"this system does not allow: {attack.needs}")
    assert got.points == attack.points, got
    assert got.out_of == ALL
    said = "\n".join(got.lines)
    assert re.search(attack.line, said), said
    assert all(line == printable(on_one_line(line)) and len(line) < 600 for line in got.lines)
