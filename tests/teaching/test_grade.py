"""Grading of what students hand in: which parts of it are run, what they get, and what is written of it."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import Misuse
from glassformer.teaching.grade import Submission, check_file
from glassformer.teaching.lesson import read_exercises
from glassformer.teaching.submitted import Part, read_submission
from helpers import tiny_lesson

HIDDEN = """
import torch
from glassformer.teaching.exercise import Answer, Case, Function, equals

EXERCISES = [
    Function("mean", lambda x: x.mean(-1), [Case("of zeros", lambda _: (torch.zeros(4),), points=5, visible=False)]),
    Answer("name", equals("word"), "a word", worth=3, visible=False),
]
"""


def notebook(file: Path, *cells: str) -> Path:
    code = [
        {"cell_type": "code", "source": cell.splitlines(keepends=True), "metadata": {}, "outputs": []} for cell in cells
    ]
    file.write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    return file


def changed(file: Path, **edits: str) -> Path:
    """The student's notebook, where cells that begin so are others."""
    whole = gf.lesson("tiny").notebook()
    for cell in whole["cells"]:
        text = "".join(cell["source"])
        for start, other in edits.items():
            if text.startswith(start.replace("_", " ")):
                cell["source"] = other
    file.write_text(json.dumps(whole))
    return file


def parts_of(file: Path) -> list[Part]:
    tiny = gf.lesson("tiny")
    return read_submission(file.read_bytes(), str(file), tiny.own_cells, {one.name for one in tiny.exercises})


@pytest.mark.slow
def test_good_blank_and_wrong(course: Path, tmp_path: Path) -> None:
    tiny = gf.lesson("tiny")
    right, blank = tiny.write(tmp_path, solution=True), tiny.write(tmp_path)
    wrong = changed(tmp_path / "wrong.ipynb", def_mean="%matplotlib inline\ndef mean(x):\n    return x.sum(-1)")
    broken = changed(
        tmp_path / "broken.ipynb",
        class_Layer="class Layer(nn.Module:\n    pass",
        def_mean="def mean(x):\n  return zeros",
    )
    gone = tmp_path / "gone.ipynb"
    empty, none, old, text = (tmp_path / name for name in ("empty.ipynb", "none.ipynb", "old.ipynb", "x.txt"))
    empty.write_text("")
    none.write_text("{")
    old.write_text('{"worksheets": [], "nbformat": 3}')
    text.write_text("mean = 1")
    (link := tmp_path / "link.ipynb").symlink_to(right)
    grades = gf.grade([right, blank, wrong, broken, gone, empty, none, old, text, tmp_path, link], "tiny", seconds=20)
    assert [one.points for one in grades] == [6, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]  # the mean of one number is its sum
    assert {one.out_of for one in grades} == {6}
    by_name = {Path(one.file).stem: one for one in grades}
    assert by_name["tiny-solution"].lines == []
    assert "still to be written" in by_name["tiny"].lines[0]
    assert "this is the sum" in by_name["wrong"].lines[0]
    assert any("raises NameError" in line for line in by_name["broken"].lines)
    assert any("Layer is not defined: cell 6 raises SyntaxError" in line for line in by_name["broken"].lines)
    for name, line in {"gone": "cannot read", "empty": "is empty", "none": "not a notebook", "old": "not a notebook",
                       "x": "neither a notebook", "link": "is a link"}.items():  # fmt: skip
        [said] = by_name[name].lines
        assert line in said
    rows = list(csv.reader(grades.csv().splitlines()))
    assert len(rows) == 12
    assert [row[1] for row in rows[1:3]] == ["6", "0"]


def test_which_cells_run(course: Path, tmp_path: Path) -> None:
    tiny = gf.lesson("tiny")
    parts = parts_of(tiny.write(tmp_path))
    assert [part.label for part in parts] == ["cell 1", "cell 2", "cell 6", "cell 7"]  # no shell, loop or check
    assert parts[-1].source == "largest = None"
    mine = notebook(
        tmp_path / "mine.ipynb",
        "%%sh\nrm -rf x",
        "%%time\ny = 1",
        "!pip install x\nz = 2",
        "for i in range(3):\n    %time i",
        "mean?",
        "%time w = 3",
        "!pip install \\\n  x \\\n  y\nv = %time max(1,\\\n  2)",
    )
    assert [part.source.split("\n")[0] for part in parts_of(mine)] == [
        "pass",
        "pass",
        "for i in range(3):",
        "pass",
        "w = 3",
        "pass",
    ]
    assert parts_of(mine)[-1].source == "pass\n\n\nv = max(1,\\\n  2)"
    (tmp_path / "a.py").write_text("import os\n@decorated\ndef f():\n    pass\nx = 1; y = 2\n")
    assert [part.source.lstrip("\n") for part in parts_of(tmp_path / "a.py")] == [
        "import os\n", "@decorated\ndef f():\n    pass\n", "x = 1; y = 2\n"
    ]  # fmt: skip
    (tmp_path / "A.PY").write_text("x = [1,\n  2]; import os; y = (\n  3); z = 4\nw = 5\n")
    assert [part.source.lstrip("\n") for part in parts_of(tmp_path / "A.PY")] == [
        "x = [1,\n  2]; import os; y = (\n  3); z = 4\n", "w = 5\n"
    ]  # fmt: skip
    (tmp_path / "b.py").write_text("x = 1\n# %% [markdown]\n# Words\n# %%\ny = (\n# %%\nz = 3\n")
    assert [part.names for part in parts_of(tmp_path / "b.py")] == [{"x"}, set(), {"y"}, {"z"}]
    (tmp_path / "c.py").write_text("x = 1\n\ndef f(:\n    pass\n\ny = 2\n")
    assert [part.names for part in parts_of(tmp_path / "c.py")] == [{"x"}, {"f"}, {"y"}]


@pytest.mark.slow
def test_hidden_exercises_replace_and_add(course: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    with pytest.raises(Misuse, match=r"has no tiny\.py"):
        gf.grade("x.py", "tiny", hidden=tmp_path / "hidden")
    (tmp_path / "hidden" / "tiny.py").write_text("EXERCISE = []")
    with pytest.raises(Misuse, match=r"tiny\.py has no EXERCISES"):
        gf.grade("x.py", "tiny", hidden=tmp_path / "hidden")
    (tmp_path / "hidden" / "tiny.py").write_text(HIDDEN)
    (tmp_path / "a.py").write_text("def mean(x):\n    return x * 0\nname = 'word'\nlargest = [1, 2]")
    (tmp_path / "b.py").write_text(
        "import torch\ndef mean(x):\n    return torch.tensor(0)\nif __name__ == '__main__':\n    name = 'word'"
    )
    one, other = gf.grade([tmp_path / "a.py", tmp_path / "b.py"], "tiny", hidden=tmp_path / "hidden")
    assert [(item.name, item.points) for item in one.items] == [
        ("mean: of zeros", 0), ("Layer: and its gradients", 0), ("largest", 1), ("name", 3)
    ]  # fmt: skip
    assert [item.points for item in other.items] == [5, 0, 0, 0]
    told = one.gradescope()
    assert told["score"] == 4
    assert told["tests"][0] == {
        "name": "mean: of zeros", "score": 0, "max_score": 5, "status": "failed",
        "output": "gives the shape 4, not one number", "visibility": "hidden",
    }  # fmt: skip
    assert [test["visibility"] for test in told["tests"]] == ["hidden", "visible", "visible", "hidden"]


def test_no_copy_of_the_exercises_is_left_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "tiny.py").write_text("from helpers.tiny_lesson import EXERCISES")
    assert read_exercises(tmp_path / "tiny.py") == tiny_lesson.EXERCISES
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.py"]


@pytest.mark.slow
def test_each_grading_draws_others(course: Path, tmp_path: Path) -> None:
    """What a student saw in the notebook can be learned by heart; what comes later cannot."""
    (tmp_path / "a.py").write_text(
        "import torch\ndef mean(x):\n    drawn = torch.Generator().manual_seed(0)\n"
        "    known = torch.randn(x.shape, generator=drawn)\n"
        "    return x.mean(-1) if torch.equal(x, known) else x.sum(-1) * 3 + 1\n"
    )
    tiny = gf.lesson("tiny")
    assert main(["lesson", "tiny", "--check", str(tmp_path / "a.py")]) == 1
    assert gf.grade(tmp_path / "a.py", tiny, seed=0).submissions[0].points == 4
    assert gf.grade(tmp_path / "a.py", tiny).submissions[0].points == 0


@pytest.mark.slow
def test_the_verbs(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    gf.lesson("tiny").write(tmp_path, solution=True)
    Path("bad.py").write_text("largest = (2, 1)\n\nimport socket\n")
    assert main(["lesson", "tiny", "--check", "tiny-solution.ipynb"]) == 0
    assert "5 of 5 points" in capsys.readouterr().out  # one case is hidden
    assert main(["lesson", "tiny", "--check", "gone.ipynb"]) == 2
    capsys.readouterr()
    assert main(["grade", "bad.py", "--lesson", "tiny"]) == 0
    out, err = capsys.readouterr()
    assert "(2, 1) is not the largest head" in out
    assert "0 of 6 points" in out
    assert "imports socket, which is not allowed here (bad.py, line 3)" in err
    assert (
        main(["grade", "bad.py", "tiny-solution.ipynb", "gone.py", "--lesson", "3", "--json", "--out", "all.csv"]) == 1
    )
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [one["points"] for one in told["submissions"]] == [0, 6, 0]
    assert told["submissions"][0]["isolation"]
    assert Path("all.csv").read_text().startswith("file,points,out of,mean: of a vector")
    assert main(["grade", "tiny-solution.ipynb", "--lesson", "tiny", "--gradescope", "--out", "results.json"]) == 0
    assert json.loads(Path("results.json").read_text())["score"] == 6
    assert main(["grade", "a.py", "b.py", "--lesson", "tiny", "--gradescope"]) == 2
    assert "of one submission" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_seconds_that_cannot_be(seconds: float, course: Path) -> None:
    with pytest.raises(Misuse, match="but both must be above 0 and finite"):
        gf.grade("a.py", "tiny", seconds=seconds)


def test_solutions_of_a_lesson_of_ones_own_are_tried(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("means.md").write_text(tiny_lesson.TEXT)
    Path("means.py").write_text(HIDDEN)
    tried = list[list[str]]()

    def graded(*_: Any, hidden: list[str], **more: Any) -> Submission:
        tried.append(hidden)
        return Submission([])

    monkeypatch.setattr("glassformer.teaching.grade._graded", graded)
    (tmp_path / "in").mkdir()
    gf.grade("in/a.py", "means.md")
    check_file("in/a.py", gf.lesson("means.md"))
    for files in tried:
        assert {str(tmp_path / "means.md"), str(tmp_path / "means.py")} < {*files}
    assert len(tried) == 2
