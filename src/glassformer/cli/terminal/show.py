"""What a person sees: results on stdout, everything else on stderr."""

import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from glassformer.cli.terminal.screen import is_quiet, unfiltered
from glassformer.config.plugins import parts_of
from glassformer.text.escaping import encodable, json_line, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 160
"""Characters of a line where there is no terminal to fit into."""


@cache
def console(*, stderr: bool = False) -> "Console":
    """Texts are printed as they are. rich is imported with the first of them: a verb's --help needs none of it."""
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        """Colours are ours, and go through; the texts between them hold nothing that steers."""

        @property
        def file(self) -> Any:
            return unfiltered(super().file)

        @file.setter
        def file(self, new: Any) -> None:
            self._file = new

        def on_broken_pipe(self) -> None:
            """Nobody reads on: without a reader of its result a verb ends, without one of its notes it goes on."""
            if not stderr:
                raise BrokenPipeError
            mute(sys.stderr)

        def render(self, *args: Any) -> Iterable[Segment]:
            for segment in super().render(*args):
                text = segment.text if segment.control else encodable(printable(segment.text), self.encoding)
                yield Segment(text, segment.style, segment.control)

    width = None if stderr or sys.stdout.isatty() else WIDE
    return Terminal(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def open_closed_streams() -> None:
    """Connect every standard stream that was closed (`>&-`) to the null device.

    Otherwise the next file that is opened would become file descriptor 1, and child processes would write into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  open until the process ends


def mute(stream: TextIO) -> None:
    """From here on, nothing that is written goes anywhere, and nothing fails for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str, style: str | None = None, *, always: bool = False) -> None:
    """What happens on the way, on stderr. `always`: with -q too."""
    if always or not is_quiet():
        console(stderr=True).print(text, style=style)


def is_live() -> bool:
    """Whether what goes on is drawn again and again: on a terminal, unless it should be quiet."""
    return console(stderr=True).is_terminal and not is_quiet()


def say_next(where: str) -> None:
    """What to do with a run."""
    from glassformer.families.base import FAMILIES
    from glassformer.runs.run import Run

    run = Run.open(where)
    bricks = {os.path.relpath(part.file) for part in parts_of(run.config()) if part.file is not None}
    own = "".join(f" --brick {shlex.quote(file)}" for file in sorted(bricks))
    say(f"next: {FAMILIES[run.config().task].command(run.path, run.config())}{own}")


def visible(text: str) -> str:
    """Line ends and tabs as signs, so that a token stays on its line."""
    return text.replace("\n", "⏎").replace("\t", "⇥")


def print_json(value: dict[str, Any]) -> None:
    """One object on one line, the last of stdout."""
    print(json_line(value, sys.stdout.encoding), flush=True)


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
        table.add_column(_cell_text(column), justify="left" if number in left else "right", no_wrap=no_wrap)
    for row in rows:
        table.add_row(*map(_cell_text, row))
    return table


def _cell_text(cell: str) -> str:
    """A cell as wide as it will be on the screen."""
    return encodable(printable(cell), sys.stdout.encoding)


def show_result(result: Any, *, as_json: bool, out: str | None = None, show: Callable[[], object]) -> None:
    """A result saved to `out`, if that is set, and on stdout: as one JSON object, or in the words of `show`."""
    if out is not None:
        result.save(out)
    if as_json:
        print_json(result.to_dict())
    else:
        show()
