"""The commands `glassformer lesson` and `glassformer grade`."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_folder, check_out, writer_to
from glassformer.cli.terminal.show import RowProgress, print_json, say, show_table, show_text
from glassformer.config.errors import Misuse
from glassformer.text.escaping import json_line

if TYPE_CHECKING:
    from glassformer.teaching.lesson import Lesson

LESSON = Parser("lesson", checks={"out": check_folder})
GRADE = Parser("grade")


def run_lesson(argv: list[str]) -> None:
    options = LESSON.read(argv)

    from glassformer.teaching.lesson import lesson, lessons

    if options.check and options.name is None:
        raise Misuse("--check wants the lesson's NAME too: glassformer lesson NAME --check FILE")
    if options.name is None:
        _show([_row(one) for one in lessons()], as_json=options.json)
        return
    chosen = lesson(options.name)
    if options.check:
        _check(options.check, chosen, as_json=options.json)
        return
    folder = Path(options.out or chosen.name)
    file = chosen.write(folder, solution=options.solution, page=options.page, overwrite=options.overwrite)
    if options.json:
        print_json({**_row(chosen), "file": str(file)})
    else:
        print(file)
    if not options.page:
        say(f"next: jupyter lab {shlex.quote(str(file))}")
    if chosen.run and (folder / chosen.run).is_dir():
        say(f"then: glassformer play {shlex.quote(str(folder / chosen.run))}")


def _check(file: str, lesson: "Lesson", *, as_json: bool) -> None:
    from glassformer.teaching.grade import check_file

    checked = check_file(file, lesson)
    if checked.problem:
        raise Misuse(checked.problem)
    if as_json:
        print_json(checked.to_dict())
    else:
        show_table(["exercise", "points", ""], checked.rows(), left=(0, 2))
        show_text(checked.words)
    if not checked.passed:
        raise SystemExit(1)


def _row(one: "Lesson") -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("number", "name", "title", "minutes", "points")}


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({"lessons": rows})
        return
    shown = [[value if isinstance(value, str) else f"{value:g}" for value in row.values()] for row in rows]
    show_table(["", "lesson", "", "minutes", "points"], shown, left=(1, 2))
    say("next: glassformer lesson NAME")


def run_grade(argv: list[str]) -> None:
    _refuse_files_like_options(argv[: argv.index("--")] if "--" in argv else argv)
    options = GRADE.read(argv)
    check_out(options.out, (".json", ".csv"))
    if options.gradescope and len(options.files) > 1:
        raise Misuse(f"Gradescope's results.json is of one submission, not of {len(options.files)}")
    if options.gradescope and str(options.out).endswith(".csv"):
        raise Misuse(f"--out {options.out}: Gradescope wants .json")

    from glassformer.teaching.grade import grade

    with RowProgress():
        grades = grade(**arguments_of(options, grade))
    result = grades.submissions[0].gradescope() if options.gradescope else grades.to_dict()
    if options.out is not None:
        with writer_to(options.out) as to:
            to.write(grades.csv() if options.out.endswith(".csv") else f"{json_line(result)}\n")
    if options.json or (options.gradescope and options.out is None):
        print_json(result)
    elif len(grades.submissions) == 1:
        [one] = grades.submissions
        if not one.problem:
            show_table(["exercise", "points", ""], one.rows(), left=(0, 2))
        show_text(one.problem or one.words)
        for note in one.notes:
            say(note)
    else:
        show_table(["file", "points", ""], grades.rows(), left=(0, 2))
    for wall in sorted({wall for one in grades for wall in one.isolation if wall.startswith("weak")}):
        say(f"{wall}: install bubblewrap, or grade only submissions of people you trust", always=True)
    if any(one.problem for one in grades):
        raise SystemExit(1)


def _refuse_files_like_options(words: Sequence[str]) -> None:
    """Refuse an option that is also the name of a file: `*.py` may have expanded to `--hidden=x.py`."""
    for word in words:
        if word.startswith("-") and os.path.lexists(word):
            raise Misuse(f"{word} is both an option and the name of a file here: write ./*.py instead of *.py")
