"""What the tokens that stand for no text are for."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class Roles:
    """Ids by what they are for; None where a tokenizer has no such token.

    A tokenizer that is trained here has them by name. One made elsewhere says in the files beside it what is what, and
    a run keeps that in its card.
    """

    pad: int | None = None
    start: int | None = None
    """The token before every document and nowhere else: what it is the answer to is never asked."""
    end: int | None = None
    unk: int | None = None
    mask: int | None = None
    """The token in place of one that is to be guessed."""
    opening: tuple[int, ...] = ()
    """Tokens before a text that is labelled, or that is written."""
    closing: tuple[int, ...] = ()
    """Tokens after a text."""
    source: tuple[int, ...] = ()
    """Tokens before a text that is translated."""
    stops: tuple[int, ...] = ()
    """Tokens that, beside `end`, end a text that is written."""

    @classmethod
    def from_ids(cls, **ids: int | None) -> Self:
        """The roles in a tokenizer of this house: START before each text and END after it, where it has them."""
        around = {"opening": ids.get("start"), "closing": ids.get("end")}
        return cls(**ids, **{place: () if id is None else (id,) for place, id in around.items()})  # type: ignore[arg-type]

    @property
    def ends(self) -> tuple[int, ...]:
        """All ids that end a text which is written."""
        return self.stops if self.end is None else (self.end, *self.stops)

    @property
    def marks(self) -> frozenset[int]:
        """Whatever stands before texts and after them."""
        return frozenset({*self.opening, *self.closing, *self.source, self.start, self.end} - {None})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What `to_json` wrote; whatever else it may be is a TypeError or ValueError."""
        several = {one.name for one in fields(cls) if one.default == ()}
        return cls(**{name: _read(name, item, several=name in several) for name, item in value.items()})


def _read(name: str, value: Any, *, several: bool) -> Any:
    """Return one id or None; `several`: a tuple of ids."""
    if several and isinstance(value, list) and all(_is_id(one) for one in value):
        return tuple(value)
    if not several and (value is None or _is_id(value)):
        return value
    raise ValueError(
        f"{name} is {value!r:.80}, but must be {'a list of token ids' if several else 'a token id or null'}"
    )


def _is_id(value: Any) -> bool:
    return type(value) is int and value >= 0
