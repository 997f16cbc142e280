"""Predict the next token, at every position of a window at once."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.losses import vocabulary_losses
from glassformer.config.errors import DataError
from glassformer.data.packing.masking import NOTHING
from glassformer.data.packing.shards import Ids
from glassformer.data.packing.windows import segments_of
from glassformer.models.language_model import LanguageModel
from glassformer.tasks.base import SHOWN, Batch, Evaluation, to_device
from glassformer.tasks.windows import TokenColumns, Window, WindowTask, equal_lengths, stack_rows, windows_over
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class WindowBatch(Batch):
    """Windows of T + 1 tokens: each of the first T is followed by its answer."""

    ids: Tensor
    start: int | None
    end: int | None = None
    apart: bool = False
    """A token sees only its own document."""

    @property
    def size(self) -> int:
        return self.ids.shape[0]

    @property
    def count(self) -> int:
        return int((answers(self.ids, self.start) != NOTHING).sum())

    @property
    def tokens(self) -> int:
        return self.ids.shape[0] * (self.ids.shape[1] - 1)

    def rows(self, first: int, last: int) -> "WindowBatch":
        return replace(self, ids=self.ids[first:last])

    def text(self, row: int, tokenizer: Tokenizer | None) -> str:
        return "" if tokenizer is None else tokenizer.decode(self.ids[row, :SHOWN].tolist())

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        (ids,) = to_device(device, self.ids)
        segments = (segments_of(ids[:, :-1], self.start, self.end),) if self.apart else ()
        return ids[:, :-1], answers(ids, self.start), *segments


def answers(ids: Tensor, start: int | None) -> Tensor:
    """What follows each token; that a new document starts is no news, so START is never asked for."""
    following = ids[:, 1:]
    return following if start is None else following.masked_fill(following == start, NOTHING)


class LanguageModelling(WindowTask):
    """Next-token prediction on packed tokens."""

    name = "language-model"

    def batch(self, step: int) -> WindowBatch:
        return WindowBatch(torch.from_numpy(self.ids_of(step)), self.start, self.end, self.apart)

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        inputs, following, *segments = tensors
        return self.loss_at(model, inputs, following, *segments)

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, part: str, *, most: int | None = None, stride: int | None = None
    ) -> Evaluation:
        """A pass over windows of the context length, `stride` apart; each token is predicted once.

        With a stride below the context, every token but those of the first window sees at least context − stride
        tokens before it. The loss never holds label smoothing.
        """
        assert isinstance(model, LanguageModel)
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
        summary = (
            f"loss {metrics['loss']:.4f} nats per token, perplexity {metrics['perplexity']:.2f}, "
            f"{metrics['bits_per_byte']:.4f} bits per byte"
        )
        if tokens.unknown:
            summary += f" (flattered by {tokens.unknown / len(tokens.ids):.2%} unknown tokens)"
        return Evaluation(
            metrics, primary="loss", lower_is_better=True, summary=summary, records=records, arrays=arrays or {}
        )

    def windows(self, count: int, stride: int | None = None, most: int | None = None) -> list[Window]:
        """The windows over so many tokens: their inputs, and the first whose answer counts."""
        last = count - 1  # tokens with a successor
        if last < 1:
            raise DataError("a single token has no successor to predict")
        return windows_over(last if most is None else min(last, most), self.context, stride)

    def _records(
        self, model: LanguageModel, ids: Ids, stride: int | None, most: int | None
    ) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """One record per window: where it lies, how many tokens it predicts, and their summed loss.

        And for each token: its `place` among the ids, how many tokens of the window stand `before` it, its `loss`.
        """
        windows = self.windows(len(ids), stride, most)
        records = []
        columns = TokenColumns(windows[-1].end)
        for rows in equal_lengths(windows, self.context):
            batch = stack_rows(model.head.weight.device, [ids[begin : end + 1] for begin, end, _ in rows])
            features = model.features(batch[:, :-1], segments=self.segments(batch[:, :-1]))
            following = answers(batch, self.start)
            losses = vocabulary_losses(
                features.flatten(0, 1), model.head.weight, following.flatten(), bias=model.head.bias
            )
            losses = losses.view_as(following).cpu().double()
            has_answer = (following != NOTHING).cpu()
            for row, (begin, end, counted) in enumerate(rows):
                new = slice(counted - begin, None)
                after = np.flatnonzero(has_answer[row, new].numpy())
                columns.add(
                    place=counted + 1 + after,
                    before=(counted - begin + 1 + after).astype(np.int32),
                    loss=losses[row, new].numpy()[after].astype(np.float32),
                )
                records.append(
                    {
                        "start": counted + 1,
                        "tokens": int(has_answer[row, new].sum()),
                        "loss": float(losses[row, new].sum()),
                        "covered": end - counted,
                    }
                )
        return records, columns.arrays()
