"""Language modelling on windows of packed tokens: next-token prediction and masked tokens."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.losses import SCORES_AT_ONCE, head_loss, head_losses
from glassformer.config.arrays import Array
from glassformer.config.errors import DataError
from glassformer.config.json_types import JsonObject
from glassformer.config.progress import counted_batches
from glassformer.data.order import mix, number
from glassformer.data.packing.store import Tokens
from glassformer.data.packing.windows import NOTHING, Masking, WindowOrder, segments_of
from glassformer.models.modules import LanguageModel, MaskedLanguageModel, TokenModel, device_of
from glassformer.tasks.base import MAX_DESCRIPTION_CHARS, Batch, Evaluation, Task, to_device
from glassformer.text.tokenizer import Tokenizer

TOKENS_AT_ONCE = 2**14
LAST_TARGETS = 8
"""Number of overlapping windows per token in an evaluation that predicts one token per window.

It is a compromise between time and the number of predictions.
"""
MAX_TOKEN_LOSSES = 2**20
"""Number of tokens whose losses an evaluation stores; beyond it, those of every n-th window."""


class Window(NamedTuple):
    """A span of tokens that a model reads at once."""

    begin: int
    end: int
    counted: int
    """First token to evaluate; earlier tokens are context."""


class JudgedWindow(NamedTuple):
    """The evaluation of a window."""

    record: JsonObject
    columns: dict[str, Array] | None
    """One value per predicted token; None for windows whose values are not stored.

    The columns are its `place` among the ids, the number of tokens `before` it in the window, its `loss`, and others.
    """

    @staticmethod
    def of(window: Window, start: int, places: Array, losses: Array, total: float, **counted: Array) -> "JudgedWindow":
        """Return the evaluation of a window from the positions of its predicted tokens and their losses.

        - `start`: first predicted position;
        - `total`: sum of the losses;
        - `counted`: further columns, whose sums become part of the record.
        """
        sums = {name: int(values.sum()) for name, values in counted.items()}
        covered = window.end - window.counted
        record = {"start": start, "tokens": len(places), "loss": total, **sums, "covered": covered}
        before = (places - window.begin).astype(np.int32)
        return JudgedWindow(record, {"place": places, "before": before, "loss": losses.astype(np.float32), **counted})


class WindowTask(Task):
    """A task on windows of packed tokens."""

    record = "window"
    no_predictions = "holds no token to predict"
    """Reason why a part cannot be evaluated."""
    parts: Mapping[str, Tokens]
    _order: WindowOrder

    def __init__(
        self,
        parts: Mapping[str, Tokens],
        *,
        context: int,
        start: int | None,
        end: int | None = None,
        apart: bool = False,
        batch_size: int = 1,
        seed: int = 0,
        smoothing: float = 0.0,
    ) -> None:
        """Create the task; with `apart`, a token sees only its own document, delimited by START or END."""
        self.parts = parts
        self.context = context
        self.start = start
        self.end = end
        self.apart = apart
        self.smoothing = smoothing
        if "train" in parts:
            self._order = WindowOrder(len(parts["train"].ids), context, batch_size, seed)
            self.steps_per_epoch = self._order.steps_per_epoch

    def ids_of(self, step: int) -> NDArray[np.int64]:
        """Return the windows of a step's batch, each with the token that follows it."""
        places = self._order.starts(step)[:, None] + np.arange(self.context + 1)
        return self.parts["train"].ids[places].astype(np.int64)

    def record_count(self, part: str) -> int:
        return math.ceil(len(self.parts[part].ids) / self.context)

    def token_share(self, part: str, most: int) -> float:
        return min(1.0, most / max(1, len(self.parts[part].ids)))

    def judge(self, part: str, records: list[JsonObject], arrays: dict[str, Array] | None = None) -> Evaluation:
        """Return the metrics of the predictions on a part."""
        count = sum(record["tokens"] for record in records)
        if not count:
            raise DataError(f"the {part} part {self.no_predictions}")
        loss = math.fsum(record["loss"] for record in records) / count
        metrics = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        summary = f"loss {loss:.4f} {self.unit}, perplexity {perplexity_text(metrics['perplexity'])}, "
        summary += self.measure(part, records, metrics)
        metrics["tokens"] = count
        return Evaluation(metrics, "loss", lower_is_better=True, summary=summary, records=records, arrays=arrays or {})

    @abstractmethod
    def measure(self, part: str, records: list[JsonObject], metrics: dict[str, float]) -> str:
        """Add further metrics in place and return their summary."""

    def judge_windows(
        self, windows: list[Window], judge: Callable[[list[Window]], Iterable[JudgedWindow]]
    ) -> tuple[list[JsonObject], dict[str, Array]]:
        """Return the records of the windows, or of those drawn, and the joined columns of every n-th of them.

        `judge`: a function that evaluates windows of one length.
        """
        if self.share < 1:
            windows = [windows[at] for at in self.drawn(len(windows)).tolist()]
        interval = math.ceil(token_count(windows) / MAX_TOKEN_LOSSES)

        def judge_batch(batch: tuple[int, list[Window]]) -> list[JudgedWindow]:
            judged = enumerate(judge(batch[1]), batch[0])
            return [window if place % interval == 0 else window._replace(columns=None) for place, window in judged]

        groups = equal_lengths(windows, self.context)
        batches = counted_batches(groups, lambda batch: token_count(batch[1]), token_count(windows), "token")
        judged = list(chain.from_iterable(self.shared_by.spread(batches, judge_batch)))
        pieces = [window.columns for window in judged if window.columns is not None]
        columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        return [window.record for window in judged], columns

    def segments(self, ids: Int[Tensor, "B T"]) -> Int[Tensor, "B T"] | None:
        """Return the document number of each token; None if documents are not separate."""
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
        """Return the summed loss at these positions of each row; at all positions by default."""
        assert isinstance(model, TokenModel)
        states = model.states(inputs, segments=segments)
        if places is not None:  # select before the head, because the scores are the largest tensor
            states = states[torch.arange(len(states), device=states.device).unsqueeze(1), places]
        features = model.ready(states).flatten(0, 1)
        return head_loss(model.head, features, answers.flatten(), smoothing=self.smoothing)


def windows_over(count: int, context: int, stride: int | None = None) -> list[Window]:
    """Return windows in which each of `count` tokens is evaluated once.

    With a stride below the context, every token after the first window has at least context − stride tokens before it.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise DataError(f"--stride {stride} must be at least 1, and at most the context, {context}")
    windows = [Window(0, min(context, count), 0)]
    while (done := windows[-1].end) < count:
        end = min(done + stride, count)
        windows.append(Window(max(0, end - context), end, done))
    return windows


def equal_lengths(windows: list[Window], context: int) -> Iterator[tuple[int, list[Window]]]:
    """Yield batches of windows of the same length, with the number of windows before them."""
    at_once = max(1, TOKENS_AT_ONCE // context)
    before = 0
    for first in range(0, len(windows), at_once):
        group = windows[first : first + at_once]
        for length in sorted({window.end - window.begin for window in group}, reverse=True):
            rows = [window for window in group if window.end - window.begin == length]
            yield before, rows
            before += len(rows)


def token_count(windows: Iterable[Window]) -> int:
    """Return the number of evaluated tokens."""
    return sum(window.end - window.counted for window in windows)


def stack_rows(device: torch.device, rows: list[Array]) -> Tensor:
    return torch.from_numpy(np.stack(rows).astype(np.int64)).to(device)


@dataclass(frozen=True)
class WindowBatch(Batch):
    """Windows of T + 1 tokens: each of the first T is followed by its answer."""

    ids: Tensor
    start: int | None
    end: int | None = None
    apart: bool = False
    """Whether a token sees only its own document."""
    last_only: bool = False
    """Whether only the token after the window is predicted."""

    @property
    def size(self) -> int:
        return self.ids.shape[0]

    @property
    def count(self) -> int:
        return int((self.targets(self.ids) != NOTHING).sum())

    @property
    def tokens(self) -> int:
        return self.ids.shape[0] * (self.ids.shape[1] - 1)

    def rows(self, first: int, last: int) -> "WindowBatch":
        return replace(self, ids=self.ids[first:last])

    def text(self, row: int, tokenizer: Tokenizer | None) -> str:
        return "" if tokenizer is None else tokenizer.decode(self.ids[row, :MAX_DESCRIPTION_CHARS].tolist())

    def targets(self, ids: Int[Tensor, "B S"]) -> Int[Tensor, "B K"]:
        following = answers(ids, self.start)
        return following[:, -1:] if self.last_only else following

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        (ids,) = to_device(device, self.ids)
        segments = (segments_of(ids[:, :-1], self.start, self.end),) if self.apart else ()
        return ids[:, :-1], self.targets(ids), *segments


def perplexity_text(perplexity: float) -> str:
    """Format a perplexity: `12.34`, or `1.01e+30` for a diverged model."""
    return f"{perplexity:.2f}" if perplexity < 1e6 else f"{perplexity:.3g}"


def answers(ids: Tensor, start: int | None) -> Tensor:
    """Return the next token of each token; START is never a target."""
    following = ids[:, 1:]
    return following if start is None else following.masked_fill(following == start, NOTHING)


class LanguageModelling(WindowTask):
    """Next-token prediction on packed tokens."""

    def __init__(self, parts: dict[str, Tokens], *, last_only: bool = False, **windows: Any) -> None:
        """Prepare next-token prediction on the given parts.

        `last_only`: train on and evaluate only the token after each window, since the states before the last one are
        never trained. `windows`: arguments of `WindowTask`.
        """
        super().__init__(parts, **windows)
        self.last_only = last_only

    @property
    def default_stride(self) -> int:
        """Default number of tokens between two windows of an evaluation."""
        return max(1, self.context // LAST_TARGETS) if self.last_only else self.context

    def record_count(self, part: str) -> int:
        if not self.last_only:
            return super().record_count(part)
        return 1 + math.ceil(max(0, len(self.parts[part].ids) - 1 - self.context) / self.default_stride)

    def token_share(self, part: str, most: int) -> float:
        return super().token_share(part, self._covered_tokens(most))

    def _covered_tokens(self, most: int) -> int:
        """Return how many tokens of a part an evaluation covers when it reads at most `most` tokens."""
        return max(1, most * self.default_stride // self.context)

    def batch(self, step: int) -> WindowBatch:
        return WindowBatch(torch.from_numpy(self.ids_of(step)), self.start, self.end, self.apart, self.last_only)

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        inputs, following, *segments = tensors
        last = torch.full_like(following, inputs.shape[1] - 1) if self.last_only else None
        return self.loss_at(model, inputs, following, *segments, places=last)

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, part: str, *, most: int | None = None, stride: int | None = None
    ) -> Evaluation:
        """Evaluate windows of the context length, `stride` tokens apart.

        Each token is predicted once. With a stride below the context, every token outside the first window sees at
        least context − stride tokens before it. With `last_only`, only the token after each window is predicted. The
        loss never includes label smoothing.
        """
        assert isinstance(model, LanguageModel)
        ids = self.parts[part].ids

        def judge_rows(rows: list[Window]) -> Iterator[JudgedWindow]:
            batch = stack_rows(device_of(model), [ids[begin : end + 1] for begin, end, _ in rows])
            first = min(counted - begin for begin, _, counted in rows)  # the head skips earlier positions
            features = model.features(batch[:, :-1], segments=self.segments(batch[:, :-1]))[:, first:]
            following = answers(batch, self.start)[:, first:]
            losses = head_losses(model.head, features.flatten(0, 1), following.flatten())
            losses = losses.view_as(following).cpu().double()
            has_answer = (following != NOTHING).cpu()
            for row, window in enumerate(rows):
                new = slice(window.counted - window.begin - first, None)
                after, own = np.flatnonzero(has_answer[row, new].numpy()), losses[row, new]
                start = window.counted + 1
                yield JudgedWindow.of(window, start, start + after, own.numpy()[after], float(own.sum()))

        return self.judge(part, *self.judge_windows(self.windows(len(ids), stride, most), judge_rows))

    def measure(self, part: str, records: list[JsonObject], metrics: dict[str, float]) -> str:
        tokens = self.parts[part]
        nats = math.fsum(record["loss"] for record in records)
        covered = sum(record["covered"] for record in records) / (len(tokens.ids) - 1)
        metrics["bits_per_byte"] = nats / math.log(2) / (tokens.bytes * covered)
        summary = f"{metrics['bits_per_byte']:.4f} bits per byte"
        if self.last_only:
            summary += ", predicting only the token after each window"
        if tokens.unknown:
            summary += f" (flattered by {tokens.unknown / len(tokens.ids):.2%} unknown tokens)"
        return summary

    def windows(self, count: int, stride: int | None = None, most: int | None = None) -> list[Window]:
        """Return the windows over `count` tokens: their inputs, and the first input whose successor is predicted.

        `most`: maximum number of tokens to read.
        """
        last = count - 1  # tokens with a successor
        if last < 1:
            raise DataError("a single token has no successor to predict")
        covered = last if most is None else min(last, self._covered_tokens(most))
        windows = windows_over(covered, self.context, self.default_stride if stride is None else stride)
        return [window._replace(counted=window.end - 1) for window in windows] if self.last_only else windows


# --- masked language models ---

_MASKED = number(4)


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Windows of T tokens, some of them masked, with the original tokens."""

    inputs: Int[Tensor, "B T"]
    places: Int[Tensor, "B K"]
    """Masked positions, padded with other positions in rows that have fewer of them."""
    answers: Int[Tensor, "B K"]
    """Token at each of these positions; NOTHING at padding."""
    segments: Int[Tensor, "B T"] | None = None
    """Document number of each token, if documents are separate."""

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
        return "" if tokenizer is None else tokenizer.decode(self.inputs[row, :MAX_DESCRIPTION_CHARS].tolist())

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        tensors = (self.inputs, self.places, self.answers, self.segments)
        return to_device(device, *(tensor for tensor in tensors if tensor is not None))


def masked_places(answers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return K positions with an answer in each row of B×T answers, in order, and the answers there.

    K is the maximum per row, rounded up to an eighth of T, because the step is compiled for each K.
    """
    context = answers.shape[1]
    most = int((answers != NOTHING).sum(1).max())
    eighths = max(1, math.ceil(8 * most / context))
    places = np.argsort(answers == NOTHING, axis=1, kind="stable")[:, : math.ceil(eighths * context / 8)]
    return places, np.take_along_axis(answers, places, 1)


class MaskedModelling(WindowTask):
    """Masked language modelling on packed windows."""

    unit = "nats per guessed token"
    no_predictions = "is too short: none of its tokens is hidden, and so none guessed"

    def __init__(self, parts: dict[str, Tokens], *, masking: Masking, seed: int = 0, **settings: Any) -> None:
        super().__init__(parts, seed=seed, **settings)
        self.masking = masking
        self._key = mix(number(seed), _MASKED)

    def batch(self, step: int) -> MaskedBatch:
        """Return the batch; the masked tokens depend on the seed, the step and the row."""
        ids = self.ids_of(step)[:, :-1]
        inputs, answers = self.masking.to_learn(ids, mix(number(step), self._key))
        read, places, hidden = (torch.from_numpy(numbers) for numbers in (inputs, *masked_places(answers)))
        return MaskedBatch(read, places, hidden, self.segments(torch.from_numpy(ids)))

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        inputs, places, answers, *segments = tensors
        return self.loss_at(model, inputs, answers, *segments, places=places)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        """Evaluate adjacent windows with the same masked tokens each time and for every model."""
        assert isinstance(model, MaskedLanguageModel)
        ids = self.parts[part].ids

        def judge_rows(rows: list[Window]) -> Iterator[JudgedWindow]:
            blocks = [np.asarray(ids[begin:end], np.int64) for begin, end, _ in rows]
            pairs = [self.masking.to_evaluate(block, begin) for block, (begin, _, _) in zip(blocks, rows, strict=True)]
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

        return self.judge(part, *self.judge_windows(self.windows(len(ids), most), judge_rows))

    def measure(self, part: str, records: list[JsonObject], metrics: dict[str, float]) -> str:
        count = sum(record["tokens"] for record in records)
        metrics["accuracy"] = sum(record["right"] for record in records) / count
        return f"{metrics['accuracy']:.2%} of {count:,} hidden tokens guessed right"

    def windows(self, count: int, most: int | None = None) -> list[Window]:
        """Return the windows over at most `most` of `count` tokens."""
        return windows_over(count if most is None else min(count, most), self.context)


def guess_losses(
    head: nn.Linear, features: Float[Tensor, "N d"], answers: Int[Tensor, "N"]
) -> tuple[Float[Tensor, "N"], Bool[Tensor, "N"]]:
    """Return the loss of each prediction, and whether the most probable token is right, computed in chunks."""
    rows = max(1, SCORES_AT_ONCE // head.out_features)
    losses, right = [features.new_empty(0, dtype=torch.float32)], [answers.new_empty(0, dtype=torch.bool)]
    for piece, true in zip(torch.split(features, rows), torch.split(answers, rows), strict=True):
        scores = head(piece).float()
        losses.append(nn.functional.cross_entropy(scores, true, reduction="none"))
        right.append(scores.argmax(-1) == true)
    return torch.cat(losses), torch.cat(right)
