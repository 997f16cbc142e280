"""The description of a kind of brick: sizes, inputs, a reference written out step by step, and known mistakes."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config.sentences import sentence
from glassformer.teaching.brick_check.names import KINDS, Offer, Weight
from glassformer.teaching.brick_check.steps import Case, Mistakes, Run, Stages, Steps, run_once
from glassformer.teaching.exercise import Mistake

BATCH, TOKENS = 2, 5
"""Sizes of the inputs of every kind that has them."""


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
    mistakes: Mistakes = field(default_factory=dict)
    run: Run = run_once
    is_function: bool = False
    sizes: Mapping[str, Offer] = field(default_factory=dict)
    """What its __init__ is offered."""
    unnamed: Mapping[str, Any] = field(default_factory=dict)
    """What a size is taken for where the brick does not name it."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """The inputs in order, and the pattern of their other names."""
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

    def expected(self, case: Case, *replaced: Steps) -> Stages:
        """Return the right stages, or those of a brick that computes some steps differently."""
        steps = dict(self.steps)
        for wrong in replaced:
            steps |= wrong
        return _only_real(self.run(steps, case), case)

    def known_mistakes(self) -> list[Mistake]:
        """Return single mistakes, then pairs of them that concern different steps."""
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
    """Return the contract that `kinds.toml` describes, with its formulas, sizes and weights."""
    return Contract(**KINDS[kind], **formulas)


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
    out = dict(stages)
    for name, stage in stages.items():
        axis = 2 if stage.dim() == 4 else 1
        if stage.dim() > 1 and stage.shape[axis] == length:
            shape = [rows if place == 0 else length if place == axis else 1 for place in range(stage.dim())]
            out[name] = stage.masked_fill(~case.real.view(shape), torch.nan)
    return out


def padded(facts: "Facts", case: Case, name: str = "x", *, per_token: bool = True) -> list[Case]:
    """Return a case, and if the brick takes a mask, the same case with padding in the input `name`: each row has two
    tokens less than the one before.

    `per_token`: whether there is an output for each token of this input; those of padding are not compared.
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
    """B×T×width: normal numbers."""
    return torch.randn(BATCH, TOKENS, width, generator=drawn)
