"""The one way to stdout and stderr: whatever is printed, by whomever, steers no terminal and fits the encoding."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, cast

from glassformer.text.escaping import SCREEN, TEXT, encodable, printable


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
