"""Grading: what students hand in, held against the exercises, each submission in a process of its own."""

import csv
import io
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse
from glassformer.config.progress import progress_of
from glassformer.notebook.display import progress_bar
from glassformer.notebook.html import table
from glassformer.teaching import lesson as lessons
from glassformer.teaching.exercise import Exercise, StudentError
from glassformer.teaching.lesson import Lesson, read_exercises
from glassformer.teaching.lesson import lesson as find_lesson
from glassformer.teaching.result import Checked
from glassformer.teaching.sandbox import Bounds, Nursery, Sandboxed, nursery
from glassformer.teaching.submitted import is_notebook, read_submission
from glassformer.text.escaping import on_one_line, spreadsheet_cell

MUCH = 10**6
"""Bytes of output from which on it is told."""


@dataclass(frozen=True)
class Submission(Checked):
    """What one submission got."""

    file: str = ""
    problem: str = ""
    """Why nothing of it could be graded."""
    notes: Sequence[str] = ()
    """What went wrong in it, whether it cost points or not."""
    isolation: Sequence[str] = ()
    """What kept its code in."""
    seconds: float = 0

    @property
    def lines(self) -> list[str]:
        """All that is to be said of it."""
        lost = [f"{item.name}: {item.line}" for item in self.items if item.line]
        return [self.problem] if self.problem else [*self.notes, *lost]

    def to_dict(self) -> dict[str, Any]:
        about = {"file": self.file, "problem": self.problem, "notes": list(self.notes)}
        return {**about, **super().to_dict(), "isolation": list(self.isolation), "seconds": round(self.seconds, 2)}

    def gradescope(self) -> dict[str, Any]:
        """As Gradescope wants results.json; students do not see the hidden items."""
        return {
            "score": self.points,
            "execution_time": round(self.seconds),
            "output": "\n".join([self.problem] if self.problem else self.notes),
            "stdout_visibility": "hidden",
            "tests": [
                {
                    "name": item.name,
                    "score": item.points,
                    "max_score": item.out_of,
                    "status": "passed" if item.points >= item.out_of else "failed",
                    "output": item.line,
                    "visibility": "visible" if item.visible else "hidden",
                }
                for item in self.items
            ],
        }


@dataclass(frozen=True)
class Grades:
    """What all submissions got. A notebook shows it as a table."""

    lesson: str
    seed: int
    """Of what they were tried with."""
    submissions: Sequence[Submission] = field(default_factory=list)

    def rows(self) -> list[tuple[str, str, str]]:
        return [(one.file, f"{one.points:g} of {one.out_of:g}", _short(one.lines)) for one in self.submissions]

    def to_dict(self) -> dict[str, Any]:
        return {"lesson": self.lesson, "seed": self.seed, "submissions": [one.to_dict() for one in self.submissions]}

    def csv(self) -> str:
        """A row for each submission, a column for each item."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        names = [item.name for item in self.submissions[0].items] if self.submissions else []
        rows.writerow(["file", "points", "out of", *map(spreadsheet_cell, names), "what"])
        for one in self.submissions:
            cells = [one.file, one.points, one.out_of, *(item.points for item in one.items), "; ".join(one.lines)]
            rows.writerow([spreadsheet_cell(cell) for cell in cells])
        return text.getvalue()

    def __iter__(self) -> Iterator[Submission]:
        return iter(self.submissions)

    def __str__(self) -> str:
        return "\n".join("  ".join(row).rstrip() for row in self.rows())

    def _repr_html_(self) -> str:
        return table(("", "points", ""), self.rows(), f"lesson {self.lesson}, drawn from seed {self.seed}")


def _short(lines: Sequence[str]) -> str:
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return f"{lines[0]}{more}" if lines else ""


@check_arguments
@progress_bar()
def grade(
    files: str | Path | Sequence[str | Path],
    lesson: str | int | Path | Lesson,
    *,
    hidden: str | Path | None = None,
    seconds: float = 30,
    memory: int = 2048,
    seed: int | None = None,
) -> Grades:
    """Grade notebooks or files of Python. Nothing of them runs in this process.

    `hidden`: a folder with `NAME.py`, whose EXERCISES take the place of those of the same name, and add others.
    `seconds`: for each cell and each call. `memory`: in MB. `seed`: of what they are tried with (default: a new one).
    """
    one = lesson if isinstance(lesson, Lesson) else find_lesson(lesson)
    exercises = [*one.exercises] if hidden is None else with_hidden(one, Path(hidden))
    if not exercises:
        raise Misuse(f"{one.file} has no exercises: they stand beside it in {one.name}.py, as EXERCISES")
    named = [files] if isinstance(files, str | Path) else list(files)
    if seconds <= 0 or memory <= 0:
        raise Misuse("seconds and memory must be above 0")
    seed = secrets.randbelow(2**31) if seed is None else seed
    bounds = Bounds(seconds, memory, _hidden_paths(one, *named, *([hidden] if hidden is not None else [])))
    tell, graded = progress_of("submission"), list[Submission]()
    with nursery() as processes:
        for file in named:
            graded.append(_graded(str(file), one, exercises, bounds, seed, processes))
            tell(len(graded), len(named))
    return Grades(one.name, seed, graded)


def check_file(file: str | Path, lesson: Lesson, *, seconds: float = 30, memory: int = 2048) -> Submission:
    """What students can see of it: the visible cases, always the same."""
    bounds = Bounds(seconds, memory, _hidden_paths(lesson))
    with nursery() as processes:
        return _graded(str(file), lesson, lesson.exercises, bounds, 0, processes, hidden=False)


def _hidden_paths(lesson: Lesson, *paths: str | Path) -> list[str]:
    """What no submission may read: these, and where solutions and references are, the lesson's and ours."""
    file = lesson.file
    own = [file, file.with_suffix(".py"), file.with_name("__pycache__")] if file.parent != lessons.FOLDER else []
    return [os.path.abspath(one) for one in (*paths, *own, lessons.FOLDER, Path(__file__).with_name("exercises"))]


def with_hidden(lesson: Lesson, folder: Path) -> list[Exercise]:
    """A lesson's exercises with those of a teacher."""
    names = dict.fromkeys((f"{lesson.name}.py", f"{lesson.name.replace('-', '_')}.py"))
    file = next((folder / name for name in names if (folder / name).is_file()), None)
    if file is None:
        raise Misuse(f"{folder} has no {lesson.name}.py: hidden exercises stand there as EXERCISES")
    theirs = [exercise.unseen() for exercise in read_exercises(file)]
    return list({exercise.name: exercise for exercise in (*lesson.exercises, *theirs)}.values())


class _Unread:
    """A student of whom there is nothing."""

    def __init__(self, problem: str) -> None:
        self.problem = problem

    def value(self, *asked: Any) -> Any:
        raise StudentError(self.problem)

    call = run_module = value


def _graded(
    file: str,
    lesson: Lesson,
    exercises: Sequence[Exercise],
    bounds: Bounds,
    seed: int,
    processes: Nursery,
    *,
    hidden: bool = True,
) -> Submission:
    began = time.monotonic()
    try:
        parts = read_submission(file, lesson)
    except Misuse as problem:
        items = [item for exercise in exercises for item in exercise.items(_Unread("cannot be read"), hidden=hidden)]
        return Submission(items, file=file, problem=on_one_line(str(problem)))
    student = Sandboxed(processes, parts, bounds, "__main__" if is_notebook(file) else "submission")
    try:
        items = [item for exercise in exercises for item in exercise.items(student, seed=seed, hidden=hidden)]
    finally:
        student.end()
    wrong = [(parts[place], line) for place, line in sorted(student.wrong.items())]
    notes = [f"{part.label} {line}" for part, line in wrong if not part.is_ours]
    if student.printed > MUCH:
        notes.append(f"prints {student.printed / MUCH:.3g} MB, which nobody reads")
    return Submission(
        items,
        0 if hidden else lesson.points - sum(item.out_of for item in items),
        file=file,
        notes=[on_one_line(note) for note in notes],
        isolation=student.walls,
        seconds=time.monotonic() - began,
    )
