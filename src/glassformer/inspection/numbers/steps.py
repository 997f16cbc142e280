"""Formulas and steps of a computation, and the panels that show them.

A formula is written twice, in letters and in numbers. The numbers are those of one example cell, usually the first
number of the chosen token's vector. Both are built together, so that they stay consistent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.bricks.norm import BatchNorm, LayerNorm, RMSNorm
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.capture import Seen
from glassformer.inspection.views.registry import leader
from glassformer.rendering.panels import Grid, Panel
from glassformer.text.display import bare, quoted

SHOWN_NUMBERS = 8
"""Maximum number of values that a grid shows of a vector."""
MAX_TOKENS = 16
"""Maximum number of tokens of a text, and of rows of a grid."""
MAX_TERMS = 6
"""Maximum number of terms of a sum; a longer sum shows the first three and the last."""
DIGITS = 4
"""Significant digits of a number in a formula."""
ROUNDING_ERROR = 1e-9
"""Smaller absolute values are written as 0."""

Vector = Float[Array, "d"]
Vectors = Float[Array, "T d"]


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().cpu().numpy()


def number(value: float) -> str:
    """Return a number with a few significant digits and without an exponent."""
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < ROUNDING_ERROR:
        return "0"
    return format(Decimal(f"{value:.{DIGITS}g}"), "f").replace("-", "−")


def added(terms: Sequence[str]) -> str:
    """Return a sum such as `a + b − c`; a long sum is shortened to its first three terms and its last."""
    return joined(terms if len(terms) <= MAX_TERMS else [*terms[:3], "…", terms[-1]])


def joined(terms: Sequence[str]) -> str:
    """Return a sum with all its terms."""
    return " + ".join(terms).replace("+ −", "− ")


def products(a: Vector, b: Vector) -> str:
    """Return the dot product of two vectors, written out as `a₀·b₀ + a₁·b₁ + …`."""
    return added([f"{number(x)}·{number(y)}" for x, y in zip(a.tolist(), b.tolist(), strict=True)])


def worked(name: str, how: str, result: float) -> str:
    """Return the line `name = how = result`."""
    return f"{name} = {how} = {number(result)}"


def softmax_worked(name: str, scores: Vector, at: int, result: float) -> str:
    """Return a softmax written out as `e^s / Σ e^s`; scores of −∞ are left out of the sum."""
    total = added([f"e^{number(score)}" for score in scores.tolist() if score > -np.inf] or ["0"])
    return worked(name, f"e^{number(float(scores[at]))} / ({total})", result)


@dataclass(frozen=True)
class Term:
    """A formula or a part of one, in letters and in numbers."""

    letters: str
    numbers: str
    """The formula with the numbers of the example cell; empty if it is not worked out."""

    def where(self, words: str) -> "Term":
        """Return the same term with a remark after the letters."""
        return replace(self, letters=f"{self.letters}, {words}")


def term(letters: str, value: float) -> Term:
    return Term(letters, number(value))


def combine(template: str, **terms: Term) -> Term:
    """Return the terms in a template such as `{f} ⊙ {c} + {b}`; between numbers, ⊙ is written as ·."""
    letters = template.format_map({name: part.letters for name, part in terms.items()})
    numbers = template.format_map({name: part.numbers for name, part in terms.items()})
    numbers = numbers.replace(" ⊙ (", " · (").replace(" ⊙ ", "·")
    return Term(letters.replace("+ −", "− "), numbers.replace("+ −", "− "))


def affine(letters: str, weight: Vector, x: Vector, bias: float | None, bias_letter: str = "b") -> Term:
    """Return the term for one row of `W x + b`; `letters` is the written form of `W x`."""
    product = Term(letters, products(weight, x))
    return product if bias is None else combine("{product} + {b}", product=product, b=term(bias_letter, bias))


def linear(letters: str, layer: nn.Linear, x: Vector, *, row: int = 0, bias_letter: str = "b") -> Term:
    """Return the term for one output of a linear layer."""
    bias = None if layer.bias is None else float(layer.bias[row])
    return affine(letters, array(layer.weight[row]), x, bias, bias_letter)


def activation_name(function: object) -> str:
    return next(name for name, known in ACTIVATIONS.items() if known is function)


def activate(name: str, inside: Term) -> Term:
    """Return the term for an activation function of another term."""
    written = {"relu2": "relu({x})²", "swiglu": "silu({x})", "sigmoid": "σ({x})"}.get(name, f"{name}({{x}})")
    return combine(written, x=inside)


def norm_term(norm: nn.Module, x: Vector, letter: str = "x") -> Term:
    """Return the term for the first number of a vector after a norm."""
    if isinstance(norm, RMSNorm):
        return combine(
            "{x} / √({mean} + {eps}) · {gain}",
            x=term(letter, x[0]),
            mean=term(f"mean {letter}²", np.square(x).mean()),
            eps=term("ε", norm.eps or 0.0),
            gain=term("γ", float(norm.weight[0])),
        )
    assert isinstance(norm, LayerNorm | BatchNorm)
    inner: Any = norm
    mean, variance = x.mean(), x.var()
    if isinstance(norm, BatchNorm):
        inner = norm.norm
        mean, variance = (float(average[0]) for average in (inner.running_mean, inner.running_var))
    out = combine(
        "({x} + {mean}) / √({variance} + {eps}) · {gain}",
        x=term(letter, x[0]),
        mean=term("−μ", -mean),
        variance=term("σ²", variance),
        eps=term("ε", inner.eps),
        gain=term("γ", float(inner.weight[0])),
    )
    if inner.bias is not None:
        out = combine("{out} + {shift}", out=out, shift=term("β", float(inner.bias[0])))
    return out.where("μ and σ² of each number: averages of training") if isinstance(norm, BatchNorm) else out


# --- steps ---


@dataclass(frozen=True)
class Step:
    """One step of a computation: its values and their formula."""

    title: str
    values: Vectors | Mapping[str, Vector]
    """A vector per token; or vectors by name, with the result last."""
    symbol: str
    """Symbol of the values; without a term, the whole formula."""
    term: Term | None = None
    """Formula of the values; if it has no numbers, no cell is worked out."""
    note: str = ""


class Source(NamedTuple):
    """The source text that a decoder attends to."""

    memory: Memory
    tokens: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Tensors captured of one example below a path, and the choice of token, layer and head to show."""

    seen: Seen
    path: str
    tokens: Sequence[str]
    """Names of the rows; empty if the vectors belong to no token."""
    at: int
    """Index of the token whose numbers the formulas show."""
    shown: int = SHOWN_NUMBERS
    """Maximum number of values shown of a vector."""
    title: str = ""
    """Prefix of the titles of panels."""
    layer: int = 0
    head: int = 0
    source: Source | None = None
    """Source text of a decoder; None for other models."""

    def tensor(self, name: str) -> Tensor:
        return self.seen[f"{self.path}.{name}"]

    def __getitem__(self, name: str) -> Array:
        return array(self.tensor(name)[0])

    def under(self, name: str, title: str = "") -> "Activations":
        return replace(self, path=f"{self.path}.{name}", title=title)

    def beside(self, tokens: Sequence[str], at: int = 0) -> "Activations":
        """Return the same activations for other tokens; empty if the vectors belong to no token."""
        return replace(self, tokens=tokens, at=at)

    @property
    def token(self) -> str:
        return bare(self.tokens[self.at])

    def cell(self, symbol: str) -> str:
        """Return the name of the example cell: the first number of the chosen token's vector."""
        return f"{symbol}({self.token})₀" if self.tokens else f"{symbol}₀"

    def first(self, letters: str, values: Vectors) -> Term:
        return term(letters, values[self.at, 0])

    def panels(self, *steps: Step) -> list[Panel]:
        return [self.panel(step) for step in steps]

    def panel(self, step: Step) -> Grid:
        """Return a step as a grid with its formula and, if the term has numbers, the example cell."""
        rows, at, values, formula, sentence = self.tokens, self.at, step.values, step.symbol, ""
        if isinstance(values, Mapping):
            rows, at, values = list(values), -1, np.stack(list(values.values()))
        if step.term is not None:
            formula = f"{step.symbol} = {step.term.letters}"
            name = self.cell(step.symbol.partition("_")[0])  # The name of the cell has an index of its own.
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
    shown: int = SHOWN_NUMBERS,
    columns: Sequence[str] = (),
) -> Grid:
    """Return a grid with one vector per row.

    Long vectors are cut to the first `shown` numbers, and many rows to the first `MAX_TOKENS`.
    """
    high, wide = values.shape
    numbers_cut = f"The first {shown} of {wide} numbers of each vector." if wide > shown else ""
    vectors_cut = f"The first {MAX_TOKENS} of {high} vectors." if high > MAX_TOKENS else ""
    return Grid(
        title=title,
        values=values[:MAX_TOKENS, :shown],
        rows=list(rows)[:MAX_TOKENS],
        columns=list(columns or map(str, range(wide)))[:shown],
        column_name="" if columns else "number",
        signed=True,
        numbers=True,
        formula=formula,
        note=lines(numbers_cut, vectors_cut, note, worked),
    )


def score_panels(
    looking: Activations, looked_at: Activations, scores: Float[Array, "T S"], weights: Float[Array, "T S"], score: Term
) -> list[Panel]:
    """Return grids of the attention scores and weights of each pair of tokens, with one pair worked out.

    Hidden scores are −∞ and do not affect the colour scale. `score` is the formula of a score.
    """
    pair = f"({looking.token} → {looked_at.token})"
    at, best = looking.at, looked_at.at
    hidden = np.isneginf(scores)
    largest = float(np.abs(scores[~hidden]).max(initial=0.0))
    of_scores = Grid(
        title=f"{looking.title}: scores",
        values=scores,
        rows=list(looking.tokens),
        columns=list(looked_at.tokens),
        causal=bool(hidden.any() and (hidden == np.triu(np.ones_like(hidden), 1)).all()),
        row_name="looks",
        column_name="looked at",
        signed=True,
        low=-largest,
        high=largest,
        numbers=True,
        formula=f"score = {score.letters}",
        note=worked(f"score{pair}", score.numbers, float(scores[at, best])),
    )
    of_weights = replace(
        of_scores,
        title=f"{looking.title}: weights",
        takeaway=leader("looks most", list(map(quoted, looked_at.tokens)), weights[at], who=quoted(looking.token)),
        values=weights,
        signed=False,
        low=0.0,
        high=1.0,
        formula="α = e^score / Σ e^score, over the row",
        note=softmax_worked(f"α{pair}", scores[at], best, float(weights[at, best])),
    )
    return [of_scores, of_weights]


def lines(*parts: str) -> str:
    """Join the parts that are not empty, one per line."""
    return "\n".join(part for part in parts if part)


def answer_name(names: Sequence[str], at: int, count: int) -> str:
    """Return the name of one of `count` outputs, or its index if the names are unknown."""
    if count == 1 and len(names) == 2:  # A single score is the logit of the second class.
        return names[1]
    return names[at] if len(names) == count else str(at)


def check_length(*texts: Sequence[str]) -> None:
    for tokens in texts:
        if len(tokens) > MAX_TOKENS:
            raise Misuse(
                f"number by number shows at most {MAX_TOKENS} tokens, patches or columns, and there are {len(tokens)}"
            )


def check_index(name: str, number: int, count: int) -> int:
    """Return the number of a layer, head or token; raise `Misuse` unless it is from 0 to `count` − 1."""
    if not 0 <= number < count:
        raise Misuse(f"--{name} {number} is not there: this has {count}, counted from 0 to {count - 1}")
    return number
