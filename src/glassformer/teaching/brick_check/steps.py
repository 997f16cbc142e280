"""Test cases, and computations written out step by step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

Stages = dict[str, Tensor]
"""Tensors of a computation by name, in order of computation; `output` is last."""
Scope = SimpleNamespace
"""Namespace of a step: sizes, inputs, weights and earlier stages, as attributes."""
Steps = Mapping[str, Callable[[Scope], Any]]
"""Formulas by stage. Stages whose names start with _ are internal and not reported."""
Mistakes = Mapping[str, Steps]
"""Changed steps by mistake; the key is the name of the mistake's hint in `sentences.toml`."""
Run = Callable[[Steps, "Case"], Stages]


@dataclass(frozen=True)
class Case:
    """One call of a brick."""

    what: str
    """Difference from the plain case, such as `causal` or `padded`."""
    options: Mapping[str, Any]
    """Sizes that vary between cases, and other facts that the formulas need."""
    inputs: Mapping[str, Any]
    """Inputs by name; an input that depends on x is a function of x."""
    weights: Mapping[str, Tensor | None] = field(default_factory=dict)
    real: Tensor | None = None
    """Mask B×T, True at tokens whose outputs are compared; None: compare all outputs."""

    def scope(self) -> Scope:
        return Scope(**{"mask": None, **self.options, **self.inputs, **self.weights})


def run_once(steps: Steps, case: Case) -> Stages:
    """Compute every step once, in order."""
    return _computed(steps, case.scope())


def run_along(steps: Steps, case: Case) -> Stages:
    """Compute every step once per token; `state` and `cell` become `h` and `c` of the next token."""
    scope, stages_by_token = case.scope(), list[Stages]()
    x: Tensor = scope.x
    scope.h = scope.c = x.new_zeros(len(x), scope.width)
    for t in range(x.shape[1]):
        scope.x = x[:, t]
        stages_by_token.append(_computed(steps, scope))
        scope.h, scope.c = scope.state, getattr(scope, "cell", None)
    stages = {name: torch.stack([each[name] for each in stages_by_token], 1) for name in stages_by_token[0]}
    return {**stages, "output": stages["state"]}


def _computed(steps: Steps, scope: Scope) -> Stages:
    for name, step in steps.items():
        setattr(scope, name, step(scope))
    return {name: getattr(scope, name) for name in steps if not name.startswith("_")}


def mapped(x: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b; without W, x + b."""
    out = x if weight is None else x @ weight.T
    return out if bias is None else out + bias


def with_x(case: Case, x: Tensor) -> Case:
    return replace(case, inputs={**case.inputs, "x": x})
