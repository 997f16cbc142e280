"""Formulas, written twice: in letters, and in the numbers of the cell that is worked out. So the two cannot part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.bricks.norm import BatchNorm, LayerNorm, RMSNorm
from glassformer.config.arrays import Array

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
    return joined(terms if len(terms) <= MOST_TERMS else [*terms[:3], "…", terms[-1]])


def joined(terms: Sequence[str]) -> str:
    """All of them."""
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
    letters = template.format_map({name: one.letters for name, one in terms.items()})
    numbers = template.format_map({name: one.numbers for name, one in terms.items()})
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
    inner: Any = norm.norm if isinstance(norm, BatchNorm) else norm
    mean, variance = x.mean(), x.var()
    if isinstance(norm, BatchNorm):
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
