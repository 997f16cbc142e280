"""Steps of a computation: what a brick does is a table of them, and this makes panels of the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from glassformer.bricks.attention import Memory
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.capture import Seen
from glassformer.inspection.numbers.terms import Term, Vector, Vectors, array, softmax_worked, term, worked
from glassformer.rendering.panels import Grid, Panel
from glassformer.text.display import bare

SHOWN = 8
"""Numbers of a vector in a grid."""
MOST_TOKENS = 16


@dataclass(frozen=True)
class Step:
    """A row of a brick's table."""

    title: str
    values: Vectors | Mapping[str, Vector]
    """A vector for each token; or vectors by name, the last of which is worked out."""
    symbol: str
    """What the values are called; without a term, the whole formula."""
    term: Term | None = None
    """How they come about; without numbers, nothing is worked out."""
    note: str = ""


class Source(NamedTuple):
    """The text that a decoder looks at."""

    memory: Memory
    tokens: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Activations:
    """What was captured of one example under a path; a vector for each of its tokens, one of which is worked out."""

    seen: Seen
    path: str
    tokens: Sequence[str]
    at: int
    shown: int = SHOWN
    title: str = ""
    """What the titles of panels begin with."""
    layer: int = 0
    head: int = 0
    source: Source | None = None
    """What a decoder looks at."""

    def tensor(self, name: str) -> Tensor:
        return self.seen[f"{self.path}.{name}"]

    def __getitem__(self, name: str) -> Array:
        return array(self.tensor(name)[0])

    def under(self, name: str, title: str = "") -> "Activations":
        return replace(self, path=f"{self.path}.{name}", title=title)

    def beside(self, tokens: Sequence[str], at: int = 0) -> "Activations":
        """With a vector for each of these; none: what is worked out belongs to no token."""
        return replace(self, tokens=tokens, at=at)

    @property
    def token(self) -> str:
        return bare(self.tokens[self.at])

    def cell(self, symbol: str) -> str:
        """The first number of the vector that is worked out."""
        return f"{symbol}({self.token})₀" if self.tokens else f"{symbol}₀"

    def first(self, letters: str, values: Vectors) -> Term:
        return term(letters, values[self.at, 0])

    def panels(self, *steps: Step) -> list[Panel]:
        return [self.panel(step) for step in steps]

    def panel(self, step: Step) -> Grid:
        rows, at, values, formula, sentence = self.tokens, self.at, step.values, step.symbol, ""
        if isinstance(values, Mapping):
            rows, at, values = list(values), -1, np.stack(list(values.values()))
        if step.term is not None:
            formula = f"{step.symbol} = {step.term.letters}"
            name = self.cell(step.symbol.partition("_")[0])  # without its index
            sentence = worked(name, step.term.numbers, float(values[at, 0])) if step.term.numbers else ""
        title = f"{self.title}: {step.title}" if self.title else step.title
        return grid(title, values, rows, formula=formula, worked=sentence, note=step.note, shown=self.shown)


def grid(
    title: str,
    values: Vectors,
    rows: Sequence[str],
    *,
    formula: str = "",
    worked: str = "",
    note: str = "",
    shown: int = SHOWN,
    columns: Sequence[str] = (),
) -> Grid:
    """A vector a row; of long ones the first numbers, of many the first rows."""
    high, wide = values.shape
    cut = []
    if wide > shown:
        cut.append(f"The first {shown} of {wide} numbers of each vector.")
    if high > MOST_TOKENS:
        cut.append(f"The first {MOST_TOKENS} of {high} vectors.")
    return Grid(
        title=title,
        values=values[:MOST_TOKENS, :shown],
        rows=list(rows)[:MOST_TOKENS],
        columns=list(columns or map(str, range(wide)))[:shown],
        column_name="" if columns else "number",
        signed=True,
        numbers=True,
        formula=formula,
        note=lines(*cut, note, worked),
    )


def pairs(
    title: str,
    values: Float[Array, "T S"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    formula: str,
    worked: str,
    signed: bool = False,
) -> Grid:
    """A number for each pair of tokens; what is hidden, −∞, has no part in the scale."""
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) if signed else 1.0
    return Grid(
        title=title,
        values=values,
        rows=list(rows),
        columns=list(columns),
        row_name="looks",
        column_name="looked at",
        signed=signed,
        low=-largest if signed else 0.0,
        high=largest,
        numbers=True,
        formula=formula,
        note=worked,
    )


def score_panels(
    looking: Activations,
    looked_at: Activations,
    scores: Float[Array, "T S"],
    weights: Float[Array, "T S"],
    score: Term,
) -> list[Panel]:
    """For each pair of tokens; one pair is worked out."""
    pair = f"({looking.token} → {looked_at.token})"
    at, best = looking.at, looked_at.at
    return [
        pairs(
            f"{looking.title}: scores",
            scores,
            looking.tokens,
            looked_at.tokens,
            formula=f"score = {score.letters}",
            worked=worked(f"score{pair}", score.numbers, float(scores[at, best])),
            signed=True,
        ),
        pairs(
            f"{looking.title}: weights",
            weights,
            looking.tokens,
            looked_at.tokens,
            formula="p = e^score / Σ e^score, over the row",
            worked=softmax_worked(f"p{pair}", scores[at], best, float(weights[at, best])),
        ),
    ]


def lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def answer_name(names: Sequence[str], at: int, count: int) -> str:
    """What one of `count` scores is of; its number where nobody knows."""
    if count == 1 and len(names) == 2:  # one score says how much more likely the second is
        return names[1]
    return names[at] if len(names) == count else str(at)


def check_length(*texts: Sequence[str]) -> None:
    for tokens in texts:
        if len(tokens) > MOST_TOKENS:
            raise Misuse(f"number by number is for short texts: at most {MOST_TOKENS} tokens, this has {len(tokens)}")


def check_index(name: str, number: int, count: int) -> int:
    """A layer, head or token that is there."""
    if not 0 <= number < count:
        raise Misuse(f"--{name} {number} is not there: this has {count}, counted from 0 to {count - 1}")
    return number
