"""glassformer grade"""

import os
from collections.abc import Sequence

from glassformer.cli.options import JSON, Option, Parser, flag
from glassformer.cli.terminal.inputs import check_out, writer_to
from glassformer.cli.terminal.show import print_json, say, show_table, show_text
from glassformer.config.errors import Misuse
from glassformer.text.escaping import json_line

SECONDS = Option("--seconds", type=float, default=30, metavar="N", help="for each cell and each call (default 30)")
MEMORY = Option(
    "--memory", type=int, default=2048, metavar="MB", help="of memory beside what torch needs (default 2048)"
)
PARSER = Parser(
    "grade",
    "FILE … --lesson NAME",
    "Grade what students hand in, notebooks or files of Python, each in a process of its own without network, new "
    "processes or the hidden tests. Exit code 1 if a file cannot be read.",
    "glassformer grade ./*.ipynb --lesson attention --out points.csv",
    [
        Option("files", nargs="+", metavar="FILE", help="notebooks (.ipynb) or Python (.py)"),
        Option("--lesson", required=True, metavar="NAME", help="the lesson's name or number, or your own: a .md file"),
        Option("--hidden", metavar="DIR", help="a folder with NAME.py, whose EXERCISES replace those of the same name "
               "and add others"),
        SECONDS,
        MEMORY,
        Option("--seed", type=int, metavar="N", help="of what they are tried with (default: another each time)"),
        Option("--out", metavar="FILE", help="write the result to .json or .csv"),
        JSON,
        flag("--gradescope", "the result of one file as Gradescope's results.json"),
    ],
    bricks=False,
)  # fmt: skip


def run(argv: list[str]) -> None:
    _refuse_files_like_options(argv[: argv.index("--")] if "--" in argv else argv)
    options = PARSER.read(argv)
    check_out(options.out, (".json", ".csv"))
    if options.gradescope and len(options.files) > 1:
        raise Misuse(f"Gradescope's results.json is of one submission, not of {len(options.files)}")
    if options.gradescope and str(options.out).endswith(".csv"):
        raise Misuse(f"--out {options.out}: Gradescope wants .json")

    from glassformer.cli.terminal.rows import RowProgress
    from glassformer.teaching.grade import grade

    asked = {name: getattr(options, name) for name in ("hidden", "seconds", "memory", "seed")}
    with RowProgress():
        grades = grade(options.files, options.lesson, **asked)
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
