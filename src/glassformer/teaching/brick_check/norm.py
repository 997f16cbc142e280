"""Contracts of layer norm and RMS norm, as classes and as functions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glassformer.teaching.brick_check.contract import Contract, Facts, contract, tokens
from glassformer.teaching.brick_check.names import SIZE_NAMES, Offer, Weight, sizes
from glassformer.teaching.brick_check.steps import Case, Mistakes, Scope, Steps

WIDTH, EPS = 11, 1e-5
SIZES = {
    "width": Offer(WIDTH, f"normalized_shape|num_features|size|n|shape|ndim|{SIZE_NAMES['width']}"),
    "eps": Offer(EPS, "e|epsilon|variance_epsilon|(layer|rms)_norm_eps"),
    **sizes(bias=True),
}


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    """Return a plain case and a case of numbers so small that ε matters; neither is centred."""
    x = tokens(WIDTH, drawn) + 0.5
    inputs: dict[str, Any] = {"eps": facts.options["eps"]}
    if facts.module is None:
        inputs["gain"], shift = torch.randn(2, WIDTH, generator=drawn)
        inputs["shift"] = shift if "shift" in facts.takes else None
    scales = {"plain": 1.0, "small numbers": 2e-3}
    return [Case(what, facts.options, {"x": x * scale, **inputs}) for what, scale in scales.items()]


Axes = int | tuple[int, ...]


def mean(x: Tensor, axis: Axes = -1) -> Tensor:
    return x.mean(axis, keepdim=True)


def variance(x: Tensor, axis: Axes = -1) -> Tensor:
    return x.var(axis, correction=0, keepdim=True)


def normalised(deviation: Callable[[Scope], Tensor]) -> Steps:
    """Return the step that divides centred numbers by a deviation."""
    return {"normalised": lambda s: (s.x - s.mean) / deviation(s)}


def scaled(s: Scope, gain: bool = True, shift: bool = True) -> Tensor:
    out = s.normalised * s.gain if gain and s.gain is not None else s.normalised
    return out + s.shift if shift and s.shift is not None else out


def over(axis: Axes) -> Steps:
    """Return the steps that compute mean and variance over some axes."""
    return {"mean": lambda s: mean(s.x, axis), "variance": lambda s: variance(s.x, axis)}


LAYER: Steps = {**over(-1), **normalised(lambda s: torch.sqrt(s.variance + s.eps)), "output": scaled}
LAYER_MISTAKES: Mistakes = {
    "norm: over the tokens": over(1),
    "norm: over the batch": over(0),
    "norm: batch norm": over((0, 1)),
    "norm: n − 1": {"variance": lambda s: s.x.var(-1, keepdim=True)},
    "norm: ε outside": normalised(lambda s: torch.sqrt(s.variance) + s.eps),
    "norm: no ε": normalised(lambda s: torch.sqrt(s.variance)),
    "norm: mean not subtracted": {"normalised": lambda s: s.x / torch.sqrt(s.variance + s.eps)},
    "norm: no gain": {"output": lambda s: scaled(s, gain=False)},
    "norm: no shift": {"output": lambda s: scaled(s, shift=False)},
    "residual inside": {"output": lambda s: scaled(s) + s.x},
}

RMS: Steps = {
    "mean_square": lambda s: mean(s.x.square()),
    "normalised": lambda s: s.x / torch.sqrt(s.mean_square + s.eps),
    "output": lambda s: s.normalised * s.gain,
}
RMS_MISTAKES: Mistakes = {
    "rms: centred": {"normalised": lambda s: (s.x - mean(s.x)) / torch.sqrt(variance(s.x) + s.eps)},
    "rms: over the tokens": {"mean_square": lambda s: mean(s.x.square(), 1)},
    "rms: summed": {"mean_square": lambda s: s.x.square().sum(-1, keepdim=True)},
    "norm: no ε": {"normalised": lambda s: s.x / torch.sqrt(s.mean_square)},
    "norm: no gain": {"output": lambda s: s.normalised},
    "residual inside": {"output": lambda s: s.normalised * s.gain + s.x},
}


def class_and_function(kind: str, steps: Steps, mistakes: Mistakes, weights: Sequence[Weight]) -> list[Contract]:
    offered: dict[str, Any] = {"sizes": SIZES, "unnamed": {"eps": None}, "weights": weights}
    as_class = contract(kind, steps=steps, mistakes=mistakes, inputs=cases, **offered)
    vectors = {weight.name: weight.names for weight in weights}
    arguments = {**as_class.arguments, **vectors, "eps": SIZES["eps"].names}
    return [as_class, replace(as_class, is_function=True, arguments=arguments, weights=(), learns=0)]


GAIN = Weight("gain", "gain", "gain|weight|gamma_?|scale|g|w|a|a_2|alpha", shape=(WIDTH,))
SHIFT = Weight("shift", "shift", "shift|offset|bias|b|b_2|beta_?", shape=(WIDTH,), needed=lambda options: False)
CONTRACTS = [
    *class_and_function("layer-norm", LAYER, LAYER_MISTAKES, [GAIN, SHIFT]),
    *class_and_function("rms-norm", RMS, RMS_MISTAKES, [GAIN]),
]
