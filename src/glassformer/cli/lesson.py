"""glassformer lesson"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import JSON, Option, Parser, flag
from glassformer.cli.run_verbs import play
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import print_json, say, show_table, show_text
from glassformer.config.errors import Misuse

if TYPE_CHECKING:
    from glassformer.teaching.lesson import Lesson

PARSER = Parser(
    "lesson",
    "[NAME]",
    "The course: without a name, which lessons there are; with one, its notebook is written.",
    "glassformer lesson attention",
    [
        Option("name", nargs="?", metavar="NAME", help="a lesson's name or number, or your own: a .md file"),
        Option("--out", check=check_folder, metavar="DIR", help="where the notebook goes (default: ./NAME)"),
        flag("--solution", "with the exercises solved"),
        flag("--page", "as Markdown to read, instead of a notebook"),
        flag("--overwrite", "replace the notebook that is there"),
        Option("--check", metavar="FILE", help="try what was written in a notebook (.ipynb) or Python (.py); exit "
               "code 1 if points are missing"),
        flag("--play", "then open the lesson's run in the playground"),
        JSON,
    ],
    bricks=False,
)  # fmt: skip


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)

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
    trained = (folder / chosen.run).is_dir()
    if chosen.run and trained and not options.play:
        say(f"then: glassformer play {shlex.quote(str(folder / chosen.run))}")
    if options.play:
        if not chosen.run or not trained:
            raise Misuse(f"there is no run to play with yet: {file} trains {chosen.run or 'what it needs'}")
        play.run([str(folder / chosen.run)])


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
    return {"number": one.number, "name": one.name, "title": one.title, "minutes": one.minutes, "points": one.points}


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({"lessons": rows})
        return
    numbers = ("number", "minutes", "points")
    shown = [[f"{value:g}" if key in numbers else value for key, value in row.items()] for row in rows]
    show_table(["", "lesson", "", "minutes", "points"], shown, left=(1, 2))
    say("next: glassformer lesson NAME")
