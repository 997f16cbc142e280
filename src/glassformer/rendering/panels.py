"""Panels: the parts of a view. They hold arrays and words and know no model.

`to_dict` returns a panel as plain JSON; `packed` returns it for the page (`view.py`), with arrays as bytes. `viewer/`
draws panels on a page and `drawing/` draws them in a picture.
"""

import base64
import math
from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from glassformer.config.arrays import Array
from glassformer.config.json_types import JsonObject
from glassformer.text.display import visible

MAX_WEIGHTS = 2**20
"""Maximum number of attention weights sent to the page; of more, only the largest of each row."""
KEPT_PER_ROW = 16
"""Number of weights per row in that case."""

Cell = str | float | int | None
Rows = list[list[Cell]]
"""Cells of a table."""


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """Base class of panels."""

    kind: ClassVar[str]
    title: str = ""
    """Subject of the panel."""
    takeaway: str = ""
    """Main result. It becomes the heading, with the title in small print above it."""
    note: str = ""
    """Explanation below it."""
    folded: bool = False
    """Whether a page shows only its title until it is opened."""

    def to_dict(self) -> JsonObject:
        """Return all fields as JSON values."""
        return {"kind": self.kind, **_fields(self, None)}

    def packed(self, most: int = MAX_WEIGHTS) -> JsonObject:
        """Return all fields for the page: arrays in base64, attention limited to `most` weights."""
        return {"kind": self.kind, **_fields(self, most)}


@dataclass(frozen=True, kw_only=True)
class Words(Panel):
    """Paragraphs of text, or a command."""

    kind = "words"
    text: str
    code: bool = False


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """Rows of words and numbers.

    Columns in `bars` have values from 0 to 1, each shown as a bar. `colours` are those of a spot before each row
    (`model_colours`).
    """

    kind = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    bars: Sequence[str] = ()
    colours: Sequence[int | None] = ()


@dataclass(frozen=True, kw_only=True)
class Grid(Panel):
    """A matrix; darker cells have larger values.

    With `signed`, values above and below 0 have different colours. With `numbers`, the cells show their values.
    """

    kind = "grid"
    values: Float[Array, "R C"]
    rows: Sequence[str]
    columns: Sequence[str]
    row_name: str = ""
    column_name: str = ""
    signed: bool = False
    low: float | None = None
    """Lower end of the scale; None: 0, or −`high` if signed."""
    high: float | None = None
    """Upper end of the scale; None: the largest (absolute) value."""
    numbers: bool = False
    causal: bool = False
    """Whether cells after the diagonal are masked, as in causal attention: hatched and without a number."""
    formula: str = ""
    """Formula of the values."""


@dataclass(frozen=True, kw_only=True)
class Attention(Panel):
    """Attention weights of every layer and head."""

    weights: Float[Array, "L h T S"]
    layer: int | None = None
    """Layer to show first; None: the mean over all."""
    head: int | None = None
    causal: bool = False
    """Whether weights for later tokens are masked, not merely 0."""

    def packed(self, most: int = MAX_WEIGHTS) -> JsonObject:
        return {**super().packed(most), "weights": pack_weights(np.asarray(self.weights), most)}


@dataclass(frozen=True, kw_only=True)
class Heads(Attention):
    """Attention between tokens: as a heat map, as lines, and all heads at once."""

    kind = "heads"
    rows: Sequence[str]
    """Query tokens."""
    columns: Sequence[str]
    """Key tokens."""
    row_name: str = ""
    column_name: str = ""
    names: Sequence[Sequence[str]] = ()
    """Role of each head by layer and head; empty if unknown."""
    mode: str = "heat"
    """First display: heat, lines, or all."""


@dataclass(frozen=True, kw_only=True)
class Patches(Attention):
    """An image and the attention between its patches, which are ordered row by row."""

    kind = "patches"
    pixels: UInt8[Array, "H W C"]
    grid: tuple[int, int]
    """Rows and columns of patches."""


@dataclass(frozen=True, kw_only=True)
class Tokens(Panel):
    """A text with each token shaded by its value, repeated for every row of values."""

    kind = "tokens"
    tokens: Sequence[str]
    values: Float[Array, "K T"]
    names: Sequence[str] = ("",)
    """Names of the rows of values."""
    signed: bool = False
    high: float | None = None
    """Upper end of the scale; None: the largest value."""


@dataclass(frozen=True, kw_only=True)
class Chips(Panel):
    """A text split in several ways, one line each; parts of the same group have the same colour."""

    kind = "chips"
    lines: Sequence[Sequence[str]]
    names: Sequence[str]
    """Label of each line."""
    groups: Sequence[Sequence[int]]
    marked: Sequence[Sequence[int]] = ()
    """Indices of new parts in each line."""


@dataclass(frozen=True, kw_only=True)
class Guesses(Panel):
    """The most probable next tokens after every layer at each token, most probable first.

    With `at`, they are the most probable tokens at the position itself.
    """

    kind = "guesses"
    tokens: Sequence[str]
    layers: Sequence[str]
    guesses: Sequence[Sequence[Sequence[str]]]
    """L×T×k tokens."""
    probabilities: Float[Array, "L T k"]
    answers: Sequence[str] | None = None
    """Actual next token of each token, "" if unknown; None if all are unknown."""
    at: bool = False
    """Whether the tokens themselves are predicted, as by a bidirectional model."""


@dataclass(frozen=True, kw_only=True)
class Points(Panel):
    """Named points in two dimensions; points of the same group have the same colour."""

    kind = "points"
    points: Float[Array, "N 2"]
    labels: Sequence[str]
    groups: Sequence[str] = ()
    x_name: str = ""
    y_name: str = ""
    log_x: bool = False
    low: Sequence[float] = ()
    """Lower ends of error bars; `high` has the upper ends."""
    high: Sequence[float] = ()
    levels: Sequence[tuple[str, float]] = ()
    """Names and heights of horizontal lines."""
    colours: Sequence[int] = ()
    """Colour of each point (`model_colours`); empty: the colour of its group."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A series of `Lines`, with a band if `low` and `high` are set."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dots: bool = False
    """Whether its points are marked."""
    faint: bool = False
    """Whether it is thin and pale: the noise behind another line."""
    colour: int | None = None
    """Number of its colour (`model_colours`); None: by its position."""


@dataclass(frozen=True, kw_only=True)
class Lines(Panel):
    """Series over one axis."""

    kind = "lines"
    series: Sequence[Line]
    x_name: str = ""
    x_ticks: Sequence[str] = ()
    """Names of x = 0, 1, 2 …, such as layers; empty: numbers."""
    y_name: str = ""
    log_x: bool = False
    log_y: bool = False
    levels: Sequence[tuple[str, float]] = ()
    """Names and heights of horizontal lines."""

    @classmethod
    def by_layer(cls, layers: Sequence[str], series: Iterable[tuple[str, Sequence[float]]], **facts: Any) -> "Lines":
        """Return named series with a value after each layer; `facts` are the other fields."""
        dotted = [Line(name=name, x=list(range(len(y))), y=y, dots=True) for name, y in series]
        return cls(series=dotted, x_name="after", x_ticks=layers, **facts)


@dataclass(frozen=True, kw_only=True)
class Choices(Panel):
    """Rows of numbers over several steps: a column per step, with bars on one scale.

    Values that a step removed are grey, with the reason.
    """

    kind = "choices"
    name: str
    """Name of the rows."""
    rows: Sequence[str]
    columns: Sequence[str]
    values: Float[Array, "R C"]
    """−∞ for a removed value."""
    scales: Sequence[tuple[float, float]]
    """Ends of each column's scale."""
    why: Sequence[str] = ()
    """Reason why a row was removed; "" if it was not."""

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
    """Index of an earlier branch; None: the root."""
    probability: float
    fate: str
    """"chosen" (blue), "kept" (pale) or "pruned" (grey)."""
    why: str = ""
    """Outcome, in a few words below the token."""
    told: str = ""
    """Tooltip."""
    id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Tree(Panel):
    """Tokens that follow each other, from left to right; thicker lines are more probable."""

    kind = "tree"
    root: str
    branches: Sequence[Branch]


@dataclass(frozen=True, kw_only=True)
class Gallery(Panel):
    """Small images with captions."""

    kind = "gallery"
    images: Sequence[UInt8[Array, "H W C"]]
    captions: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Brick:
    """A box of a `Diagram`, with details that a click shows."""

    name: str
    title: str
    kind: str
    """Colour of the box.

    It is one of embedding, positions, attention, feed-forward, norm, recurrent, convolution, pool, head and other; add
    for a sum; data for inputs and outputs.
    """
    width: int
    """Width of its output vectors; the box is proportionally wide."""
    hidden: int = 0
    """Width of its widest inner vectors, if they are wider."""
    parameters: int = 0
    detail: str = ""
    lane: int = 0
    """Lane of the diagram; lanes are side by side, with their bricks from top to bottom."""
    group: str = ""
    numbers: Sequence[tuple[str, str]] = ()
    heat: UInt8[Array, "T d"] | None = None
    """A thumbnail of its output: 128 is 0 and 255 the largest value."""
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """An arrow between two bricks."""

    start: str
    end: str
    shape: str = ""
    role: str = "flow"
    """Kind of connection.

    flow: to the next brick; residual, skip: around bricks; memory, state: to another lane; feedback: to a brick above;
    tied: no arrow but shared weights.
    """


@dataclass(frozen=True, kw_only=True)
class Group:
    """A frame around consecutive bricks of a lane."""

    name: str
    title: str
    like: str = ""
    """First group with the same structure. Such groups are drawn once, with their number, until opened."""


@dataclass(frozen=True, kw_only=True)
class Diagram(Panel):
    """The architecture of a model: bricks from top to bottom, and arrows with the shapes of tensors."""

    kind = "diagram"
    bricks: Sequence[Brick]
    arrows: Sequence[Arrow]
    groups: Sequence[Group] = ()
    lanes: Sequence[str] = ("",)
    """Names of the lanes."""


@dataclass(frozen=True, kw_only=True)
class Frames(Panel):
    """A slider over copies of the panels, one per moment or layer."""

    kind = "frames"
    name: str
    """What the slider selects: updates, layer."""
    labels: Sequence[str]
    frames: Sequence[Sequence[Panel]]

    def packed(self, most: int = MAX_WEIGHTS) -> JsonObject:
        """Return all fields for the page; panels with attention share the maximum number of weights equally."""
        attention_panels = sum(isinstance(panel, Attention) for frame in self.frames for panel in frame)
        return super().packed(most // max(attention_panels, 1))


def pack_weights(weights: Array, most: int = MAX_WEIGHTS) -> JsonObject:
    """Return weights in [0, 1] as bytes: all of them, or the largest of each row with their indices."""
    shape = list(weights.shape)
    rounded = np.rint(np.clip(weights, 0, 1) * 255).astype(np.uint8)
    if weights.size <= most or shape[-1] <= KEPT_PER_ROW:
        return {"shape": shape, "u8": _base64(rounded)}
    indices = np.argpartition(weights, -KEPT_PER_ROW, -1)[..., -KEPT_PER_ROW:]
    order = np.argsort(-np.take_along_axis(weights, indices, -1), -1, kind="stable")
    indices = np.take_along_axis(indices, order, -1)
    largest = np.take_along_axis(rounded, indices, -1)
    return {"shape": shape, "places": _base64(indices.astype("<u2")), "u8": _base64(largest), "kept": KEPT_PER_ROW}


def _fields(value: Any, most: int | None) -> JsonObject:
    return {field.name: _json(getattr(value, field.name), most) for field in fields(value)}


def _json(value: object, most: int | None) -> object:
    """Return a value as JSON; with `most`, arrays are packed and attention is limited to `most` weights."""
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


def _base64(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


# --- colours of models, the same on every page and picture ---

COLOURED_MODELS = ("transformer", "lstm", "cnn", "rnn", "gru", "average", "bag", "window", "mlp", "linear")
"""Models with a colour of their own: the colour with their index."""
SPARE = (10, 11, *range(10))
"""Colours of other models, in this order. Page and pictures have twelve (`--c0` to `--c11`)."""


def model_colours(models: Sequence[str]) -> list[int]:
    """Return the colour of each model; unknown or repeated models get a free one."""
    colours: list[int] = []
    for model in models:
        wanted = [COLOURED_MODELS.index(model)] if model in COLOURED_MODELS else []
        colours.append(next((colour for colour in (*wanted, *SPARE) if colour not in colours), len(colours)))
    return colours
