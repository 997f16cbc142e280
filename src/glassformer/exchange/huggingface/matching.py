"""Which weights of ours are which of theirs: one list, read both ways."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Several = Sequence[Tensor]


@dataclass(frozen=True)
class Match:
    """Some weights of ours and some of theirs that are the same numbers, however they are laid out."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    to_ours: Callable[[Several], Several]
    to_theirs: Callable[[Several], Several]
    """Also given tensors without numbers (`meta`): what shapes theirs must have follows from ours."""
    any_rows: tuple[str, ...] = ()
    """Of theirs, those whose number of rows is theirs to choose."""
    absent: tuple[str, ...] = ()
    """Of theirs, those that a file may lack: then they are zeros."""


def same(ours: str, theirs: str) -> Match:
    return Match((ours,), (theirs,), _as_it_is, _as_it_is)


def turned(ours: str, theirs: str) -> Match:
    """Theirs is the transpose of ours."""
    return Match((ours,), (theirs,), _transposed, _transposed)


def joined(ours: Sequence[str], theirs: str, sizes: Sequence[int], *, turn: bool = False) -> Match:
    """Several of ours, of so many rows each, are one of theirs, end to end; `turn`: transposed after that."""

    def apart(whole: Several) -> Several:
        return torch.split(whole[0].T if turn and whole[0].dim() == 2 else whole[0], list(sizes))

    def together(parts: Several) -> Several:
        whole = torch.cat(list(parts))
        return [whole.T if turn and whole.dim() == 2 else whole]

    return Match(tuple(ours), (theirs,), apart, together)


def linear(ours: str, theirs: str, *, bias: bool) -> list[Match]:
    """A linear map, or a norm: its weight, and its bias if it has one."""
    return [same(f"{ours}.{part}", f"{theirs}.{part}") for part in ("weight", "bias")[: 1 + bias]]


def _as_it_is(tensors: Several) -> Several:
    return tensors


def _transposed(tensors: Several) -> Several:
    return [tensor.T for tensor in tensors]
