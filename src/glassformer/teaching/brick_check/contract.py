"""A contract: what a brick of a kind is given, what it must compute, written out step by step, and what goes wrong."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.teaching.brick_check.weights import Weight
from glassformer.teaching.exercise import Mistake

Stages = dict[str, Tensor]
"""What is computed on the way, by name, in order; `output` comes last."""
Scope = Any
"""What a step sees: sizes, inputs, weights, and the stages before it, as attributes."""
Steps = Mapping[str, Callable[[Scope], Any]]
"""Stages by their formulas. Those with a name that starts with _ are not shown."""
Run = Callable[[Steps, "Case"], Stages]


@dataclass(frozen=True)
class Case:
    """One call of a brick."""

    what: str
    """What is special in it: `causal`, `padded`."""
    options: Mapping[str, Any]
    """What the brick is built with, beside the sizes that never change, and other facts that the formulas need."""
    inputs: Mapping[str, Any]
    """By name; what depends on x is a function of it."""
    weights: Mapping[str, Tensor | None] = field(default_factory=dict)
    real: Tensor | None = None
    """B×T: where a token is; what stands elsewhere is nobody's business."""

    def scope(self) -> SimpleNamespace:
        return SimpleNamespace(**{**self.options, **self.inputs, **self.weights})


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


@dataclass(frozen=True)
class Offer:
    """An argument that a brick may name."""

    value: Any
    names: Sequence[str] = ()
    """What else people call it."""
    always: bool = True
    """It is given wherever it is named; if not, only where it has no default."""


@dataclass(frozen=True)
class Contract:
    """What a brick of one kind must be."""

    name: str
    signature: str
    """`x B×T×d → B×T×d`."""
    pattern: str
    """What a class, or a function, of this kind is called: matched without regard to case and underscores."""
    steps: Steps
    inputs: Callable[["Facts", torch.Generator], list[Case]]
    """Calls that are compared, with nothing in `weights` yet."""
    mistakes: Sequence[tuple[str, Steps]] = ()
    """A hint, and the steps that are computed otherwise by one who makes it."""
    run: Run = run_once
    is_function: bool = False
    sizes: Mapping[str, Offer] = field(default_factory=dict)
    """What its __init__ is offered."""
    unnamed: Mapping[str, Any] = field(default_factory=dict)
    """What a size is taken for where the brick does not name it."""
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The inputs in order, and what else people call them."""
    optional: Sequence[str] = ()
    """Inputs that are given only where they must be."""
    weights: Sequence[Weight] = ()
    group: str = ""
    """The kind under which bricks are registered, such as `norm`."""
    variants: Sequence[Mapping[str, Any]] = ({},)
    """Facts of which any is right, where the brick cannot be told: the first that fits counts."""
    says: Mapping[str, str] = field(default_factory=dict)
    """Of a variant's facts, what is said where it is not the first: formats with its value."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Of a stage, where a student's is seen: a weight (what comes of it), `into` a weight, `softmax`, `first mean`."""
    searched: Sequence[str] = ()
    """Stages that must be among what is computed, whatever computes them."""
    causal: str = ""
    """Whether an output may depend on later tokens: `always` not, or as the `option` says."""
    permutes: str = ""
    """What becomes of the output when tokens change places: it goes `with` them, or is the `same`."""
    permuted: Sequence[str] = ("x",)
    """The inputs whose tokens change places."""
    masked: str = "x"
    """The input that the mask belongs to."""
    time: int | None = 1
    """The axis of those that the tokens lie on; None: there are none."""
    learns: int = 0
    """Tokens of a batch that it must be able to overfit."""
    shape: Callable[[Case], tuple[int, ...]] = lambda case: tuple(case.inputs["x"].shape)
    """Of the output."""
    read_weights: Callable[..., Any] | None = None
    """Brings weights over in a way of its own."""

    def expected(self, case: Case) -> Stages:
        return _only_real(self.run(self.steps, case), case)

    def wrong(self, *replaced: Steps) -> Callable[[Case], Stages]:
        """What one gets who computes these steps so."""
        steps = dict(self.steps)
        for some in replaced:
            steps |= some
        return lambda case: _only_real(self.run(steps, case), case)

    def known_mistakes(self) -> list[Mistake]:
        """One at a time, then two at once."""
        ones = [Mistake(hint, self.wrong(steps)) for hint, steps in self.mistakes]
        twos = [
            Mistake(f"two things: {first[0]}; and {second[0]}", self.wrong(first[1], second[1]))
            for first, second in itertools.combinations(self.mistakes, 2)
            if not first[1].keys() & second[1].keys()
        ]
        return [*ones, *twos]


@dataclass(frozen=True)
class Facts:
    """What is known of a student's brick before it is compared."""

    options: Mapping[str, Any]
    """The sizes that it was built with."""
    takes: frozenset[str]
    """The inputs that it names."""
    built_with: frozenset[str]
    """The sizes that it names."""
    module: nn.Module | None


def _only_real(stages: Stages, case: Case) -> Stages:
    """Not a number where no token is: B×T×…, or B×h×T×S."""
    if case.real is None:
        return stages
    rows, length = case.real.shape
    out = {}
    for name, stage in stages.items():
        hidden = None
        if stage.dim() == 4 and stage.shape[2] == length:
            hidden = ~case.real[:, None, :, None]
        elif stage.dim() == 3 and stage.shape[:2] == (rows, length):
            hidden = ~case.real[:, :, None]
        elif stage.dim() == 2 and stage.shape == (rows, length):
            hidden = ~case.real
        out[name] = stage if hidden is None else stage.masked_fill(hidden, torch.nan)
    return out


def mapped(x: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """W x + b; without W, x."""
    out = x if weight is None else x @ weight.T
    return out if bias is None else out + bias


def with_x(case: Case, x: Tensor) -> Case:
    return replace(case, inputs={**case.inputs, "x": x})


def numbers(*shape: int, drawn: torch.Generator, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=drawn) * scale


def ragged(batch: int, length: int) -> Tensor:
    """A mask whose rows are shorter one by one, the last by most; padding stands at the end."""
    lengths = torch.tensor([length - 2 * row for row in range(batch)])
    return torch.arange(length) < lengths[:, None]
