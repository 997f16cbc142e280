"""Grade submissions by the exercises of a lesson, in separate processes."""

import contextlib
import csv
import io
import math
import os
import secrets
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, read_failure
from glassformer.config.limits import LimitExceeded, refuse_beyond
from glassformer.config.progress import progress_of
from glassformer.notebook.display import progress_bar
from glassformer.notebook.html import table
from glassformer.teaching import lesson as lessons
from glassformer.teaching.exercise import Exercise, Item, Student, StudentError
from glassformer.teaching.lesson import Checked, Lesson, read_exercises
from glassformer.teaching.lesson import lesson as find_lesson
from glassformer.teaching.nursery import Nursery, nursery
from glassformer.teaching.sandbox import Bounds, Sandboxed, Source, Unreadable
from glassformer.teaching.submitted import is_notebook
from glassformer.teaching.view import view_for
from glassformer.text.escaping import printable_line, spreadsheet_cell

SOLUTIONS = [str(Path(__file__).with_name("exercises") / "__init__.py")]
"""A file with reference solutions, which each process tries to open to test its isolation."""
MB = 10**6
"""Bytes per megabyte. A submission that prints more than one megabyte gets a note."""


@dataclass(frozen=True)
class Submission(Checked):
    """Result of one submission."""

    file: str = ""
    problem: str = ""
    """Reason why the file could not be graded; empty if it was graded."""
    notes: Sequence[str] = ()
    """Errors in the submission, whether they cost points or not."""
    isolation: Sequence[str] = ()
    """Forbidden actions that the process tried before the submission ran; "weak" marks actions that succeeded."""
    seconds: float = 0
    visible_seconds: float = 0
    """Seconds until the first hidden case."""

    @property
    def lines(self) -> list[str]:
        """Return the problem if there is one, else the notes and the lines of all items with lost points."""
        lost = [f"{item.name}: {item.line}" for item in self.items if item.line]
        return [self.problem] if self.problem else [*self.notes, *lost]

    def to_dict(self) -> dict[str, Any]:
        about = {"file": self.file, "problem": self.problem, "notes": list(self.notes)}
        return {**about, **super().to_dict(), "isolation": list(self.isolation), "seconds": round(self.seconds, 2)}

    def gradescope(self) -> dict[str, Any]:
        """Return the contents of Gradescope's results.json; students do not see the hidden items."""
        return {
            "score": self.points,
            "execution_time": round(self.visible_seconds),
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
    """Results of all submissions. A notebook displays them as a table."""

    lesson: str
    seed: int
    """Seed of the random inputs."""
    submissions: Sequence[Submission] = field(default_factory=list)

    def rows(self) -> list[tuple[str, str, str]]:
        return [(one.file, f"{one.points:g} of {one.out_of:g}", _short(one.lines)) for one in self.submissions]

    def to_dict(self) -> dict[str, Any]:
        return {"lesson": self.lesson, "seed": self.seed, "submissions": [one.to_dict() for one in self.submissions]}

    def csv(self) -> str:
        """Return a table with a row per submission and a column per item."""
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
    """Grade notebooks or Python files. None of their code runs in this process.

    `hidden`: a folder with `NAME.py`, whose EXERCISES replace exercises of the same name or add new ones.
    `seconds`: time limit per cell and per call. `memory`: memory limit in MB.
    `seed`: seed of the random inputs (default: a new one).
    """
    one = lesson if isinstance(lesson, Lesson) else find_lesson(lesson)
    exercises = [*one.exercises] if hidden is None else with_hidden(one, Path(hidden))
    if not exercises:
        raise Misuse(f"{one.file} has no exercises: define them as EXERCISES in {one.name}.py, in the same folder")
    named = [files] if isinstance(files, str | Path) else list(files)
    if not 0 < seconds < math.inf or memory <= 0:
        raise Misuse(f"seconds is {seconds:g} and memory {memory}, but both must be above 0 and finite")
    seed = secrets.randbelow(2**31) if seed is None else seed
    _refuse_importable(named)
    paths = _hidden_paths(one, *named, *([hidden] if hidden is not None else []))
    tell, graded = progress_of("submission"), list[Submission]()
    with nursery(view_for(one.shipped_runs, paths)) as processes:
        asked = Grading(one, exercises, Bounds(seconds, memory), seed, processes)
        for file in named:
            theirs = [] if hidden is None else _hidden_files(one, Path(hidden))
            graded.append(_graded(str(file), asked, hidden=[*_solutions(one), os.path.abspath(file), *theirs]))
            tell(len(graded), len(named))
    return Grades(one.name, seed, graded)


def check_file(file: str | Path, lesson: Lesson, *, seconds: float = 30, memory: int = 2048) -> Submission:
    """Grade the visible cases of a submission, with the same inputs each time."""
    with nursery(view_for(lesson.shipped_runs, _hidden_paths(lesson))) as processes:
        asked = Grading(lesson, lesson.exercises, Bounds(seconds, memory), 0, processes, passes=(False,))
        return _graded(str(file), asked, hidden=_solutions(lesson))


def _refuse_importable(files: Sequence[str | Path]) -> None:
    """Refuse files in a folder on `sys.path`: this process would import a submission called csv.py."""
    folders = {os.path.realpath(path or ".") for path in sys.path}
    for file in files:
        for folder in map(str, Path(os.path.realpath(file)).parents):
            if folder in folders:
                raise Misuse(
                    f"{folder} is on Python's path, so that a submission called csv.py would run outside the sandbox: "
                    "use the command `glassformer grade`, or start Python in another folder"
                )
            if not os.path.isfile(os.path.join(folder, "__init__.py")):  # otherwise it is imported as a package
                break


def _solutions(lesson: Lesson) -> list[str]:
    """Return the solution files that each submission's process tries to read to test its isolation."""
    return [*SOLUTIONS, *(os.path.abspath(file) for file in (lesson.file, lesson.file.with_suffix(".py")))]


def _hidden_paths(lesson: Lesson, *paths: str | Path) -> list[str]:
    """Return the paths that no submission may read: the given paths, the solutions and the references."""
    file = lesson.file
    own = [file, file.with_suffix(".py"), file.with_name("__pycache__")] if file.parent != lessons.FOLDER else []
    return [os.path.abspath(one) for one in (*paths, *own, lessons.FOLDER, Path(__file__).with_name("exercises"))]


def with_hidden(lesson: Lesson, folder: Path) -> list[Exercise]:
    """Return the exercises of a lesson, replaced or extended by the hidden exercises in a folder."""
    files = _hidden_files(lesson, folder)
    if not files:
        raise Misuse(f"{folder} has no {lesson.name}.py, which must define hidden exercises as EXERCISES")
    theirs = [exercise.unseen() for exercise in read_exercises(Path(files[0]))]
    return list({exercise.name: exercise for exercise in (*lesson.exercises, *theirs)}.values())


def _hidden_files(lesson: Lesson, folder: Path) -> list[str]:
    """Return the files in a folder that define hidden exercises of a lesson."""
    names = dict.fromkeys((f"{lesson.name}.py", f"{lesson.name.replace('-', '_')}.py"))
    return [os.path.abspath(folder / name) for name in names if (folder / name).is_file()]


@dataclass(frozen=True)
class Grading:
    """Settings for grading submissions: exercises, limits, seed and processes."""

    lesson: Lesson
    exercises: Sequence[Exercise]
    bounds: Bounds
    seed: int
    processes: Nursery
    passes: Sequence[bool] = (False, True)
    """Passes in order: visible cases (False), hidden cases (True)."""

    def items(self, students: Iterable[Student]) -> Iterator[list[list[Item]]]:
        """Yield one list per pass: the items of each exercise."""
        for student, hidden in zip(students, self.passes, strict=True):
            yield [each.items(student, seed=self.seed, visible=not hidden, hidden=hidden) for each in self.exercises]


class _Unread:
    """Student whose file cannot be read."""

    def value(self, *asked: Any) -> Any:
        raise StudentError("cannot be read")

    call = run_module = value


def _graded(file: str, asked: Grading, *, hidden: Collection[str]) -> Submission:
    """Grade a file. Hidden cases run last, in a separate process, so that no visible line depends on them.

    All texts in the result are made printable, because students choose file names and messages.
    """
    began = time.monotonic()
    try:
        with _opened(file) as handle:
            names = [exercise.name for exercise in asked.lesson.exercises]
            source = Source(file, handle, asked.lesson.own_cells, names, hidden)
            module = "__main__" if is_notebook(file) else "submission"
            students = [Sandboxed(asked.processes, source, asked.bounds, module) for _ in asked.passes]
            with contextlib.suppress(StudentError):  # out of time: each item reports it
                students[0].begin()
            passes, seconds = list[list[list[Item]]](), list[float]()
            try:
                for of_pass, student in zip(asked.items(students), students, strict=True):
                    student.end()
                    passes.append(of_pass)
                    seconds.append(time.monotonic() - began)
            finally:
                for student in students:
                    student.end()
    except Unreadable as problem:
        lost = asked.items(_Unread() for _ in asked.passes)
        return Submission(_by_exercise(lost), file=printable_line(file), problem=printable_line(str(problem)))
    items, first = _by_exercise(passes), students[0]
    wrong = [(first.parts[place], line) for place, line in sorted(first.wrong.items())]
    notes = [f"{part.label} {line}" for part, line in wrong if not part.is_ours]
    if first.printed > MB:
        notes.append(f"prints {first.printed / MB:.3g} MB, which nobody reads")
    return Submission(
        items,
        0 if True in asked.passes else asked.lesson.points - sum(item.out_of for item in items),
        file=printable_line(file),
        notes=[printable_line(note) for note in notes],
        isolation=[printable_line(line) for line in first.isolation],
        seconds=seconds[-1],
        visible_seconds=seconds[0],
    )


def _by_exercise(passes: Iterable[Sequence[Sequence[Item]]]) -> list[Item]:
    """Return the items of all passes, grouped by exercise, with printable texts."""
    return [
        replace(item, name=printable_line(item.name), line=printable_line(item.line))
        for of_exercise in zip(*passes, strict=True)
        for items in of_exercise
        for item in items
    ]


@contextlib.contextmanager
def _opened(file: str) -> Iterator[int]:
    """Open a submission without reading it.

    Raise `Unreadable` for links, which may lead to a solution, for files that are too large, and for anything that is
    not a regular file.
    """
    limit = "notebook_bytes" if is_notebook(file) else "submission_bytes"
    if os.path.islink(file):
        raise Unreadable(f"{file} is a link to another file: hand in the file itself")
    if not file.lower().endswith((".ipynb", ".py")):
        raise Unreadable(f"{file} is neither a notebook (.ipynb) nor Python (.py)")
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(read_failure(file, error)) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{file} is not a file")
        try:
            refuse_beyond(limit, status.st_size, f"{file} is {{}}")
        except LimitExceeded as error:
            raise Unreadable(str(error)) from None
        yield handle
    finally:
        os.close(handle)
