"""Contract of a kind of brick: sizes, inputs, a step-by-step reference and known mistakes."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config.sentences import sentence
from glassformer.teaching.brick_check.names import KINDS, Bridge, Offer, Weight
from glassformer.teaching.brick_check.steps import Case, Mistakes, Run, Stages, Steps, run_once
from glassformer.teaching.exercise import Mistake

BATCH, TOKENS = 2, 5
"""Batch size and number of tokens of the test inputs."""


@dataclass(frozen=True)
class Contract:
    """Requirements for a brick of one kind."""

    name: str
    signature: str
    """Shapes of inputs and output, such as `x B×T×d → B×T×d`."""
    pattern: str
    """Pattern that matches names of such classes or functions, in lower case and without underscores."""
    steps: Steps
    inputs: Callable[["Facts", torch.Generator], list[Case]]
    """Function that returns the cases to compare, without weights."""
    mistakes: Mistakes = field(default_factory=dict)
    run: Run = run_once
    is_function: bool = False
    sizes: Mapping[str, Offer] = field(default_factory=dict)
    """Values offered to the parameters of the brick's `__init__`."""
    unnamed: Mapping[str, Any] = field(default_factory=dict)
    """Sizes of a brick whose `__init__` has no parameter for them."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Patterns of alternative parameter names, by input, in the order of the inputs."""
    weights: Sequence[Weight] = ()
    group: str = ""
    """Kind under which such bricks are registered, such as `norm`."""
    variants: Sequence[Mapping[str, Any]] = ({},)
    """Equally correct alternatives; the first one that matches the brick is used."""
    says: Mapping[str, str] = field(default_factory=dict)
    """Message templates by fact, for a matching variant that differs from the first."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Sources of stages for `Watch.stage`: a weight's output, the input `into` a weight, `softmax`, `first mean`."""
    searched: Sequence[str] = ()
    """Stages that must be among the computed tensors, whichever function computes them."""
    causal: str = ""
    """`always`: no output depends on later tokens; `option`: the option `causal` decides; empty: outputs may."""
    permutes: str = ""
    """Effect of permuting the tokens: outputs move `with` them or stay the `same`; empty: order matters."""
    permuted: Sequence[str] = ("x",)
    """Inputs whose tokens are permuted together."""
    masked: str = "x"
    """Input that the mask belongs to."""
    time: int | None = 1
    """Token axis of the inputs; None if they have no tokens."""
    learns: int = 0
    """Number of tokens that the brick must be able to overfit."""
    shape: Callable[[Case], tuple[int, ...]] = lambda case: tuple(case.inputs["x"].shape)
    """Function that returns the shape of the output."""
    read_weights: Callable[[nn.Module, Mapping[str, Any], set[str]], Bridge] | None = None
    """Function that finds the weights; None: find them by their names."""

    def expected(self, case: Case, *replaced: Steps) -> Stages:
        """Return the stages of the reference, with the steps in `replaced` in place of its own."""
        steps = {name: step for formulas in (self.steps, *replaced) for name, step in formulas.items()}
        return _only_real(self.run(steps, case), case)

    def known_mistakes(self) -> list[Mistake]:
        """Return all single mistakes, then all pairs of mistakes in different steps."""
        hints = {name: sentence(__name__, name) for name in self.mistakes}
        singles = [Mistake(hints[name], self._wrong(steps)) for name, steps in self.mistakes.items()]
        pairs = [
            Mistake(f"two things: {hints[first]}; and {hints[second]}", self._wrong(steps, others))
            for (first, steps), (second, others) in itertools.combinations(self.mistakes.items(), 2)
            if not steps.keys() & others.keys()
        ]
        return [*singles, *pairs]

    def _wrong(self, *replaced: Steps) -> Callable[[Case], Stages]:
        return lambda case: self.expected(case, *replaced)


def contract(kind: str, **formulas: Any) -> Contract:
    """Return the contract of a kind: its entry in `kinds.toml`, completed by `formulas`."""
    return Contract(**KINDS[kind], **formulas)


@dataclass(frozen=True)
class Facts:
    """Properties of a student's brick that are known before the comparison."""

    options: Mapping[str, Any]
    """Sizes that the brick was built with."""
    takes: frozenset[str]
    """Inputs that the brick has a parameter for."""
    built_with: frozenset[str]
    """Sizes that its `__init__` has a parameter for."""
    module: nn.Module | None


def _only_real(stages: Stages, case: Case) -> Stages:
    """Set stages of shape B×T×… or B×h×T×S to nan at padding tokens."""
    if case.real is None:
        return stages
    rows, length = case.real.shape
    out = dict(stages)
    for name, stage in stages.items():
        axis = 2 if stage.dim() == 4 else 1
        if stage.dim() > 1 and stage.shape[axis] == length:
            real = case.real.view(rows, *[1] * (axis - 1), length, *[1] * (stage.dim() - axis - 1))
            out[name] = stage.masked_fill(~real, torch.nan)
    return out


def padded(facts: "Facts", case: Case, name: str = "x", *, per_token: bool = True) -> list[Case]:
    """Return a case and, if the brick takes a mask, the same case with padding.

    Each row of the input `name` has two real tokens fewer than the row before.
    `per_token`: whether each token of this input has an output; outputs at padding are not compared.
    """
    if "mask" not in facts.takes:
        return [case]
    x = case.inputs[name]
    lengths = torch.tensor([x.shape[1] - 2 * row for row in range(len(x))])
    real = torch.arange(x.shape[1]) < lengths[:, None]
    inputs = {**case.inputs, name: torch.where(real.unsqueeze(-1), x, 3 * x + 1), "mask": real}
    what = "padded" if case.what == "plain" else f"{case.what} and padded"
    return [case, replace(case, what=what, inputs=inputs, real=real if per_token else None)]


def tokens(width: int, drawn: torch.Generator) -> Tensor:
    """Return random normal inputs, B×T×width."""
    return torch.randn(BATCH, TOKENS, width, generator=drawn)
