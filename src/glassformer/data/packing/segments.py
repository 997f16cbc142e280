"""Which document each token of a window belongs to."""

import torch
from jaxtyping import Int
from torch import Tensor


def segments_of(ids: Int[Tensor, "B T"], start: int | None, end: int | None) -> Int[Tensor, "B T"]:
    """Numbers from 0 on: START begins a document, or where there is none, what follows END.

    A window that begins in the middle of a document has the rest of it as its first.
    """
    begins = torch.zeros_like(ids)
    if start is not None:
        begins = (ids == start).long()
    elif end is not None:
        begins[:, 1:] = (ids[:, :-1] == end).long()
    return begins.cumsum(1)
