"""Guess tokens that were hidden, from all the others, on both sides."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.losses import SCORES_AT_ONCE
from glassformer.data.order import mix, number
from glassformer.data.packing.store import Ids, Tokens
from glassformer.data.packing.windows import NOTHING, Masking
from glassformer.models.modules import MaskedLanguageModel, device_of
from glassformer.tasks.base import SHOWN, Batch, Evaluation, to_device
from glassformer.tasks.language_model import JudgedWindow, Window, WindowTask, stack_rows, windows_over
from glassformer.text.tokenizer import Tokenizer

_MASKED = number(4)


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Windows of T tokens, some of them hidden, and what these were."""

    inputs: Int[Tensor, "B T"]
    places: Int[Tensor, "B K"]
    """The places that are guessed and, where a row has fewer than another, some that are not."""
    answers: Int[Tensor, "B K"]
    """The token at each of these places, or NOTHING where none is asked for."""
    segments: Int[Tensor, "B T"] | None = None
    """Which document each token is of, where documents are read apart."""

    @property
    def size(self) -> int:
        return self.inputs.shape[0]

    @property
    def count(self) -> int:
        return int((self.answers != NOTHING).sum())

    @property
    def tokens(self) -> int:
        return self.inputs.numel()

    def rows(self, first: int, last: int) -> "MaskedBatch":
        some = slice(first, last)
        segments = None if self.segments is None else self.segments[some]
        return MaskedBatch(self.inputs[some], self.places[some], self.answers[some], segments)

    def text(self, row: int, tokenizer: Tokenizer | None) -> str:
        return "" if tokenizer is None else tokenizer.decode(self.inputs[row, :SHOWN].tolist())

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        tensors = (self.inputs, self.places, self.answers, self.segments)
        return to_device(device, *(tensor for tensor in tensors if tensor is not None))


def masked_places(answers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The K places of each row of B×T answers at which there are some, in order, and the answers there.

    K is what the row with the most needs, in whole eighths of T: a step is compiled for each K that comes up.
    """
    context = answers.shape[1]
    most = int((answers != NOTHING).sum(1).max())
    eighths = max(1, math.ceil(8 * most / context))
    places = np.argsort(answers == NOTHING, axis=1, kind="stable")[:, : math.ceil(eighths * context / 8)]
    return places, np.take_along_axis(answers, places, 1)


class MaskedModelling(WindowTask):
    """Guessing hidden tokens of packed windows."""

    unit = "nats per guessed token"
    no_predictions = "is too short: none of its tokens is hidden, and so none guessed"

    def __init__(self, parts: dict[str, Tokens], *, masking: Masking, seed: int = 0, **settings: Any) -> None:
        super().__init__(parts, seed=seed, **settings)
        self.masking = masking
        self._key = mix(number(seed), _MASKED)

    def batch(self, step: int) -> MaskedBatch:
        """What is hidden follows from the seed, the step and the place in the batch."""
        ids = self.ids_of(step)[:, :-1]
        inputs, answers = self.masking.to_learn(ids, mix(number(step), self._key))
        read, places, hidden = (torch.from_numpy(numbers) for numbers in (inputs, *masked_places(answers)))
        return MaskedBatch(read, places, hidden, self.segments(torch.from_numpy(ids)))

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        inputs, places, answers, *segments = tensors
        return self.loss_at(model, inputs, answers, *segments, places=places)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        """One pass over windows side by side, in which the same tokens are hidden each time and for every model."""
        assert isinstance(model, MaskedLanguageModel)
        return self.judge(part, *self._records(model, self.parts[part].ids, most))

    def measure(self, part: str, records: list[dict[str, Any]], metrics: dict[str, float]) -> str:
        count = sum(record["tokens"] for record in records)
        metrics["accuracy"] = sum(record["right"] for record in records) / count
        return f"{metrics['accuracy']:.2%} of {count:,} hidden tokens guessed right"

    def windows(self, count: int, most: int | None = None) -> list[Window]:
        """The windows over so many tokens."""
        return windows_over(count if most is None else min(count, most), self.context)

    def _records(
        self, model: MaskedLanguageModel, ids: Ids, most: int | None
    ) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """One record per window: where it lies, how many tokens are guessed, their summed loss, how many are right.

        And for each of these tokens: its `place` among the ids, how many tokens of the window stand `before` it, its
        `loss`, whether it is `right`.
        """

        def judge(rows: list[Window]) -> Iterator[JudgedWindow]:
            blocks = [np.asarray(ids[begin:end], np.int64) for begin, end, _ in rows]
            pairs = [self.masking.to_judge(block, begin) for block, (begin, _, _) in zip(blocks, rows, strict=True)]
            device = device_of(model)
            inputs, answers = (stack_rows(device, list(side)) for side in zip(*pairs, strict=True))
            features = model.features(inputs, segments=self.segments(stack_rows(device, blocks)))
            has_answer = answers != NOTHING
            losses, right = (
                tensor.cpu().numpy() for tensor in guess_losses(model.head, features[has_answer], answers[has_answer])
            )
            row_of, place_of = (axis.cpu().numpy() for axis in has_answer.nonzero(as_tuple=True))
            for row, window in enumerate(rows):
                new = (row_of == row) & (place_of >= window.counted - window.begin)
                places, own = window.begin + place_of[new], losses[new]
                total = float(own.astype(np.float64).sum())
                yield JudgedWindow.of(window, window.counted, places, own, total, right=right[new])

        return self.judge_windows(self.windows(len(ids), most), judge)


def guess_losses(
    head: nn.Linear, features: Float[Tensor, "N d"], answers: Int[Tensor, "N"]
) -> tuple[Float[Tensor, "N"], Bool[Tensor, "N"]]:
    """The loss of each guess, and whether the likeliest token is the right one; in pieces, as scores are many."""
    rows = max(1, SCORES_AT_ONCE // head.out_features)
    losses, right = [features.new_empty(0, dtype=torch.float32)], [answers.new_empty(0, dtype=torch.bool)]
    for piece, true in zip(torch.split(features, rows), torch.split(answers, rows), strict=True):
        scores = head(piece).float()
        losses.append(nn.functional.cross_entropy(scores, true, reduction="none"))
        right.append(scores.argmax(-1) == true)
    return torch.cat(losses), torch.cat(right)
