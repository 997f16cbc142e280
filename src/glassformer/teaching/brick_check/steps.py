"""A computation written out step by step, run on a case."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

Stages = dict[str, Tensor]
"""Tensors of a computation by name, in order; `output` comes last."""
Scope = Any
"""Namespace of a step: sizes, inputs, weights and the stages before it, as attributes."""
Steps = Mapping[str, Callable[[Scope], Any]]
"""Formulas of the stages. Stages whose name starts with _ are not shown."""
Mistakes = Mapping[str, Steps]
"""Steps that a mistake computes differently, by the name of its hint in `sentences.toml`."""
Run = Callable[[Steps, "Case"], Stages]


@dataclass(frozen=True)
class Case:
    """One call of a brick."""

    what: str
    """What is special in it: `causal`, `padded`."""
    options: Mapping[str, Any]
    """What the brick is built with, beside the sizes that never change, and other facts that the formulas need."""
    inputs: Mapping[str, Any]
    """By name; an input that depends on x is a function of it."""
    weights: Mapping[str, Tensor | None] = field(default_factory=dict)
    real: Tensor | None = None
    """B×T: where a token is; what stands elsewhere is nobody's business."""

    def scope(self) -> SimpleNamespace:
        return SimpleNamespace(**{"mask": None, **self.options, **self.inputs, **self.weights})


def run_once(steps: Steps, case: Case) -> Stages:
    """Every step once, in order."""
    scope, stages = case.scope(), dict[str, Tensor]()
    for name, step in steps.items():
        value = step(scope)
        setattr(scope, name, value)
        if not name.startswith("_"):
            stages[name] = value
    return stages


def run_along(steps: Steps, case: Case) -> Stages:
    """Every step once a token, of a recurrent layer: the next token finds `state` (and `cell`) as `h` (and `c`)."""
    scope = case.scope()
    made: dict[str, list[Tensor]] = {name: [] for name in steps if not name.startswith("_")}
    scope.h = scope.c = scope.x.new_zeros(len(scope.x), scope.width)
    x = scope.x
    for t in range(x.shape[1]):
        scope.x = x[:, t]
        for name, step in steps.items():
            value = step(scope)
            setattr(scope, name, value)
            if name in made:
                made[name].append(value)
        scope.h, scope.c = scope.state, getattr(scope, "cell", None)
    stages = {name: torch.stack(values, 1) for name, values in made.items()}
    return {**stages, "output": stages["state"]}


def mapped(x: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """W x + b; without W, x."""
    out = x if weight is None else x @ weight.T
    return out if bias is None else out + bias


def with_x(case: Case, x: Tensor) -> Case:
    return replace(case, inputs={**case.inputs, "x": x})
