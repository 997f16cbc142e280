"""Formulas and steps: what a brick does is a table of steps, and this makes panels of the table.

A formula is written twice, in letters and in the numbers of the cell that is worked out, so that the two cannot part.
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
"""Numbers of a vector in a grid."""
MAX_TOKENS = 16
MAX_TERMS = 6
"""Terms of a sum in a sentence; of a longer one, three and the last."""
DIGITS = 4
"""Digits of a number in a sentence."""
ROUNDING_ERROR = 1e-9
"""What is smaller is written as 0."""

Vector = Float[Array, "d"]
Vectors = Float[Array, "T d"]


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().cpu().numpy()


def number(value: float) -> str:
    """A few digits, never with an exponent."""
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < ROUNDING_ERROR:
        return "0"
    return format(Decimal(f"{value:.{DIGITS}g}"), "f").replace("-", "−")


def added(terms: Sequence[str]) -> str:
    """a + b − c; of many terms the first three and the last."""
    return joined(terms if len(terms) <= MAX_TERMS else [*terms[:3], "…", terms[-1]])


def joined(terms: Sequence[str]) -> str:
    """All terms of a sum."""
    return " + ".join(terms).replace("+ −", "− ")


def products(a: Vector, b: Vector) -> str:
    """a₀·b₀ + a₁·b₁ + …"""
    return added([f"{number(x)}·{number(y)}" for x, y in zip(a.tolist(), b.tolist(), strict=True)])


def worked(name: str, how: str, result: float) -> str:
    return f"{name} = {how} = {number(result)}"


def softmax_worked(name: str, scores: Vector, at: int, result: float) -> str:
    """e^s / Σ e^s, over what is not hidden."""
    total = added([f"e^{number(score)}" for score in scores.tolist() if score > -np.inf] or ["0"])
    return worked(name, f"e^{number(float(scores[at]))} / ({total})", result)


@dataclass(frozen=True)
class Term:
    """A formula, or a part of one."""

    letters: str
    numbers: str
    """The same for the cell that is worked out."""

    def where(self, words: str) -> "Term":
        """A remark after the letters."""
        return replace(self, letters=f"{self.letters}, {words}")


def term(letters: str, value: float) -> Term:
    return Term(letters, number(value))


def combine(template: str, **terms: Term) -> Term:
    """Terms in a template such as `{f} ⊙ {c} + {b}`; between numbers, ⊙ is written as ·."""
    letters = template.format_map({name: part.letters for name, part in terms.items()})
    numbers = template.format_map({name: part.numbers for name, part in terms.items()})
    numbers = numbers.replace(" ⊙ (", " · (").replace(" ⊙ ", "·")
    return Term(letters.replace("+ −", "− "), numbers.replace("+ −", "− "))


def affine(letters: str, weight: Vector, x: Vector, bias: float | None, bias_letter: str = "b") -> Term:
    """One row of W x + b; `letters`: what W x is called."""
    product = Term(letters, products(weight, x))
    return product if bias is None else combine("{product} + {b}", product=product, b=term(bias_letter, bias))


def linear(letters: str, layer: nn.Linear, x: Vector, *, row: int = 0, bias_letter: str = "b") -> Term:
    bias = None if layer.bias is None else float(layer.bias[row])
    return affine(letters, array(layer.weight[row]), x, bias, bias_letter)


def activation_name(function: object) -> str:
    return next(name for name, known in ACTIVATIONS.items() if known is function)


def activate(name: str, inside: Term) -> Term:
    """A non-linearity as it is written."""
    written = {"relu2": "relu({x})²", "swiglu": "silu({x})", "sigmoid": "σ({x})"}.get(name, f"{name}({{x}})")
    return combine(written, x=inside)


def norm_term(norm: nn.Module, x: Vector, letter: str = "x") -> Term:
    """The first number of a vector, normed."""
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
    shown: int = SHOWN_NUMBERS
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
        """The same with a vector for each of these; none: what is worked out belongs to no token."""
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
    shown: int = SHOWN_NUMBERS,
    columns: Sequence[str] = (),
) -> Grid:
    """A vector a row; of long ones the first numbers, of many the first rows."""
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
    """Return the scores and weights of each pair of tokens, where one pair is worked out.

    Scores that are hidden, −∞, do not count for the scale.
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
    return "\n".join(part for part in parts if part)


def answer_name(names: Sequence[str], at: int, count: int) -> str:
    """What one of `count` scores is of; its number where nobody knows."""
    if count == 1 and len(names) == 2:  # one score says how much more likely the second is
        return names[1]
    return names[at] if len(names) == count else str(at)


def check_length(*texts: Sequence[str]) -> None:
    for tokens in texts:
        if len(tokens) > MAX_TOKENS:
            raise Misuse(
                f"number by number shows at most {MAX_TOKENS} tokens, patches or columns, and there are {len(tokens)}"
            )


def check_index(name: str, number: int, count: int) -> int:
    """A layer, head or token that is there."""
    if not 0 <= number < count:
        raise Misuse(f"--{name} {number} is not there: this has {count}, counted from 0 to {count - 1}")
    return number
