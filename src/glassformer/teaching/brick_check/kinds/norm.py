"""Layer norm and RMS norm, as classes and as functions."""

from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Offer, Scope, Steps, numbers
from glassformer.teaching.brick_check.kinds.names import WIDTHS
from glassformer.teaching.brick_check.weights import Weight

BATCH, TOKENS, WIDTH, EPS = 2, 5, 11, 1e-5
SIZES = {
    "width": Offer(WIDTH, (*WIDTHS, "normalized_shape", "num_features", "size", "n", "shape", "ndim")),
    "eps": Offer(EPS, ("epsilon", "e", "variance_epsilon", "layer_norm_eps", "rms_norm_eps")),
    "bias": Offer(True, ("use_bias",)),
}
GAIN = ("gain", "weight", "gamma", "scale", "g", "a", "alpha", "a_2", "w", "gamma_")
SHIFT = ("shift", "bias", "beta", "b", "b_2", "beta_", "offset")


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    """Numbers as they are, and so small ones that ε shows; neither is centred."""
    plain = numbers(BATCH, TOKENS, WIDTH, drawn=drawn) + 0.5
    inputs: dict[str, Any] = {"x": plain, "eps": facts.options["eps"]}
    if facts.module is None:
        gain, shift = numbers(WIDTH, drawn=drawn), numbers(WIDTH, drawn=drawn)
        inputs |= {"gain": gain, **({"shift": shift} if "shift" in facts.takes else {"shift": None})}
    return [Case("plain", facts.options, inputs), Case("small numbers", facts.options, {**inputs, "x": plain * 2e-3})]


def scaled(s: Scope, gain: bool = True, shift: bool = True) -> Tensor:
    out = s.normalised * s.gain if gain and s.gain is not None else s.normalised
    return out + s.shift if shift and s.shift is not None else out


def mean(x: Tensor, axis: Any = -1) -> Tensor:
    return x.mean(axis, keepdim=True)


def variance(x: Tensor, axis: Any = -1) -> Tensor:
    return x.var(axis, correction=0, keepdim=True)


LAYER: Steps = {
    "mean": lambda s: mean(s.x),
    "variance": lambda s: variance(s.x),
    "normalised": lambda s: (s.x - s.mean) / torch.sqrt(s.variance + s.eps),
    "output": scaled,
}


def _over(axis: Any) -> dict[str, Any]:
    return {"mean": lambda s: mean(s.x, axis), "variance": lambda s: variance(s.x, axis)}


ENDS: list[tuple[str, dict[str, Any]]] = [
    ("the gain is forgotten", {"output": lambda s: scaled(s, gain=False)}),
    ("the shift is forgotten", {"output": lambda s: scaled(s, shift=False)}),
    ("gain and shift are forgotten", {"output": lambda s: s.normalised}),
    (
        "the gain is added and the shift multiplied: it is the other way round",
        {"output": lambda s: s.normalised * s.shift + s.gain},
    ),
    ("the shift is added before the gain multiplies", {"output": lambda s: (s.normalised + s.shift) * s.gain}),
    (
        "the input is added inside (a residual connection): that is the block's work",
        {"output": lambda s: scaled(s) + s.x},
    ),
]
LAYER_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("it is normalised over the tokens: mean and variance go over the numbers of one vector, the last axis", _over(1)),
    ("it is normalised over the batch: mean and variance go over the numbers of one vector, the last axis", _over(0)),
    ("it is normalised over tokens and numbers together: each vector has its own mean and variance", _over((1, 2))),
    ("it is normalised over everything: each vector has its own mean and variance", _over((0, 1, 2))),
    ("it is normalised over batch and tokens, as batch norm does", _over((0, 1))),
    (
        "the variance is divided by n − 1 (unbiased): layer norm divides by n",
        {"variance": lambda s: s.x.var(-1, keepdim=True)},
    ),
    (
        "ε stands outside the root: √(variance + ε)",
        {"normalised": lambda s: (s.x - s.mean) / (torch.sqrt(s.variance) + s.eps)},
    ),
    (
        "the unbiased deviation (n − 1) is taken, and ε stands outside the root: √(variance + ε), divided by n",
        {"normalised": lambda s: (s.x - s.mean) / (s.x.std(-1, keepdim=True) + s.eps)},
    ),
    ("ε is forgotten: √(variance + ε)", {"normalised": lambda s: (s.x - s.mean) / torch.sqrt(s.variance)}),
    (
        "ε is forgotten and the variance is divided by n − 1",
        {"normalised": lambda s: (s.x - s.mean) / s.x.std(-1, keepdim=True)},
    ),
    (
        "it divides by the variance: it must be its root",
        {"normalised": lambda s: (s.x - s.mean) / (s.variance + s.eps)},
    ),
    ("the mean is not subtracted", {"normalised": lambda s: s.x / torch.sqrt(s.variance + s.eps)}),
    (
        "it divides by the root of the mean square, as RMS norm does",
        {"normalised": lambda s: s.x / torch.sqrt(mean(s.x.square()) + s.eps)},
    ),
    ("it is not divided by the deviation", {"normalised": lambda s: s.x - s.mean}),
    *ENDS,
]

RMS: Steps = {
    "mean square": lambda s: mean(s.x.square()),
    "normalised": lambda s: s.x / torch.sqrt(getattr(s, "mean square") + s.eps),
    "output": lambda s: s.normalised * s.gain,
}


def _square(axis: Any) -> dict[str, Any]:
    return {"mean square": lambda s: mean(s.x.square(), axis)}


def _centred(s: Scope) -> Tensor:
    return s.x - mean(s.x)


RMS_MISTAKES: list[tuple[str, dict[str, Any]]] = [
    (
        "it is centred: RMS norm subtracts no mean",
        {"normalised": lambda s: _centred(s) / torch.sqrt(variance(s.x) + s.eps)},
    ),
    (
        "it is centred before it is divided: RMS norm subtracts no mean",
        {"normalised": lambda s: _centred(s) / torch.sqrt(mean(s.x.square()) + s.eps)},
    ),
    (
        "it divides by the standard deviation: it must be the root of the mean square",
        {"normalised": lambda s: s.x / torch.sqrt(variance(s.x) + s.eps)},
    ),
    ("the mean square is taken over the tokens: it goes over the numbers of one vector, the last axis", _square(1)),
    ("the mean square is taken over the batch: it goes over the numbers of one vector, the last axis", _square(0)),
    ("the mean square is taken over everything: each vector has its own", _square((0, 1, 2))),
    ("the squares are summed, not averaged", {"mean square": lambda s: s.x.square().sum(-1, keepdim=True)}),
    (
        "ε stands outside the root: √(mean square + ε)",
        {"normalised": lambda s: s.x / (torch.sqrt(mean(s.x.square())) + s.eps)},
    ),
    ("ε is forgotten: √(mean square + ε)", {"normalised": lambda s: s.x / torch.sqrt(mean(s.x.square()))}),
    (
        "it divides by the mean square: it must be its root",
        {"normalised": lambda s: s.x / (mean(s.x.square()) + s.eps)},
    ),
    ("the mean is squared: it is the mean of the squares", {"mean square": lambda s: mean(s.x).square()}),
    ("the gain is forgotten", {"output": lambda s: s.normalised}),
    (
        "the input is added inside (a residual connection): that is the block's work",
        {"output": lambda s: s.normalised * s.gain + s.x},
    ),
]


SOURCES = {
    "mean": "first mean",
    "variance": "variance",
    "mean square": "last mean",
    "normalised": "into gain",
}


def _contract(name: str, pattern: str, steps: Any, mistakes: Any, epsilons: list[float], **more: Any) -> Contract:
    return Contract(
        name=name,
        group="norm",
        signature="x B×T×d → B×T×d",
        pattern=pattern,
        steps=steps,
        mistakes=mistakes,
        inputs=cases,
        sizes=SIZES,
        unnamed={"eps": None},
        variants=[{"eps": eps} for eps in epsilons],
        says={"eps": "its ε is {:g}"},
        causal="always",
        permutes="with",
        sources=SOURCES,
        **more,
    )


def _both(name: str, pattern: str, steps: Any, mistakes: Any, epsilons: list[float], shift: bool) -> list[Contract]:
    width: dict[str, Any] = {"shape": lambda options: (WIDTH,)}
    weights = [Weight("gain", "gain", GAIN, **width)]
    if shift:
        weights.append(Weight("shift", "shift", SHIFT, needed=lambda options: False, **width))
    arguments = {
        "x": ("a", "input", "h"),
        "gain": GAIN,
        **({"shift": SHIFT} if shift else {}),
        "eps": SIZES["eps"].names,
    }
    return [
        _contract(
            name, pattern, steps, mistakes, epsilons, weights=weights, arguments={"x": ("input", "a", "h")}, learns=2
        ),
        _contract(name, pattern, steps, mistakes, epsilons, is_function=True, arguments=arguments),
    ]


CONTRACTS = [
    *_both("layer-norm", r".*layernorm.*|.*ln", LAYER, LAYER_MISTAKES, [1e-5, 1e-6, 1e-8, 1e-12, 1e-3], True),
    *_both("rms-norm", r".*rmsnorm.*|.*rms", RMS, RMS_MISTAKES, [1e-6, 1e-5, 1e-8, 1e-12, 1e-3], False),
]
