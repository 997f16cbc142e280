"""How numbers are written: as grids of vectors, and as a sentence that works one cell out."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.rendering.panels import Grid, Table
from glassformer.text.display import bare

SHOWN = 8
"""Numbers of a vector in a grid."""
MOST_TOKENS = 16
MOST_TERMS = 6
"""Of a sum in a sentence; of a longer one, three and the last."""
DIGITS = 4
"""Of a number in a sentence."""
NOTHING = 1e-9
"""What is smaller is written as 0."""

Vector = Float[Array, "d"]
Vectors = Float[Array, "T d"]


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().cpu().numpy()


def number(value: float) -> str:
    """A few digits, never with an exponent."""
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < NOTHING:
        return "0"
    text = format(Decimal(f"{value:.{DIGITS}g}"), "f")
    return text.replace("-", "−")


def added(terms: Sequence[str]) -> str:
    """a + b − c; of many terms the first three and the last."""
    shown = list(terms) if len(terms) <= MOST_TERMS else [*terms[:3], "…", terms[-1]]
    return shown[0] + "".join(f" − {term[1:]}" if term.startswith("−") else f" + {term}" for term in shown[1:])


def joined(*parts: str) -> str:
    """Sums one after the other, none of them shortened any more."""
    return parts[0] + "".join(f" − {part[1:]}" if part.startswith("−") else f" + {part}" for part in parts[1:])


def products(a: Vector, b: Vector) -> str:
    """a₀·b₀ + a₁·b₁ + …"""
    return added([f"{number(x)}·{number(y)}" for x, y in zip(a.tolist(), b.tolist(), strict=True)])


def linear(weight: Vector, x: Vector, bias: float | None = None) -> str:
    """One row of Wx + b."""
    return products(weight, x) if bias is None else joined(products(weight, x), number(bias))


def worked(name: str, how: str, result: float) -> str:
    return f"{name} = {how} = {number(result)}"


@dataclass(frozen=True)
class Sheet:
    """The tokens whose vectors stand in rows, and the one of them that is worked out."""

    rows: Sequence[str]
    at: int
    shown: int = SHOWN

    @property
    def token(self) -> str:
        return bare(self.rows[self.at])

    def cell(self, name: str) -> str:
        """The first number of the token's vector."""
        return f"{name}({self.token})₀"

    def vectors(self, title: str, values: Vectors, formula: str = "", worked: str = "", note: str = "") -> Grid:
        """A vector for each token."""
        return grid(title, values, self.rows, formula=formula, worked=worked, note=note, shown=self.shown)


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


def between(
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


def lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def answer_name(names: Sequence[str], at: int, count: int) -> str:
    """What one of `count` scores is of; its number where nobody knows."""
    if count == 1 and len(names) == 2:  # one score says how much more likely the second is
        return names[1]
    return names[at] if len(names) == count else str(at)


def likeliest(
    scores: Vector, probabilities: Vector, names: Sequence[str], *, title: str, note: str = "", shown: int = SHOWN
) -> Table:
    """Scores and probabilities, likeliest first."""
    order = np.argsort(-probabilities, kind="stable")[:shown]
    rows: list[list[Any]] = [
        [names[at] if names else int(at), float(scores[at]), float(probabilities[at])] for at in order
    ]
    more = f"The {shown} likeliest of {len(scores)}." if len(scores) > shown else ""
    columns = ["answer", "score", "probability"]
    return Table(title=title, columns=columns, rows=rows, bars=["probability"], note=lines(more, note))


def softmax_worked(name: str, scores: Vector, at: int, result: float) -> str:
    """e^s / Σ e^s, over what is not hidden."""
    total = added([f"e^{number(score)}" for score in scores.tolist() if score > -np.inf] or ["0"])
    return worked(name, f"e^{number(float(scores[at]))} / ({total})", result)


def check_length(*texts: Sequence[str]) -> None:
    for tokens in texts:
        if len(tokens) > MOST_TOKENS:
            raise Misuse(f"number by number is for short texts: at most {MOST_TOKENS} tokens, this has {len(tokens)}")


def chosen(name: str, number: int, count: int) -> int:
    """A layer, head or token that is there."""
    if not 0 <= number < count:
        raise Misuse(f"--{name} {number} is not there: this has {count}, counted from 0 to {count - 1}")
    return number
