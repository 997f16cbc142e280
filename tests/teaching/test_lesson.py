"""Lessons: Markdown becomes cells as jupytext reads them, cells become notebooks, and exercises check themselves."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import GlassformerError, Misuse
from glassformer.teaching.lesson import FOLDER, lessons, read_lesson
from helpers.tiny_lesson import TEXT, Layer

HEAD = "---\ntitle: a\nnumber: 1\nminutes: 1\n---\n"
REAL = sorted(FOLDER.glob("*.md"))


def sources(notebook: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


@pytest.mark.usefixtures("course")
def test_front_matter_and_cells() -> None:
    tiny = gf.lesson("tiny")
    assert (tiny.number, tiny.title, tiny.minutes, tiny.points) == (3, "A tiny lesson", 0.5, 6)
    assert gf.lesson(3).name == gf.lesson("3").name == "tiny"
    assert [one.name for one in lessons()] == ["tiny"]
    assert [exercise.name for exercise in tiny.exercises] == ["mean", "Layer", "largest"]
    assert tiny.expects == {"loss": [0.1, 2]}
    with pytest.raises(Misuse, match="did you mean tiny"):
        gf.lesson("tinny")


@pytest.mark.parametrize("file", [Path("tiny.md"), *REAL], ids=lambda file: file.stem)
def test_jupytext_reads_the_same_cells(file: Path, course: Path) -> None:
    jupytext = pytest.importorskip("jupytext")
    text = TEXT if file.stem == "tiny" else file.read_text()
    theirs = [(cell.cell_type, cell.source) for cell in jupytext.reads(text, fmt="md").cells]
    read = read_lesson(course / "tiny.md" if file.stem == "tiny" else file)
    assert [(cell.kind, cell.source) for cell in read.cells] == theirs[1:]  # the first is the front matter


@pytest.mark.usefixtures("course")
def test_notebooks_of_students_and_solutions(tmp_path: Path) -> None:
    tiny = gf.lesson("tiny")
    file = tiny.write(tmp_path / "mine")
    student = json.loads(file.read_text())
    cells = sources(student)
    assert file == tmp_path / "mine" / "tiny.ipynb"
    assert cells[0] == (
        "markdown",
        "# A tiny lesson\n\nThe mean of $n$ numbers.\n\n$$\n\\bar{x} = \\frac{1}{n} \\sum_i x_i\n$$",
    )
    assert (
        "code",
        'def mean(x):\n    """The mean of the last axis."""\n    raise NotImplementedError("your turn")',
    ) in cells
    assert ("code", "largest = None  # your turn\nlesson.check(Layer=Layer, largest=largest)") in cells
    assert any(text.startswith("%%sh\nglassformer train") for _, text in cells)
    assert "SOLUTION" not in file.read_text()
    solved = sources(tiny.notebook(solution=True))
    assert ("code", 'def mean(x):\n    """The mean of the last axis."""\n    return x.sum(-1) / x.shape[-1]') in solved
    assert ("code", "largest = (1, 2)\nlesson.check(Layer=Layer, largest=largest)") in solved
    assert "your turn" not in str(solved)
    ids = [cell["id"] for cell in student["cells"]]
    assert len(set(ids)) == len(ids)
    assert ids == [cell["id"] for cell in tiny.notebook(solution=True)["cells"]]
    assert [run.name for run in (tmp_path / "mine" / "runs").iterdir()] == ["tiny"]  # what it names, and no other


@pytest.mark.usefixtures("course")
def test_notebooks_are_what_jupyter_wants() -> None:
    nbformat = pytest.importorskip("nbformat")
    for solution in (False, True):
        nbformat.validate(nbformat.from_dict(gf.lesson("tiny").notebook(solution=solution)))


@pytest.mark.usefixtures("course")
def test_a_page_reads_as_the_same_cells_again(tmp_path: Path) -> None:
    tiny = gf.lesson("tiny")
    page = tiny.write(tmp_path, page=True)
    (tmp_path / "again.md").write_text(f"---\ntitle: x\nnumber: 1\nminutes: 1\n---\n{page.read_text()}")
    code = [cell.text() for cell in tiny.cells if cell.kind == "code"]
    assert [cell.source for cell in read_lesson(tmp_path / "again.md").cells if cell.kind == "code"] == code
    with pytest.raises(Misuse, match="for students"):
        tiny.write(tmp_path, page=True, solution=True)


@pytest.mark.usefixtures("course")
def test_checks_in_this_process() -> None:
    tiny = gf.lesson("tiny")
    right = tiny.check(mean=lambda x: x.sum(-1) / x.shape[-1], Layer=Layer, largest=[1, 2])
    assert right.passed
    assert str(right).endswith("\n5 of 5 points; grading tries more, for 1")

    def total(x: Tensor) -> Tensor:
        return x.sum(-1)

    wrong = tiny.check(mean=total)
    assert (wrong.points, wrong.out_of) == (0, 3)
    assert all("grows with the length" in item.line for item in wrong.items)
    assert "mean: of a vector" in wrong._repr_html_()


class Unlike(nn.Module):
    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(width))


def raises(x: Tensor) -> Tensor:
    return x @ torch.zeros(99)


def todo(x: Tensor) -> Tensor:
    raise NotImplementedError("your turn")


def changes(x: Tensor) -> Tensor:
    x += 1
    return x.mean(-1)


@pytest.mark.usefixtures("course")
@pytest.mark.parametrize(
    ("named", "line"),
    [
        ({"mean": todo}, "still to be written"),
        ({"mean": raises}, r"raises RuntimeError: .*\(line \d+ of raises\)"),
        ({"mean": 5}, "mean is int, not something to call"),
        ({"mean": lambda x: None}, "gives nothing, not a tensor"),
        ({"mean": changes}, "gives .*, and .* is right"),
        ({"largest": None}, "still to be found: the largest head"),
        ({"largest": (2, 1)}, r"\(2, 1\) is not the largest head"),
        ({"Layer": Unlike}, "has no weight and has weights too many"),
        ({"Layer": lambda width: 3}, "is not an nn.Module"),
        ({"Layer": lambda: 3}, "cannot be built: raises TypeError"),
    ],
)
def test_what_is_wrong_is_one_line(named: dict[str, Any], line: str) -> None:
    item = gf.lesson("tiny").check(**named).items[0]
    assert item.points == 0
    assert "\n" not in item.line
    assert re.search(line, item.line), item.line


@pytest.mark.usefixtures("course")
def test_an_exercise_that_is_none() -> None:
    with pytest.raises(Misuse, match="unknown exercise 'maen'; did you mean mean"):
        gf.lesson("tiny").check(maen=todo)


@pytest.mark.parametrize("front", ["title: x\nnumber: 1", "title: x\nnumber: 1\nminuts: 1", "title: ["])
def test_front_matter_that_is_wrong(front: str, tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text(f"---\n{front}\n---\n# X\n")
    with pytest.raises(GlassformerError, match=r"x\.md"):
        read_lesson(tmp_path / "x.md")


@pytest.mark.usefixtures("course")
def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lesson"]) == 0
    assert "tiny" in (listed := capsys.readouterr().out)
    assert "A tiny lesson" in listed
    assert main(["lesson", "3"]) == 0
    out, err = capsys.readouterr()
    assert out == "tiny/tiny.ipynb\n"
    assert "jupyter lab tiny/tiny.ipynb" in err
    assert "glassformer play tiny/runs/tiny" in err
    assert main(["lesson", "tiny"]) == 0  # nobody has changed it
    (tmp_path / "tiny" / "tiny.ipynb").write_text("{}")
    assert main(["lesson", "tiny"]) == 2
    assert "somebody's work" in capsys.readouterr().err
    assert (tmp_path / "tiny" / "tiny.ipynb").read_text() == "{}"
    assert main(["lesson", "tiny", "--overwrite"]) == 0
    assert main(["lesson", "tiny", "--solution", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["file"] == "tiny/tiny-solution.ipynb"


def test_every_lesson_that_ships_has_its_exercises() -> None:
    for one in lessons():
        names = [exercise.name for exercise in one.exercises]
        checked = "\n".join(cell.source for cell in one.cells if cell.kind == "code")
        assert len(set(names)) == len(names)
        assert all(f"{name}={name}" in checked for name in names), one.name
        importlib.import_module(f"glassformer.teaching.exercises.{one.name.replace('-', '_')}")


@pytest.mark.slow
def test_a_lesson_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "means.md").write_text(TEXT.replace('gf.lesson("tiny")', 'gf.lesson("means.md")'))
    own = gf.lesson(tmp_path / "means.md")
    assert (own.name, own.exercises) == ("means", [])
    (tmp_path / "means.py").write_text("from helpers.tiny_lesson import EXERCISES")
    own = gf.lesson(str(tmp_path / "means.md"))
    assert own.check(mean=lambda x: x.sum(-1) / x.shape[-1]).passed
    file = own.write(tmp_path, solution=True)
    assert gf.grade(file, tmp_path / "means.md").submissions[0].passed
    own.write(tmp_path / "class")
    handed_out = gf.lesson(tmp_path / "class" / "means.md")
    assert handed_out.notebook() == own.notebook()
    assert handed_out.notebook(solution=True) == own.notebook()
    assert handed_out.check(mean=lambda x: x.sum(-1) / x.shape[-1]).passed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "means.md"),
        ("# no head", "is no lesson"),
        ("---\ntitle: a\n", "is no lesson"),
        ("---\n- a\n---\n", "is no lesson"),
        ("---\ntitle: [\n---\n", "means.md"),
        ("---\ntitle: a\nnumber: 1\nminutes: 1\nslide: b\n---\n", "did you mean slides"),
        (f"{HEAD}```python\n### BEGIN SOLUTION\nx = 1\n```\n", "has no ### END SOLUTION"),
        (f"{HEAD}```python\nx = 1\n", "does not end"),
        ("---\ntitle: a\nnumber: one\nminutes: 1\n---\n", "number wants a number"),
    ],
)
def test_what_is_no_lesson(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "means.md").write_text(text)
    with pytest.raises(Misuse, match=message):
        gf.lesson(tmp_path / "means.md")
