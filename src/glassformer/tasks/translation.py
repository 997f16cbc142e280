"""Translation and other sequence-to-sequence tasks."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.losses import head_loss, head_losses
from glassformer.config.errors import DataError, Misuse
from glassformer.config.json_types import JsonObject
from glassformer.config.progress import may_stop
from glassformer.data.features.texts import PairExamples, Sequences
from glassformer.data.order import TokenOrder
from glassformer.decoding.beam import Hypothesis
from glassformer.decoding.options import Search
from glassformer.decoding.translate import GREEDY, marks_of, translate
from glassformer.models.modules import Seq2Seq, device_of
from glassformer.tasks.base import Batch, Evaluation, Task, to_device
from glassformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU

NOTHING = -1
"""Target at padding and before the last opening token, which is not predicted."""


@dataclass(frozen=True)
class PairBatch(Batch):
    """Sources, and targets from START to END, each padded to the longest."""

    source: Int[Tensor, "B S"]
    source_mask: Bool[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    target_mask: Bool[Tensor, "B T"]
    opening: int = 1
    """Number of opening tokens of each target: START, or those of a third-party tokenizer."""

    @property
    def size(self) -> int:
        return len(self.source)

    @property
    def count(self) -> int:
        return int(self.target_mask[:, self.opening :].sum())

    @property
    def tokens(self) -> int:
        return int(self.source_mask.sum()) + self.count

    def rows(self, first: int, last: int) -> "PairBatch":
        source, source_mask = Sequences.trim(self.source[first:last], self.source_mask[first:last])
        target, target_mask = Sequences.trim(self.target[first:last], self.target_mask[first:last])
        return PairBatch(source, source_mask, target, target_mask, self.opening)

    def text(self, row: int, tokenizer: Tokenizer | None) -> str:
        return "" if tokenizer is None else tokenizer.decode(self.source[row][self.source_mask[row]].tolist())

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        answers = self.target[:, 1:].masked_fill(~self.target_mask[:, 1:], NOTHING)
        answers[:, : self.opening - 1] = NOTHING
        return to_device(device, self.source, self.source_mask, self.target[:, :-1], answers)


class Translating(Task):
    """Translation trained with teacher forcing: all target positions at once, each after the true prefix."""

    steady = False
    record = "pair"
    min_sample = 64  # chrF of 16 pairs varies by several points between validations
    noise = 0.8  # measured between states of one model, some 30 updates apart
    parts: Mapping[str, PairExamples]
    _order: TokenOrder

    def __init__(
        self,
        parts: Mapping[str, PairExamples],
        tokenizer: Tokenizer,
        *,
        context: int,
        batch_tokens: int = 1,
        seed: int = 0,
        smoothing: float = 0.0,
    ) -> None:
        """Create the task; `tokenizer` is that of the targets."""
        self.parts = parts
        self.tokenizer = tokenizer
        self.context = context
        self.smoothing = smoothing
        if "train" in parts:
            train = parts["train"]
            self._order = TokenOrder(train.source.lengths, train.target.lengths, batch_tokens, seed)
            self.steps_per_epoch = self._order.steps_per_epoch

    def batch(self, step: int) -> PairBatch:
        rows = self._order.rows(step)
        train = self.parts["train"]
        return self._side_by_side(*train.source.padded(rows), *train.target.padded(rows))

    def _side_by_side(self, source: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> PairBatch:
        return PairBatch(source, source_mask, target, target_mask, len(self.tokenizer.roles.opening))

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        source, source_mask, target, answers = tensors
        assert isinstance(model, Seq2Seq)
        features = model.features(source, source_mask, target)  # padding follows the target of a causal decoder
        return head_loss(model.head, features.flatten(0, 1), answers.flatten(), smoothing=self.smoothing)

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        part: str,
        *,
        most: int | None = None,
        how: Search = GREEDY,
        lowercase: bool = False,
        bleu_tokenizer: str | None = None,
    ) -> Evaluation:
        """Return the loss, and BLEU, chrF and exact matches of the model's own translations.

        `most`: target tokens to evaluate at most, of pairs spread evenly. `lowercase`: also BLEU of lower-cased texts.
        """
        assert isinstance(model, Seq2Seq)
        pairs = self.parts[part]
        rows = _spread(self._target_tokens(part), most)
        if not len(rows):
            raise DataError(f"the {part} part holds no pair")
        losses = self._losses(model, pairs, rows)
        hypotheses = self.translations(model, [pairs.source.of(row) for row in rows.tolist()], how)
        outputs = [self.tokenizer.decode(best[0].ids) for best in hypotheses]
        records = [
            {
                "source": pairs.sources[row],
                "target": pairs.targets[row],
                "output": output,
                "score": best[0].score,
                "loss": loss,
                "tokens": tokens,
                "exact": output == pairs.targets[row],
            }
            for row, output, best, (loss, tokens) in zip(rows.tolist(), outputs, hypotheses, losses, strict=True)
        ]
        search = "greedy" if how.beam == 1 else f"beam {how.beam}"
        return judge(records, search, lowercase=lowercase, bleu_tokenizer=bleu_tokenizer)

    def _target_tokens(self, part: str) -> NDArray[np.int64]:
        """Return the number of evaluated tokens of each pair."""
        return self.parts[part].target.lengths - len(self.tokenizer.roles.opening)

    def record_count(self, part: str) -> int:
        return len(self.parts[part])

    def token_share(self, part: str, most: int) -> float:
        return min(1.0, most / max(1, int(self._target_tokens(part).sum())))

    def sample_part(self, part: PairExamples) -> PairExamples:
        return part.select(self.drawn(len(part)))

    def translations(self, model: Seq2Seq, sources: list[list[int]], how: Search) -> list[list[Hypothesis]]:
        marks = marks_of(self.tokenizer, model)
        return translate(model, sources, how, marks, context=self.context, spread=self.shared_by.spread)

    def _losses(self, model: Seq2Seq, pairs: PairExamples, rows: NDArray[np.int64]) -> list[tuple[float, int]]:
        """Return the summed loss of each pair without label smoothing, and its number of tokens."""

        def judge(some: NDArray[np.int64]) -> list[tuple[float, int]]:
            may_stop()
            _, *tensors = pairs.side_by_side(some)
            source, source_mask, target, answers = self._side_by_side(*tensors).tensors(device_of(model))
            features = model.features(source, source_mask, target)
            losses = head_losses(model.head, features.flatten(0, 1), answers.flatten())
            sums = losses.view_as(answers).double().sum(1).tolist()
            return list(zip(sums, (answers != NOTHING).sum(1).tolist(), strict=True))

        batches = list(pairs.batch_rows(rows))
        judged = self.shared_by.spread(batches, judge)
        by_row = dict(zip(np.concatenate(batches).tolist(), chain.from_iterable(judged), strict=True))
        return [by_row[row] for row in rows.tolist()]


def _spread(lengths: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """Return all pairs, or every n-th pair so that at most about `most` tokens remain."""
    interval = 1 if most is None else max(1, math.ceil(int(lengths.sum()) / most))
    return np.arange(0, len(lengths), interval)


NO_BLEU = "no_bleu"
"""Key of the reason for not computing BLEU: it would be 0 for any output."""
SPACELESS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces: Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese."""


def default_bleu_tokenizer(targets: Sequence[str]) -> str:
    """Return `char` if most letters are of a script that puts no spaces between words, else sacreBLEU's `13a`."""
    letters = sum(character.isalpha() for target in targets for character in target)
    spaceless = sum(len(SPACELESS.findall(target)) for target in targets)
    return "char" if 2 * spaceless > letters else "13a"


def judge(
    records: list[JsonObject], search: str, *, lowercase: bool = False, bleu_tokenizer: str | None = None
) -> Evaluation:
    """Return the metrics of translations from their records; `search` describes the decoding."""
    outputs, targets = ([record[key] for record in records] for key in ("output", "target"))
    metrics, details = text_scores(outputs, targets, lowercase=lowercase, bleu_tokenizer=bleu_tokenizer)
    metrics["exact_match"] = sum(record["exact"] for record in records) / len(records)
    exact, chrf = f"exact match {metrics['exact_match']:.4f} ({search})", f"chrF {metrics['chrf']:.2f}"
    if NO_BLEU in details:
        summary = f"{exact}, {chrf}, no BLEU: {details[NO_BLEU]}"
    else:
        tokenizer = details["bleu_tokenizer"]
        how = "" if tokenizer == "13a" else f" (tokenizer {tokenizer})"
        summary = f"BLEU {metrics['bleu']:.2f}{how}, {chrf}, {exact}"
    count = sum(record["tokens"] for record in records if "loss" in record)
    if count:
        metrics["loss"] = math.fsum(record["loss"] for record in records) / count
        summary += f", loss {metrics['loss']:.4f} nats per token"
    metrics["pairs"] = len(records)
    if count:
        metrics["target_tokens"] = count
    return Evaluation(metrics, "chrf", lower_is_better=False, summary=summary, details=details, records=records)


def text_scores(
    outputs: list[str], targets: list[str], *, lowercase: bool = False, bleu_tokenizer: str | None = None
) -> tuple[dict[str, float], JsonObject]:
    """Return sacreBLEU's BLEU and chrF, and as details the signatures that make them comparable.

    `bleu_tokenizer`: one of `BLEU_TOKENIZERS`; None: that of `default_bleu_tokenizer`. A BLEU that was not computed is
    None among the details.
    """
    from sacrebleu.metrics.chrf import CHRF

    tokenizer = bleu_tokenizer or default_bleu_tokenizer(targets)
    bleu = bleu_with(tokenizer)
    computed: dict[str, Metric] = {"bleu": bleu, "chrf": CHRF()}
    if lowercase:
        computed["bleu_lowercase"] = bleu_with(tokenizer, lowercase=True)
    details: JsonObject = {"bleu_tokenizer": tokenizer}
    if all(len(bleu.tokenizer(target).split()) < bleu.max_ngram_order for target in targets):
        details = {name: None for name in computed if name != "chrf"}
        details[NO_BLEU] = f"no target has {bleu.max_ngram_order} words in a row"
    computed = {name: metric for name, metric in computed.items() if name not in details}
    metrics = {name: metric.corpus_score(outputs, [targets]).score for name, metric in computed.items()}
    return metrics, {"signature": {name: str(metric.get_signature()) for name, metric in computed.items()}, **details}


def bleu_with(tokenizer: str, *, lowercase: bool = False) -> "BLEU":
    """Return sacreBLEU's BLEU with this tokenizer; raise `Misuse` if the tokenizer is not installed."""
    from sacrebleu.metrics.bleu import BLEU

    try:
        return BLEU(tokenize=tokenizer, lowercase=lowercase)
    except (ImportError, RuntimeError):  # sacreBLEU raises RuntimeError for some of its extras
        raise Misuse(f"--bleu-tokenizer {tokenizer} is not installed: pip install 'sacrebleu[ja]'") from None
