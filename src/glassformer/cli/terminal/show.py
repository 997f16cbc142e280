"""Output to the terminal: results on stdout, everything else on stderr."""

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
"""Number of characters per line if the output is not a terminal."""

# --- stdout and stderr: printed text cannot control the terminal and always fits the encoding ---


class Screen:
    """A stream that removes control characters. Our own colours are written to the underlying `stream` directly."""

    quiet = False
    """True if progress messages are suppressed (-q)."""

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
    """Replace stdout and stderr by screens while open. Pipes and files keep line ends and text direction marks."""
    out, err = sys.stdout, sys.stderr
    if out is not None:  # None if it was closed when the process started
        sys.stdout = cast(TextIO, Screen(out, SCREEN if out.isatty() else TEXT))
    if err is not None:
        sys.stderr = cast(TextIO, Screen(err, SCREEN))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def be_quiet() -> None:
    """Suppress progress messages until the verb ends."""
    if isinstance(sys.stderr, Screen):
        sys.stderr.quiet = True
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # for downloads


def is_quiet() -> bool:
    return getattr(sys.stderr, "quiet", False)


def unfiltered(stream: Any) -> Any:
    """Return the stream behind a screen."""
    return stream.stream if isinstance(stream, Screen) else stream


# --- results and messages ---


@cache
def console(*, stderr: bool = False) -> "Console":
    """Return the console for stdout or stderr, which prints texts literally.

    rich is imported on first use, because --help does not need it.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        """A console that writes colours directly, and removes control characters from the texts between them."""

        @property
        def file(self) -> Any:
            return unfiltered(super().file)

        @file.setter
        def file(self, new: Any) -> None:
            self._file = new

        def on_broken_pipe(self) -> None:
            """Handle a closed pipe: end the verb for stdout, continue without messages for stderr."""
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
    """Redirect a stream to the null device, so that later writes neither appear nor fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str, style: str | None = None, *, always: bool = False) -> None:
    """Print a progress message on stderr. `always`: even with -q."""
    if always or not is_quiet():
        console(stderr=True).print(text, style=style)


def is_live() -> bool:
    """Return whether progress is drawn live: in a terminal without -q."""
    return console(stderr=True).is_terminal and not is_quiet()


def say_next(where: str) -> None:
    """Print the next command for a run."""
    from glassformer.families.base import FAMILIES
    from glassformer.runs.run import Run

    run = Run.open(where)
    bricks = {os.path.relpath(part.file) for part in parts_of(run.config()) if part.file is not None}
    own = "".join(f" --brick {shlex.quote(file)}" for file in sorted(bricks))
    say(f"next: {FAMILIES[run.config().task].command(run.path, run.config())}{own}")


def visible(text: str) -> str:
    """Return a text with symbols for line ends and tabs, so that a token stays on one line."""
    return text.replace("\n", "⏎").replace("\t", "⇥")


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on one line of stdout."""
    print(json_line(value, sys.stdout.encoding), flush=True)


def show_text(text: str = "", style: str | None = None) -> None:
    """Print a part of the result on stdout."""
    console().print(text, style=style)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,)) -> None:
    console().print(make_table(columns, rows, left=left))


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[int] = (0,), no_wrap: bool = False
) -> "Table":
    """Return a table for the terminal. `left`: indices of text columns; the other columns are aligned on the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(_cell_text(column), justify="left" if number in left else "right", no_wrap=no_wrap)
    for row in rows:
        table.add_row(*map(_cell_text, row))
    return table


def _cell_text(cell: str) -> str:
    """Return the text of a cell as it will be printed, so that its width is correct."""
    return encodable(printable(cell), sys.stdout.encoding)


# --- progress of long work ---

WORTH_SAYING = 1.0
"""Seconds of work below which the speed is not reported."""


class RowProgress(Meter):
    """Progress bar for rows, tokens or weights. There is no bar if results are printed to the same terminal."""

    def __init__(self, *, printed: bool = False) -> None:
        """Create the bar. `printed`: results are printed to stdout."""
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
