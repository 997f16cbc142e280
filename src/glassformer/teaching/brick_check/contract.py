"""The description of a kind of brick: sizes, inputs, a reference written out step by step, and known mistakes."""

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
"""Sizes of the inputs of every kind that has them."""


@dataclass(frozen=True)
class Contract:
    """Requirements for a brick of one kind."""

    name: str
    signature: str
    """Shapes of inputs and output, such as `x B×T×d → B×T×d`."""
    pattern: str
    """Pattern of the names of classes or functions of this kind, in lower case and without underscores."""
    steps: Steps
    inputs: Callable[["Facts", torch.Generator], list[Case]]
    """Function that returns the cases to compare, without weights."""
    mistakes: Mistakes = field(default_factory=dict)
    run: Run = run_once
    is_function: bool = False
    sizes: Mapping[str, Offer] = field(default_factory=dict)
    """Arguments for its __init__."""
    unnamed: Mapping[str, Any] = field(default_factory=dict)
    """Sizes that a brick has if its __init__ does not name them."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Inputs in order, with patterns of their other names."""
    weights: Sequence[Weight] = ()
    group: str = ""
    """The kind under which bricks are registered, such as `norm`."""
    variants: Sequence[Mapping[str, Any]] = ({},)
    """Alternative facts, all of them right; the first that fits the brick counts."""
    says: Mapping[str, str] = field(default_factory=dict)
    """Templates that report a fact of a variant that is not the first, by fact."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where `Watch.stage` finds a stage: the output of a weight, the input `into` it, `softmax`, `first mean`."""
    searched: Sequence[str] = ()
    """Stages that must be among the computed tensors, whatever computes them."""
    causal: str = ""
    """`always`: no output depends on later tokens; `option`: as the option `causal` says; empty: it may."""
    permutes: str = ""
    """Effect of permuted tokens on the output: permuted `with` them, or the `same`."""
    permuted: Sequence[str] = ("x",)
    """Inputs whose tokens are permuted together."""
    masked: str = "x"
    """The input that the mask belongs to."""
    time: int | None = 1
    """The token axis of these inputs; None if they have no tokens."""
    learns: int = 0
    """Number of tokens that the brick must be able to overfit."""
    shape: Callable[[Case], tuple[int, ...]] = lambda case: tuple(case.inputs["x"].shape)
    """Function that returns the shape of the output."""
    read_weights: Callable[[nn.Module, Mapping[str, Any], set[str]], Bridge] | None = None
    """Function that finds the weights; None: by their names."""

    def expected(self, case: Case, *replaced: Steps) -> Stages:
        """Return the right stages, or those of a brick that computes some steps differently."""
        steps = {name: step for formulas in (self.steps, *replaced) for name, step in formulas.items()}
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
    """Facts about a student's brick that are known before it is compared."""

    options: Mapping[str, Any]
    """The sizes that it was built with."""
    takes: frozenset[str]
    """The inputs that it names."""
    built_with: frozenset[str]
    """The sizes that it names."""
    module: nn.Module | None


def _only_real(stages: Stages, case: Case) -> Stages:
    """Set stages of the shapes B×T×… and B×h×T×S to nan where there is no real token."""
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
    """Return B×T×width normal numbers."""
    return torch.randn(BATCH, TOKENS, width, generator=drawn)
