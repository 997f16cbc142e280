"""What a person sees: results on stdout, everything else on stderr."""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 160
"""Characters of a line where there is no terminal to fit into."""
CONTROL = {code: "·" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


@cache
def console(*, stderr: bool = False) -> "Console":
    """Texts are printed as they are. rich is imported with the first of them: a verb's --help needs none of it."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            """Nobody reads on: without a reader of its result a verb ends, without one of its notes it goes on."""
            if not stderr:
                raise BrokenPipeError
            mute(sys.stderr)

    width = None if stderr or sys.stdout.isatty() else WIDE
    return Output(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def mute(stream: TextIO) -> None:
    """From here on, nothing that is written goes anywhere, and nothing fails for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str) -> None:
    """What happens on the way, on stderr."""
    console(stderr=True).print(text)


def say_next(where: str) -> None:
    """What to do with a run."""
    from glassformer.families.base import FAMILIES
    from glassformer.runs.run import Run

    run = Run.open(where)
    say(f"next: {FAMILIES[run.config().task].command(run.path, run.config())}")


def printable(text: str) -> str:
    """Without what would steer a terminal: a model may write any byte."""
    return text.translate(CONTROL)


def visible(text: str) -> str:
    """Line ends and tabs as signs, so that a token stays on its line."""
    return text.replace("\n", "⏎").replace("\t", "⇥")


def print_json(value: dict[str, Any]) -> None:
    """One object on one line, the last of stdout."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def show_text(text: str = "", style: str | None = None) -> None:
    """A part of the result, on stdout."""
    console().print(text, style=style)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,)) -> None:
    console().print(make_table(columns, rows, left=left))


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,), no_wrap: bool = False
) -> "Table":
    """`left`: the columns that hold words; numbers are aligned on the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in left else "right", no_wrap=no_wrap)
    for row in rows:
        table.add_row(*row)
    return table


def show_result(result: Any, *, as_json: bool, out: str | None = None, show: Callable[[], object]) -> None:
    """A result saved to `out`, if that is set, and on stdout: as one JSON object, or in the words of `show`."""
    if out is not None:
        result.save(out)
    if as_json:
        print_json(result.to_dict())
    else:
        show()
