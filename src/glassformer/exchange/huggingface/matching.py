"""Which weights of ours are which of theirs: one list, read both ways."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Tensors = Sequence[Tensor]


@dataclass(frozen=True)
class Match:
    """Some weights of ours and some of theirs that are the same numbers, however they are laid out."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    to_ours: Callable[[Tensors], Tensors]
    to_theirs: Callable[[Tensors], Tensors]
    """The way out, also for tensors without numbers (`meta`): what shapes theirs must have follows from ours."""
    any_rows: tuple[str, ...] = ()
    """Names of theirs whose number of rows is theirs to choose."""
    optional: tuple[str, ...] = ()
    """Names of theirs that a file may lack: then they are zeros."""


def same(ours: str, theirs: str) -> Match:
    return Match((ours,), (theirs,), lambda tensors: tensors, lambda tensors: tensors)


def transposed(ours: str, theirs: str) -> Match:
    return Match((ours,), (theirs,), lambda tensors: [tensors[0].T], lambda tensors: [tensors[0].T])


def concatenated(ours: Sequence[str], theirs: str, sizes: Sequence[int], *, transpose: bool = False) -> Match:
    """Several of ours, of so many rows each, are one of theirs, end to end; or the transpose of that."""

    def split(whole: Tensors) -> Tensors:
        return torch.split(whole[0].T if transpose else whole[0], list(sizes))

    def join(parts: Tensors) -> Tensors:
        whole = torch.cat(list(parts))
        return [whole.T if transpose else whole]

    return Match(tuple(ours), (theirs,), split, join)


def linear(ours: str, theirs: str, *, bias: bool) -> list[Match]:
    """A linear map, or a norm: its weight, and its bias if it has one."""
    return [same(f"{ours}.{part}", f"{theirs}.{part}") for part in ("weight", "bias")[: 1 + bias]]


def linears(ours: str, theirs: str, names: Mapping[str, str], *, bias: bool = True) -> list[Match]:
    """Several linear maps or norms; `names`: ours → theirs."""
    return [match for part, name in names.items() for match in linear(f"{ours}.{part}", f"{theirs}.{name}", bias=bias)]
