"""Predict the next token, at every position of a window at once."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.vocabulary_loss import vocabulary_loss, vocabulary_losses
from glassformer.config.errors import DataError
from glassformer.data.order import WindowOrder
from glassformer.data.store import Tokens
from glassformer.models.language_model import LanguageModel
from glassformer.tasks.base import Batch, Evaluation, Task

NOTHING = -1
"""The answer at positions where none is asked for."""

TOKENS_AT_ONCE = 2**14
MOST_KEPT = 2**20
"""Tokens whose own losses an evaluation keeps; of more, those of windows at even distances."""


@dataclass(frozen=True)
class Windows(Batch):
    """Windows of T + 1 tokens: each of the first T is followed by its answer."""

    ids: Tensor
    start: int | None

    @property
    def size(self) -> int:
        return self.ids.shape[0]

    @property
    def count(self) -> int:
        return int((answers(self.ids, self.start) != NOTHING).sum())

    @property
    def tokens(self) -> int:
        return self.ids.shape[0] * (self.ids.shape[1] - 1)

    def rows(self, first: int, last: int) -> "Windows":
        return Windows(self.ids[first:last], self.start)

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        ids = self.ids.pin_memory() if device.type == "cuda" else self.ids
        ids = ids.to(device, non_blocking=True)
        return ids[:, :-1], answers(ids, self.start)


def answers(ids: Tensor, start: int | None) -> Tensor:
    """What follows each token; that a new document starts is no news, so START is never asked for."""
    following = ids[:, 1:]
    return following if start is None else following.masked_fill(following == start, NOTHING)


class LanguageModelling(Task):
    """Next-token prediction on packed tokens."""

    name = "language-model"

    def __init__(
        self,
        parts: dict[str, Tokens],
        *,
        context: int,
        start: int | None,
        batch_size: int = 1,
        seed: int = 0,
        smoothing: float = 0.0,
    ) -> None:
        self.parts = parts
        self.context = context
        self.start = start
        self.smoothing = smoothing
        self._order = None
        if "train" in parts:
            self._order = WindowOrder(len(parts["train"].ids), context, batch_size, seed)
            self.steps_per_epoch = self._order.steps_per_epoch

    def batch(self, step: int) -> Windows:
        assert self._order is not None
        starts = self._order.starts(step)
        places = starts[:, None] + np.arange(self.context + 1)
        return Windows(torch.from_numpy(self.parts["train"].ids[places].astype(np.int64)), self.start)

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        inputs, following = tensors
        assert isinstance(model, LanguageModel)
        features = model.features(inputs)
        return vocabulary_loss(features.flatten(0, 1), model.head.weight, following.flatten(), smoothing=self.smoothing)

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, part: str, *, most: int | None = None, stride: int | None = None
    ) -> Evaluation:
        """A pass over windows of the context length, `stride` apart; each token is predicted once.

        With a stride below the context, every token but those of the first window sees at least context − stride
        tokens before it. The loss never holds label smoothing.
        """
        assert isinstance(model, LanguageModel)
        stride = self.context if stride is None else stride
        return self.judge(part, *self._records(model, self.parts[part].ids, stride, most))

    def judge(
        self, part: str, records: list[dict[str, Any]], arrays: dict[str, NDArray[Any]] | None = None
    ) -> Evaluation:
        """Metrics of what was predicted of a part, window by window."""
        tokens = self.parts[part]
        nats = math.fsum(record["loss"] for record in records)
        count = sum(record["tokens"] for record in records)
        if not count:
            raise DataError(f"the {part} part holds no token to predict")
        covered = sum(record["covered"] for record in records) / (len(tokens.ids) - 1)
        metrics = {
            "loss": nats / count,
            "perplexity": math.exp(min(nats / count, 700.0)),
            "bits_per_byte": nats / math.log(2) / (tokens.bytes * covered),
            "tokens": count,
        }
        words = (
            f"loss {metrics['loss']:.4f} nats per token, perplexity {metrics['perplexity']:.2f}, "
            f"{metrics['bits_per_byte']:.4f} bits per byte"
        )
        if tokens.unknown:
            words += f" (flattered by {tokens.unknown / len(tokens.ids):.2%} unknown tokens)"
        return Evaluation(
            metrics, primary="loss", lower_is_better=True, words=words, records=records, arrays=arrays or {}
        )

    def windows(self, count: int, stride: int | None = None, most: int | None = None) -> list[tuple[int, int, int]]:
        """Of so many tokens: (first input, end of inputs, first input whose answer counts) of each."""
        stride = self.context if stride is None else stride
        if not 1 <= stride <= self.context:
            raise DataError(f"--stride {stride} must be at least 1, and at most the context, {self.context}")
        last = count - 1  # tokens with a successor
        if last < 1:
            raise DataError("a single token has no successor to predict")
        last = last if most is None else min(last, most)
        windows = [(0, min(self.context, last), 0)]
        while windows[-1][1] < last:
            done = windows[-1][1]
            end = min(done + stride, last)
            windows.append((max(0, end - self.context), end, done))
        return windows

    def _records(
        self, model: LanguageModel, ids: np.ndarray, stride: int, most: int | None
    ) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """One record per window: where it lies, how many tokens it predicts, and their summed loss.

        And for each token: its `place` among the ids, how many tokens of the window stand `before` it, its `loss`.
        """
        windows = self.windows(len(ids), stride, most)
        device = model.head.weight.device
        records = []
        kept = _Kept(math.ceil(windows[-1][1] / MOST_KEPT))
        at_once = max(1, TOKENS_AT_ONCE // self.context)
        for first in range(0, len(windows), at_once):
            group = windows[first : first + at_once]
            same = {end - begin for begin, end, _ in group}
            for length in sorted(same, reverse=True):
                rows = [window for window in group if window[1] - window[0] == length]
                block = np.stack([ids[begin : end + 1] for begin, end, _ in rows]).astype(np.int64)
                batch = torch.from_numpy(block).to(device)
                features = model.features(batch[:, :-1])
                following = answers(batch, self.start)
                losses = vocabulary_losses(features.flatten(0, 1), model.head.weight, following.flatten())
                losses = losses.view_as(following).cpu().double()
                asked = (following != NOTHING).cpu()
                for row, (begin, end, counted) in enumerate(rows):
                    new = slice(counted - begin, None)
                    kept.add(counted, counted - begin, losses[row, new].numpy(), asked[row, new].numpy())
                    records.append(
                        {
                            "start": counted + 1,
                            "tokens": int(asked[row, new].sum()),
                            "loss": float(losses[row, new].sum()),
                            "covered": end - counted,
                        }
                    )
        return records, kept.arrays()


class _Kept:
    """The losses of single tokens, of every so-manieth window."""

    def __init__(self, apart: int) -> None:
        self._apart = apart
        self._windows = 0
        self._pieces: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]] = []

    def add(self, first: int, before: int, losses: NDArray[np.float64], asked: NDArray[np.bool_]) -> None:
        """A window's losses, from the input `first` on, which stands after `before` others of its window."""
        self._windows += 1
        if (self._windows - 1) % self._apart == 0:
            after = np.flatnonzero(asked)
            places, inputs = first + 1 + after, (before + 1 + after).astype(np.int32)
            self._pieces.append((places, inputs, losses[after].astype(np.float32)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        columns = zip(*self._pieces, strict=True)
        return {name: np.concatenate(column) for name, column in zip(("place", "before", "loss"), columns, strict=True)}
