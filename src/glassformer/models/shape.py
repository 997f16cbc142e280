"""What a model has to know of the examples that it reads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """What an example is made of; what is 0, empty or None is not there."""

    vocab: int = 0
    """Different tokens of its text."""
    numbers: int = 0
    """Its number columns."""
    categories: tuple[int, ...] = ()
    """Of each of its category columns, how many values there are, the unknown one among them."""
    image: tuple[int, int, int] | None = None
    """Channels, height and width."""
    space: int | None = None
    """Of tokens that are characters, the one that parts words."""

    @property
    def columns(self) -> int:
        return self.numbers + len(self.categories)
