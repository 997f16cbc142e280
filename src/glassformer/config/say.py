"""Who is told what happens on the way: a function of one line of text."""

from collections.abc import Callable

Say = Callable[[str], None]


def silent(anything: object) -> None:
    """For who does not want to know."""
