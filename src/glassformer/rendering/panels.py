"""Panels: what a view is made of. Each holds arrays and words, knows no model, and is drawn in two places alike.

`to_dict` gives all of a panel as plain JSON; `packed` is the same for the page (`view.py`), with arrays as bytes. How
panels look on a page is told in `viewer/`, how they look in a picture in `drawing/`.
"""

import base64
import math
from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt8
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.text.display import visible

MOST_WEIGHTS = 2**20
"""Weights of a panel, all heads and moments together: so many go to the page as they are, of more the largest of each
row.
"""
LARGEST = 16
"""Weights kept of each row then."""

Cell = str | float | int | None
Rows = list[list[Cell]]
"""The cells of a table."""


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """One thing to look at."""

    kind: ClassVar[str]
    title: str = ""
    """What it is."""
    takeaway: str = ""
    """The one thing that it shows here: where there is one it is the heading, and the title stands small above it."""
    note: str = ""
    """What it says, beneath it."""
    folded: bool = False
    """On a page it shows its title alone until it is opened."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        return {"kind": self.kind, **_fields(self, None)}

    def packed(self, most: int = MOST_WEIGHTS) -> dict[str, Any]:
        """Everything for the page: arrays as base64, and of attention up to so many weights."""
        return {"kind": self.kind, **_fields(self, most)}


@dataclass(frozen=True, kw_only=True)
class Words(Panel):
    """A few paragraphs, or a command to type."""

    kind = "words"
    text: str
    code: bool = False


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """Rows of words and numbers. Columns in `bars` hold shares from 0 to 1, each with a bar on a track; `colours`: of a
    spot before each row (`model_colours`).
    """

    kind = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    bars: Sequence[str] = ()
    colours: Sequence[int | None] = ()


@dataclass(frozen=True, kw_only=True)
class Grid(Panel):
    """A matrix, the darker the larger; signed: one colour above 0, another below. `numbers`: written into the cells."""

    kind = "grid"
    values: Float[Array, "R C"]
    rows: Sequence[str]
    columns: Sequence[str]
    row_name: str = ""
    column_name: str = ""
    signed: bool = False
    low: float | None = None
    """The scale's lower end; None: 0, or as far below 0 as `high` is above."""
    high: float | None = None
    """The scale's upper end; None: the largest value (signed: the largest without its sign)."""
    numbers: bool = False
    causal: bool = False
    """Cells after their row's own are masked, as attention's are: hatched, without a number."""
    formula: str = ""
    """What the numbers are, written out."""


@dataclass(frozen=True, kw_only=True)
class Attention(Panel):
    """Attention weights of every layer and head."""

    weights: Float[Array, "L h T S"]
    layer: int | None = None
    """The layer to show first; None: the mean over all."""
    head: int | None = None
    causal: bool = False
    """No token looks at a later one: these weights are masked, not merely 0."""

    def packed(self, most: int = MOST_WEIGHTS) -> dict[str, Any]:
        return {**super().packed(most), "weights": pack_weights(np.asarray(self.weights), most)}


@dataclass(frozen=True, kw_only=True)
class Heads(Attention):
    """Attention between tokens: as a heat map, as lines between them, and all heads at once."""

    kind = "heads"
    rows: Sequence[str]
    """The tokens that look."""
    columns: Sequence[str]
    """The tokens looked at."""
    row_name: str = ""
    column_name: str = ""
    names: Sequence[Sequence[str]] = ()
    """What each head does, in words, by layer and head; empty: nobody knows."""
    mode: str = "heat"
    """What to show first: heat, lines, or all."""


@dataclass(frozen=True, kw_only=True)
class Patches(Attention):
    """An image, and the attention between its patches, which stand row by row."""

    kind = "patches"
    pixels: UInt8[Array, "H W C"]
    grid: tuple[int, int]
    """Rows and columns of patches."""


@dataclass(frozen=True, kw_only=True)
class Tokens(Panel):
    """A text, each token shaded by its value; a line of it for every row of values."""

    kind = "tokens"
    tokens: Sequence[str]
    values: Float[Array, "K T"]
    names: Sequence[str] = ("",)
    """Names of the rows of values."""
    signed: bool = False
    high: float | None = None
    """The scale's upper end; None: the largest value."""


@dataclass(frozen=True, kw_only=True)
class Chips(Panel):
    """A text cut into pieces in several ways, a line each; pieces of one group have one colour."""

    kind = "chips"
    lines: Sequence[Sequence[str]]
    names: Sequence[str]
    """What stands before each line."""
    groups: Sequence[Sequence[int]]
    marked: Sequence[Sequence[int]] = ()
    """The places in each line of what is new there."""


@dataclass(frozen=True, kw_only=True)
class Guesses(Panel):
    """After every layer and at each token, the likeliest next tokens (`at`: the likeliest there) with their
    probabilities, likeliest first.
    """

    kind = "guesses"
    tokens: Sequence[str]
    layers: Sequence[str]
    guesses: Sequence[Sequence[Sequence[str]]]
    """L×T×k"""
    probabilities: Float[Array, "L T k"]
    answers: Sequence[str] | None = None
    """What did follow each token, where it is known ("": nobody knows)."""
    at: bool = False
    """The tokens themselves are guessed, as a model that reads both ways does, not what follows them."""


@dataclass(frozen=True, kw_only=True)
class Points(Panel):
    """A map: points with names; those of one group in one colour."""

    kind = "points"
    points: Float[Array, "N 2"]
    labels: Sequence[str]
    groups: Sequence[str] = ()
    x_name: str = ""
    y_name: str = ""
    log_x: bool = False
    low: Sequence[float] = ()
    """How far each point reaches down, and with `high` up, as a bar through it."""
    high: Sequence[float] = ()
    levels: Sequence[tuple[str, float]] = ()
    """Lines from side to side: their names and heights."""
    colours: Sequence[int] = ()
    """Each point's colour (`model_colours`); empty: that of its group."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A series of `Lines`; with `low` and `high` a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dots: bool = False
    """Marked at each of its points."""
    faint: bool = False
    """Thin and pale: the noise behind another line."""
    colour: int | None = None
    """Which of the colours it has (`model_colours`); None: by its place."""


@dataclass(frozen=True, kw_only=True)
class Lines(Panel):
    """Series over one axis."""

    kind = "lines"
    series: Sequence[Line]
    x_name: str = ""
    x_ticks: Sequence[str] = ()
    """What x = 0, 1, 2 … are called, as layers are; empty: they are numbers."""
    y_name: str = ""
    log_x: bool = False
    log_y: bool = False
    levels: Sequence[tuple[str, float]] = ()
    """Lines from side to side: their names and heights."""

    @classmethod
    def by_layer(cls, layers: Sequence[str], series: Iterable[tuple[str, Sequence[float]]], **facts: Any) -> "Lines":
        """Return named series with a value after each layer; `facts`: the other fields."""
        dotted = [Line(name=name, x=list(range(len(y))), y=y, dots=True) for name, y in series]
        return cls(series=dotted, x_name="after", x_ticks=layers, **facts)


@dataclass(frozen=True, kw_only=True)
class Choices(Panel):
    """Rows of numbers that go through several steps: a column each, its bars on one scale. What was cut on the way is
    grey, and says why.
    """

    kind = "choices"
    name: str
    """What the rows are."""
    rows: Sequence[str]
    columns: Sequence[str]
    values: Float[Array, "R C"]
    """−∞: cut there."""
    scales: Sequence[tuple[float, float]]
    """The ends of each column's bars."""
    why: Sequence[str] = ()
    """Why a row was cut ("": it was not)."""

    def as_table(self) -> Table:
        """Return the rows as a table, with the reason in place of a number that was cut."""
        reasons = self.why or [""] * len(self.rows)
        rows = [
            [visible(name), *(float(value) if math.isfinite(value) else why or "cut" for value in values)]
            for name, values, why in zip(self.rows, self.values, reasons, strict=True)
        ]
        return Table(columns=[self.name, *self.columns], rows=rows)


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A token of a `Tree`."""

    token: str
    parent: int | None
    """Its place among the branches, before this one; None: the root."""
    probability: float
    fate: str
    """chosen, kept, or pruned: blue, pale, or grey."""
    why: str = ""
    """What became of it, in a few words beneath it."""
    told: str = ""
    """What is said of it when one points at it."""
    id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Tree(Panel):
    """Tokens that follow one another, from left to right; the thicker the line to one, the more probable it is."""

    kind = "tree"
    root: str
    branches: Sequence[Branch]


@dataclass(frozen=True, kw_only=True)
class Gallery(Panel):
    """Small images with a line beneath each."""

    kind = "gallery"
    images: Sequence[UInt8[Array, "H W C"]]
    captions: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Brick:
    """A box of a `Diagram`, and what is shown when it is opened."""

    name: str
    title: str
    kind: str
    """embedding, positions, attention, feed-forward, norm, recurrent, convolution, pool, head, other: its colour; add:
    a sum; data: what goes in or comes out.
    """
    width: int
    """Of the vectors that it gives: the wider, the wider the box."""
    hidden: int = 0
    """Of the widest vectors in it, where they are wider."""
    parameters: int = 0
    detail: str = ""
    lane: int = 0
    """Bricks of one lane stand one beneath another, lanes side by side."""
    group: str = ""
    numbers: Sequence[tuple[str, str]] = ()
    heat: UInt8[Array, "T d"] | None = None
    """What it gave, small: 128 is 0, 255 as large as any."""
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """From a brick to a brick."""

    start: str
    end: str
    shape: str = ""
    role: str = "flow"
    """flow: to the next brick; residual, skip: around some; memory, state: to another lane; feedback: back to one
    above; tied: no arrow, the same weights.
    """


@dataclass(frozen=True, kw_only=True)
class Group:
    """A frame around bricks of a lane that follow each other."""

    name: str
    title: str
    like: str = ""
    """The first of the groups that it is like: they are drawn once, with their number, until somebody wants each."""


@dataclass(frozen=True, kw_only=True)
class Diagram(Panel):
    """What a model is built of: bricks from top to bottom, and arrows with the shapes of what passes."""

    kind = "diagram"
    bricks: Sequence[Brick]
    arrows: Sequence[Arrow]
    groups: Sequence[Group] = ()
    lanes: Sequence[str] = ("",)
    """Names of the lanes."""


@dataclass(frozen=True, kw_only=True)
class Frames(Panel):
    """The same panels at several moments, or layer by layer, with a slider."""

    kind = "frames"
    name: str
    """What the slider runs over: updates, layer."""
    labels: Sequence[str]
    frames: Sequence[Sequence[Panel]]

    def packed(self, most: int = MOST_WEIGHTS) -> dict[str, Any]:
        """What all of them may hold is divided among those that hold attention."""
        sharing = sum(isinstance(panel, Attention) for frame in self.frames for panel in frame)
        return super().packed(most // max(sharing, 1))


def pack_weights(weights: NDArray[Any], most: int = MOST_WEIGHTS) -> dict[str, Any]:
    """Weights from 0 to 1 as bytes: all of them, or of each row the largest and their places."""
    shape = list(weights.shape)
    bytes_ = np.rint(np.clip(weights, 0, 1) * 255).astype(np.uint8)
    if weights.size <= most or shape[-1] <= LARGEST:
        return {"shape": shape, "u8": _base64(bytes_)}
    places = np.argpartition(weights, -LARGEST, -1)[..., -LARGEST:]
    order = np.argsort(-np.take_along_axis(weights, places, -1), -1, kind="stable")
    places = np.take_along_axis(places, order, -1)
    largest = np.take_along_axis(bytes_, places, -1)
    return {"shape": shape, "places": _base64(places.astype("<u2")), "u8": _base64(largest), "kept": LARGEST}


def _fields(value: Any, most: int | None) -> dict[str, Any]:
    return {field.name: _json(getattr(value, field.name), most) for field in fields(value)}


def _json(value: Any, most: int | None) -> Any:
    """A value as JSON takes it; with `most`, arrays are packed, and of attention up to so many weights."""
    if isinstance(value, Panel):
        return value.to_dict() if most is None else value.packed(most)
    if is_dataclass(value):
        return _fields(value, most)
    if isinstance(value, np.ndarray) and most is not None:
        kind, name = ("u1", "u8") if value.dtype == np.uint8 else ("<f4", "f32")
        return {"shape": list(value.shape), name: _base64(value.astype(kind))}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json(part, most) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value  # JSON has no infinity


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


# --- colours of models, the same on every page and picture ---

OF_MODELS = ("transformer", "lstm", "cnn", "rnn", "gru", "average", "bag", "window", "mlp", "linear")
"""The models that have a colour of their own, which is the one at this place."""
SPARE = (10, 11, *range(10))
"""Colours of others, in this order. The page has twelve (`--c0` to `--c11`), and so have pictures."""


def model_colours(models: Sequence[str]) -> list[int]:
    """The colour of each, by the model it is; where that is unknown, or comes again, one that is free."""
    colours: list[int] = []
    for model in models:
        wanted = [OF_MODELS.index(model)] if model in OF_MODELS else []
        colours.append(next((colour for colour in (*wanted, *SPARE) if colour not in colours), len(colours)))
    return colours
