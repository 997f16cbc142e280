"""Lessons: notebooks with exercises. Each one is a Markdown file in `lessons/` and a module in `exercises/`."""

import importlib
import importlib.util
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, error_line, first_line, read_failure, refuse_unknown, unknown
from glassformer.notebook.html import table
from glassformer.runs.files import write_text
from glassformer.teaching.answering import Here
from glassformer.teaching.exercise import Exercise, Item
from glassformer.teaching.notebook import Cell, cells_of, notebook_of, page_of
from glassformer.teaching.submitted import own_cells


@dataclass(frozen=True)
class Checked:
    """Points of a student, item by item. A notebook displays them as a table."""

    items: Sequence[Item]
    more: float = 0
    """Points for cases that only `grade` runs."""

    @property
    def points(self) -> float:
        return sum(item.points for item in self.items)

    @property
    def out_of(self) -> float:
        return sum(item.out_of for item in self.items)

    @property
    def passed(self) -> bool:
        """Return whether all points were reached."""
        return all(item.points >= item.out_of for item in self.items)

    @property
    def words(self) -> str:
        more = f"; grading tries more, for {self.more:g}" if self.more else ""
        return f"{self.points:g} of {self.out_of:g} points{more}"

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the name, points and error of each item."""
        return [(item.name, f"{item.points:g} of {item.out_of:g}", item.line) for item in self.items]

    def to_dict(self) -> dict[str, Any]:
        return {"points": self.points, "out_of": self.out_of, "items": [asdict(item) for item in self.items]}

    def __str__(self) -> str:
        width = max((len(item.name) for item in self.items), default=0)
        marks = ["✓" if item.points >= item.out_of else "✗" for item in self.items]
        rows = zip(marks, self.rows(), strict=True)
        lines = [f"{mark}  {name:{width}}  {points}  {line}".rstrip() for mark, (name, points, line) in rows]
        return "\n".join([*lines, self.words])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(("", "points", ""), self.rows(), self.words)


FOLDER = Path(__file__).with_name("lessons")
RUNS = Path(__file__).with_name("runs")
"""Trained runs in the package, one folder each."""
EXERCISES = "glassformer.teaching.exercises"


@dataclass(frozen=True)
class Lesson:
    """Notebook with exercises that can be checked."""

    file: Path = field(repr=False)
    """Markdown file of the lesson."""
    title: str
    number: int
    """Position in the course, from 1."""
    minutes: float
    """Duration of the whole notebook on two slow cores."""
    cells: Sequence[Cell] = field(repr=False)
    head: str = field(repr=False)
    """YAML front matter, between the two lines of ---."""
    slides: Sequence[str] = field(default=(), repr=False)
    """Slides that the lesson belongs to: a file, and the slides in it."""
    misconception: str = field(default="", repr=False)
    """Common misconception that the lesson corrects."""
    run: str = field(default="", repr=False)
    """Run that the playground opens at the end."""
    expects: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)
    """Minimum and maximum over seeds, by variable of the finished notebook."""

    @property
    def name(self) -> str:
        return self.file.stem

    @cached_property
    def exercises(self) -> list[Exercise]:
        """Return the exercises in the order of the notebook.

        They are in `exercises/` for lessons of the package, and in a Python file beside any other lesson.
        """
        if self.file.parent != FOLDER:
            return read_exercises(self.file.with_suffix(".py")) if self.file.with_suffix(".py").is_file() else []
        module = f"{EXERCISES}.{self.name.replace('-', '_')}"
        return list(importlib.import_module(module).EXERCISES) if importlib.util.find_spec(module) else []

    @cached_property
    def own_cells(self) -> list[str]:
        """Return the code cells in the form in which `read_submission` compares them with a student's cells."""
        return own_cells(self.cells)

    @property
    def points(self) -> float:
        """Return the maximum number of points."""
        return sum(exercise.points for exercise in self.exercises)

    @property
    def shipped_runs(self) -> list[Path]:
        """Return the trained runs in the package that the lesson mentions as `runs/NAME`."""
        text = "\n".join([self.run, *(cell.source for cell in self.cells)])
        return [run for run in sorted(RUNS.glob("*/")) if re.search(rf"\bruns/{re.escape(run.name)}(?![\w-])", text)]

    def check(self, **named: Any) -> Checked:
        """Check your solutions, as in `lesson.check(attention=attention)`, and return points and errors."""
        by_name = {exercise.name: exercise for exercise in self.exercises}
        for name in named:
            refuse_unknown("exercise", name, by_name, Misuse)
        items = [item for name in named for item in by_name[name].items(Here(named))]
        return Checked(items, sum(by_name[name].points for name in named) - sum(item.out_of for item in items))

    def notebook(self, *, solution: bool = False) -> dict[str, Any]:
        """Return the notebook as the JSON data of a Jupyter file."""
        return notebook_of(self.cells, name=self.name, solution=solution)

    def page(self) -> str:
        """Return the student's version as Markdown."""
        return page_of(self.cells)

    @check_arguments
    def write(self, folder: str | Path, *, solution: bool = False, page: bool = False, overwrite: bool = False) -> Path:
        """Write the notebook and the trained runs that it uses into a folder, and return the notebook's path.

        `page`: write Markdown instead of a notebook.
        """
        if page and solution:
            raise Misuse("a page is for students: it has no solution")
        ending = ".md" if page else "-solution.ipynb" if solution else ".ipynb"
        file = Path(folder) / f"{self.name}{ending}"
        text = (
            self.page() if page else json.dumps(self.notebook(solution=solution), indent=1, ensure_ascii=False) + "\n"
        )
        if file.exists() and not overwrite and file.read_text(encoding="utf-8", errors="replace") != text:
            raise Misuse(
                f"{file} is there and may be somebody's work: --overwrite replaces it, --out names another folder"
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)
        for run in self.shipped_runs:
            shutil.copytree(run, file.parent / "runs" / run.name, dirs_exist_ok=True)
        if self.file.parent not in (FOLDER, file.parent.resolve()):  # the notebook's first cell needs these files
            write_text(file.parent / self.file.name, f"---\n{self.head}---\n{self.page()}")
            if (beside := self.file.with_suffix(".py")).is_file():
                shutil.copy(beside, file.parent)
        return file


@check_arguments
def lesson(name: str | int | Path) -> Lesson:
    """Return a lesson by its name or number, such as `attention` or 5, or your own lesson by its file: `mine.md`."""
    if str(name).endswith(".md"):
        return read_lesson(Path(str(name)).resolve())
    known = lessons()
    for one in known:
        if str(name) in (one.name, str(one.number)):
            return one
    raise Misuse(unknown("lesson", str(name), [one.name for one in known]))


def lessons() -> list[Lesson]:
    """Return all lessons in the order of the course."""
    return sorted(map(read_lesson, FOLDER.glob("*.md")), key=lambda one: one.number)


def read_lesson(file: Path) -> Lesson:
    """Read a lesson from its Markdown file."""
    try:
        start, front, body = f"{file.read_text(encoding='utf-8')}---\n---\n".split("---\n", 2)
        said = yaml.safe_load(front)
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(read_failure(str(file), error)) from None
    except yaml.YAMLError as error:
        raise Misuse(f"{file}: {first_line(error)}") from None
    if start or not isinstance(said, dict) or not {"title", "number", "minutes"} <= said.keys():
        raise Misuse(f"{file} is no lesson: it must begin with title, number and minutes between two lines of ---")
    for key in said:
        refuse_unknown(f"key in {file}", str(key), FRONT_MATTER, Misuse)
    for key in ("number", "minutes"):
        if not isinstance(said[key], int | float):
            raise Misuse(f"{file}: {key} wants a number, not {said[key]!r}")
    cells = cells_of(body.removesuffix("---\n---\n"))
    for cell in cells:
        opened, shown = cell.source.count("### BEGIN SOLUTION"), cell.text().count("### BEGIN SOLUTION")
        if cell.kind == "code" and (shown or opened != cell.source.count("### END SOLUTION")):
            raise Misuse(f"{file}: a ### BEGIN SOLUTION has no ### END SOLUTION: students would see it")
        if cell.kind == "markdown" and re.search(r"^```(python|sh)", cell.source, re.M):
            raise Misuse(f"{file}: a block of code does not end with a line of ```")
    return Lesson(file, cells=cells, head=front, **said)


FRONT_MATTER = [one.name for one in fields(Lesson) if one.name not in ("file", "cells", "head")]


def read_exercises(file: Path) -> list[Exercise]:
    """Return the EXERCISES of a teacher's file, without writing a __pycache__, which students could read."""
    names: dict[str, Any] = {"__name__": f"exercises_of_{file.stem}", "__file__": str(file)}
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), names)
    except Exception as error:
        raise Misuse(f"{file}: {error_line(error)}") from None
    found = names.get("EXERCISES")
    if not isinstance(found, list) or not found or not all(isinstance(one, Exercise) for one in found):
        raise Misuse(f"{file} has no EXERCISES: a list of Function, Module or Answer, what students are to define")
    return found
