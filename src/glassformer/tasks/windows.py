"""Windows of packed tokens: what the tasks share that read a corpus as one long row of them."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.losses import vocabulary_loss
from glassformer.config.errors import DataError
from glassformer.data.packing.store import Tokens
from glassformer.data.packing.windows import WindowOrder, segments_of
from glassformer.models.token_model import TokenModel
from glassformer.tasks.base import Task

TOKENS_AT_ONCE = 2**14
MOST_KEPT = 2**20
"""Tokens whose own losses an evaluation keeps; of more, those of windows at even distances."""


class Window(NamedTuple):
    """A stretch of tokens that a model reads at once."""

    begin: int
    end: int
    counted: int
    """The first token that counts: those before it are there to be seen."""


class WindowTask(Task):
    """A task on packed tokens, window by window."""

    def __init__(
        self,
        parts: dict[str, Tokens],
        *,
        context: int,
        start: int | None,
        end: int | None = None,
        apart: bool = False,
        batch_size: int = 1,
        seed: int = 0,
        smoothing: float = 0.0,
    ) -> None:
        """`apart`: a token sees only its own document, which START begins, or END ends."""
        self.parts = parts
        self.context = context
        self.start = start
        self.end = end
        self.apart = apart
        self.smoothing = smoothing
        self._order = None
        if "train" in parts:
            self._order = WindowOrder(len(parts["train"].ids), context, batch_size, seed)
            self.steps_per_epoch = self._order.steps_per_epoch

    def ids_of(self, step: int) -> NDArray[np.int64]:
        """The windows of a step's batch, each with the token that follows it."""
        assert self._order is not None
        places = self._order.starts(step)[:, None] + np.arange(self.context + 1)
        return self.parts["train"].ids[places].astype(np.int64)

    def segments(self, ids: Int[Tensor, "B T"]) -> Int[Tensor, "B T"] | None:
        """Which document each token is of, where documents are read apart."""
        return segments_of(ids, self.start, self.end) if self.apart else None

    def loss_at(
        self,
        model: nn.Module,
        inputs: Int[Tensor, "B T"],
        answers: Int[Tensor, "B K"],
        segments: Int[Tensor, "B T"] | None = None,
        *,
        places: Int[Tensor, "B K"] | None = None,
    ) -> Float[Tensor, ""]:
        """The summed loss at the places that are asked of each row, or at all of them."""
        assert isinstance(model, TokenModel)
        states = model.states(inputs, segments=segments)
        if places is not None:  # before the head: its scores are the largest tensor there is
            states = states[torch.arange(len(states), device=states.device).unsqueeze(1), places]
        return vocabulary_loss(
            model.ready(states).flatten(0, 1),
            model.head.weight,
            answers.flatten(),
            bias=model.head.bias,
            smoothing=self.smoothing,
        )


def windows_over(count: int, context: int, stride: int | None = None) -> list[Window]:
    """Windows in which each of so many tokens counts once.

    With a stride below the context, every token but those of the first window has at least context − stride before it.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise DataError(f"--stride {stride} must be at least 1, and at most the context, {context}")
    windows = [Window(0, min(context, count), 0)]
    while (done := windows[-1].end) < count:
        end = min(done + stride, count)
        windows.append(Window(max(0, end - context), end, done))
    return windows


def equal_lengths(windows: list[Window], context: int) -> Iterator[list[Window]]:
    """Windows of one length, as many as are computed at once."""
    at_once = max(1, TOKENS_AT_ONCE // context)
    for first in range(0, len(windows), at_once):
        group = windows[first : first + at_once]
        for length in sorted({window.end - window.begin for window in group}, reverse=True):
            yield [window for window in group if window.end - window.begin == length]


def stack_rows(device: torch.device, rows: list[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.stack(rows).astype(np.int64)).to(device)


class TokenColumns:
    """Columns of what is known of single tokens, in every so-manieth window."""

    def __init__(self, tokens: int) -> None:
        """`tokens`: how many there are in all windows."""
        self._apart = math.ceil(tokens / MOST_KEPT)
        self._windows = 0
        self._pieces: list[dict[str, NDArray[Any]]] = []

    def add(self, **columns: NDArray[Any]) -> None:
        """The columns of one window."""
        self._windows += 1
        if (self._windows - 1) % self._apart == 0:
            self._pieces.append(columns)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.concatenate([piece[name] for piece in self._pieces]) for name in self._pieces[0]}
