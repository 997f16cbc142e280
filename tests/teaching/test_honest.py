"""Honest submissions, right and wrong, in many encodings and formats: each gets the points of the plain check in this
process, and no fewer than when Python runs the whole file. `honest/` holds the texts; the tables below list how else
they are handed in.
"""

import contextlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from glassformer.teaching.answering import Here
from glassformer.teaching.grade import Submission, grade
from glassformer.teaching.lesson import read_lesson
from glassformer.teaching.submitted import decode, read_submission
from helpers import tiny_lesson
from helpers.grading import GOOD

TEXTS = {file.stem: file.read_text() for file in sorted(Path(__file__).with_name("honest").glob("*.py"))}
UMLAUT = f"# für dich – ﬁx\n{GOOD}"
LATIN = f"# -*- coding: latin-1 -*-\n# für dich\n{GOOD}"
ENCODED: dict[str, bytes] = {
    "UTF-8": UMLAUT.encode(),
    "UTF-8 with a byte-order mark": UMLAUT.encode("utf-8-sig"),
    "UTF-16 with a byte-order mark": UMLAUT.encode("utf-16"),
    "UTF-16, little end first, without a mark": UMLAUT.encode("utf-16-le"),
    "UTF-16, big end first, without a mark": GOOD.encode("utf-16-be"),
    "UTF-32 with a byte-order mark": UMLAUT.encode("utf-32"),
    "Latin-1 that says so": LATIN.encode("latin-1"),
    "Windows-1252 that does not say so": f"# für – dich\n{GOOD}".encode("cp1252"),
    "Windows line ends": UMLAUT.replace("\n", "\r\n").encode(),
    "Windows line ends and a byte-order mark": UMLAUT.replace("\n", "\r\n").encode("utf-8-sig"),
    "old Macintosh line ends": UMLAUT.replace("\n", "\r").encode(),
    "mixed line ends": UMLAUT.replace("\n", "\r\n", 7).encode(),
    "no line end at the end": UMLAUT.rstrip().encode(),
    "a tab at the end": (UMLAUT + "\t").encode(),
    "tabs at the end of each line": UMLAUT.replace("\n", "\t\n").encode(),
    "tabs and blanks": UMLAUT.replace("        ", "\t").encode(),
    "indented as a whole": f"    {UMLAUT}".replace("\n", "\n    ").encode(),
}  # fmt: skip


def notebook(sources: Sequence[str | list[str]], **more: Any) -> dict[str, Any]:
    code = [
        {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": [], "source": cell} for cell in sources
    ]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": code, **more}


def with_outputs() -> dict[str, Any]:
    whole = notebook(CELLS)
    image = {
        "output_type": "display_data",
        "data": {"image/png": "iVBOR" * 100_000, "text/plain": ["x"]},
        "metadata": {},
    }
    for cell in whole["cells"]:
        cell["outputs"] = [image, {"output_type": "stream", "name": "stdout", "text": ["Umlaut ü\n"]}]
    return whole


CELLS = re.split(r"\n\n(?=\S)", GOOD)
NOTEBOOKS: dict[str, Callable[[], str | bytes]] = {
    "sources as text": lambda: json.dumps(notebook(CELLS)),
    "sources as lines": lambda: json.dumps(notebook([cell.splitlines(keepends=True) for cell in CELLS])),
    "sources as lines without line ends": lambda: json.dumps(notebook([cell.splitlines() for cell in CELLS])),
    "with pictures and outputs": lambda: json.dumps(with_outputs()),
    "a byte-order mark": lambda: json.dumps(notebook(CELLS)).encode("utf-8-sig"),
    "UTF-16": lambda: json.dumps(notebook(["# ü", *CELLS]), ensure_ascii=False).encode("utf-16"),
    "Windows line ends in cells": lambda: json.dumps(notebook([cell.replace("\n", "\r\n") for cell in CELLS])),
    "cells that begin with a blank": lambda: json.dumps(notebook([f" {cell}".replace("\n", "\n ") for cell in CELLS])),
    "a cell that begins with a tab": lambda: json.dumps(notebook([*CELLS[:-1], "\tlargest = (1, 2)"])),
    "cells that end with tabs": lambda: json.dumps(notebook([f"{cell}\n\t" for cell in CELLS])),
    "format 3": lambda: json.dumps(
        {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": cell} for cell in CELLS]}]}
    ),
    "markdown and raw cells": lambda: json.dumps(
        notebook(
            CELLS, cells=[{"cell_type": "raw", "source": "x"}, *notebook(CELLS)["cells"], {"cell_type": "markdown"}]
        )
    ),
    "magics": lambda: json.dumps(notebook(["%matplotlib inline\n!pip install x", *CELLS, "mean?"])),
    "a cell that was never finished": lambda: json.dumps(notebook([*CELLS, "def unfinished(x):"])),
    "annotations postponed in the first cell": lambda: json.dumps(
        notebook(["from __future__ import annotations", *(cell.replace("mean(x)", "mean(x: Rows)") for cell in CELLS)])
    ),
    "modules that start processes": lambda: json.dumps(notebook([f"import subprocess\n{CELLS[0]}", *CELLS[1:]])),
    "calls of IPython": lambda: json.dumps(
        notebook([f'get_ipython().run_line_magic("matplotlib", "inline")\n{CELLS[0]}', *CELLS[1:]])
    ),
    "timed values": lambda: json.dumps(notebook([*CELLS[:-1], f"%time {CELLS[-1]}"])),
    "a command of two lines": lambda: json.dumps(notebook(["!pip install \\\n  x\n" + CELLS[0].lstrip(), *CELLS[1:]])),
}
EXPORTED: dict[str, str] = {
    "a call of IPython": f'# %%\nget_ipython().run_line_magic("matplotlib", "inline")\n{GOOD}',
    "an import of IPython": f'# %%\nfrom IPython import get_ipython\nget_ipython().system("ls")\n{GOOD}',
    "a shell command": f"# %%\nget_ipython().system('pip install x')\n{GOOD}",
    "a guard for notebooks": f'# %%\nif "IPKernelApp" in get_ipython().config:\n    raise SystemExit\n{GOOD}',
    "a setting of IPython": f"# %%\nget_ipython().config.InlineBackend.figure_format = 'svg'\n{GOOD}",
    "a timed value": GOOD.replace("largest = (1, 2)", 'get_ipython().run_line_magic("time", "largest = (1, 2)")'),
    "a timed cell": f'get_ipython().run_cell_magic("time", "", {GOOD!r})',
    "a cell of another language": f'# %%\nget_ipython().run_cell_magic("bash", "", "rm x")\n{GOOD}',
}
"""Python as nbconvert and editors export it from notebooks."""
CASES: dict[str, tuple[str, bytes]] = {
    **{name: ("py", text.encode()) for name, text in TEXTS.items()},
    **{f"Python, {name}": ("py", content) for name, content in ENCODED.items()},
    **{f"notebook, {name}": ("ipynb", text if isinstance(text := make(), bytes) else text.encode())
       for name, make in NOTEBOOKS.items()},
    **{f"export, {name}": ("py", text.encode()) for name, text in EXPORTED.items()},
    "an ending in capitals": ("PY", GOOD.encode()),
    "a notebook with an ending in capitals": ("IPYNB", json.dumps(notebook(CELLS)).encode()),
}  # fmt: skip


def plain_points(content: bytes, name: str) -> float:
    """Return the points of the check in this process, where nothing of the sandbox is involved."""
    names: dict[str, Any] = {"__name__": "submission"}
    for part in read_submission(content, name, [], {"mean", "Layer", "largest"}):
        with contextlib.suppress(Exception, SystemExit):
            exec(compile(part.source, "<honest>", "exec"), names)
    return points_of(names)


def points_of(names: dict[str, Any]) -> float:
    items = [item for one in tiny_lesson.EXERCISES for item in one.items(Here(names), seed=7, hidden=True)]
    return sum(item.points for item in items)


def python_points(file: Path, text: str) -> float:
    """Return the points of what is defined after Python has run the whole file, or until it raised."""
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("submission", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with contextlib.suppress(Exception, SystemExit):
        spec.loader.exec_module(module)
    return points_of(vars(module))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Submission]]:
    folder = tmp_path_factory.mktemp("honest")
    (folder / "tiny.md").write_text(tiny_lesson.TEXT)
    files = [folder / f"{place}.{CASES[name][0]}" for place, name in enumerate(CASES)]
    for file, (_, content) in zip(files, CASES.values(), strict=True):
        file.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.teaching.lesson.FOLDER", folder)
        patch.setitem(sys.modules, "glassformer.teaching.exercises.tiny", tiny_lesson)
        yield dict(zip(CASES, grade(files, read_lesson(folder / "tiny.md"), seed=7), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_honest_point_is_lost(
    name: str, graded: dict[str, Submission], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ending, content = CASES[name]
    right = not name.startswith("wrong")
    assert graded[name].points == (6 if right else plain_points(content, f"x.{ending}")), graded[name].lines
    assert right or graded[name].points < 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", TEXTS)
def test_whole_files_get_no_more_points(
    name: str, graded: dict[str, Submission], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    points = python_points(tmp_path / "submission.py", TEXTS[name])
    assert graded[name].points >= points, graded[name].lines
    assert name.startswith("wrong") or points == 6


@pytest.mark.parametrize("name", ENCODED)
def test_every_encoding_is_read(name: str) -> None:
    names: dict[str, Any] = {}
    for part in read_submission(ENCODED[name], "x.py", [], set()):
        exec(part.source, names)
    assert {"mean", "Layer", "largest"} <= names.keys()
    if "1252" not in name and name != "UTF-16, big end first, without a mark":
        assert "für dich" in decode(ENCODED[name])


def test_there_are_enough() -> None:
    assert len(CASES) >= 60
    assert sum(name.startswith("right") for name in CASES) == 14
