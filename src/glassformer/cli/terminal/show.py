"""What a person sees: results on stdout, everything else on stderr."""

import contextlib
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO, cast

from glassformer.config.plugins import parts_of
from glassformer.config.progress import BYTE, Meter
from glassformer.text.escaping import SCREEN, TEXT, encodable, json_line, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

WIDE = 160
"""Characters of a line where there is no terminal to fit into."""

# --- stdout and stderr: nothing that is printed steers a terminal, and everything fits the encoding ---


class Screen:
    """A stream that lets no control character through. Colours of our own go past it, by `stream`."""

    quiet = False
    """Set, nothing is said on the way (-q)."""

    def __init__(self, stream: TextIO, table: dict[int, str]) -> None:
        self.stream = stream
        self.table = table

    def write(self, text: str) -> int:
        self.stream.write(encodable(printable(text, self.table), self.stream.encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def screens() -> Iterator[None]:
    """Stdout and stderr as screens. What goes into a pipe or a file keeps its line ends and directions."""
    out, err = sys.stdout, sys.stderr
    if out is not None:  # closed before we began, there is nothing to write to
        sys.stdout = cast(TextIO, Screen(out, SCREEN if out.isatty() else TEXT))
    if err is not None:
        sys.stderr = cast(TextIO, Screen(err, SCREEN))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def be_quiet() -> None:
    """From now on, until the verb ends, nothing is said on the way."""
    if isinstance(sys.stderr, Screen):
        sys.stderr.quiet = True
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # of whatever is fetched


def is_quiet() -> bool:
    return getattr(sys.stderr, "quiet", False)


def unfiltered(stream: Any) -> Any:
    """The stream behind a screen."""
    return stream.stream if isinstance(stream, Screen) else stream


# --- results and messages ---


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


# --- progress of long work ---

WORTH_SAYING = 1.0
"""Seconds below which nobody asks how fast it was."""


class RowProgress(Meter):
    """Hears of the rows, tokens, weights … that are done inside. Where results go to the terminal themselves, there is
    no bar among them."""

    def __init__(self, *, printed: bool = False) -> None:
        """`printed`: results go to stdout."""
        super().__init__()
        self.has_bar = is_live() and not (printed and sys.stdout.isatty())
        self.bar: Progress | None = None

    def draw(self) -> None:
        if self.has_bar and self.bar is None:
            self._start()
        if self.bar is not None:
            shown = {"amount": self.amount, "speed": self.speed, "left": self.left}
            self.bar.update(self.bar.task_ids[0], completed=self.done, total=self.total, shown=shown)

    def _start(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        texts = (TextColumn(f"{{task.fields[shown][{name}]}}") for name in ("amount", "speed", "left"))
        self.bar = Progress(
            BarColumn(bar_width=24),
            *texts,
            console=console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.bar.add_task("", total=None, shown={"amount": "", "speed": "", "left": ""})
        self.bar.start()

    def end(self, *, stopped: bool) -> None:
        if self.bar is not None:
            self.bar.stop()
        if not stopped and self.unit != BYTE and self.seconds >= WORTH_SAYING:
            say(self.whole + self.took)
