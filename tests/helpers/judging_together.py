"""What torchrun starts: each process evaluates a task of every kind alone, and together with the others.

Fails if the two differ in a bit; prints, as one line of JSON a process, how many batches of each kind it judged.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from glassformer.config.resolve import resolve
from glassformer.data.features import inputs, texts
from glassformer.data.packing.store import Tokens
from glassformer.data.packing.windows import Masking
from glassformer.decoding import translate
from glassformer.models.build import build_language_model, build_masked_model, build_predictor
from glassformer.models.modules import Predictor
from glassformer.tasks import language_model
from glassformer.tasks.answers import Classes, Labels, Scale
from glassformer.tasks.base import Among, Evaluation, Task
from glassformer.tasks.labelling import on_frozen_features
from glassformer.tasks.language_model import LanguageModelling, MaskedModelling
from glassformer.tasks.prediction import Classification, Multilabel, Regression
from glassformer.tasks.translation import Translating
from helpers.running import labelled, tiny
from helpers.support import randomise, ready
from helpers.tables import examples_of_lengths
from helpers.translating import letters_of, mirrored, pair_examples
from helpers.translators import translator

VOCAB, START, END, MASK, CONTEXT = 13, 1, 2, 3, 7
LENGTHS = [3, 11, 1, 7, 7, 2, 19, 5, 4, 13, 1, 8, 6, 17, 9, 3, 12, 31, 5]
PART, FROZEN = "validation", "frozen features"


@dataclass(frozen=True)
class Counting(Among):
    """Counts what this process judges."""

    judged: list[int] = field(default_factory=list)

    def spread(self, batches: Iterable[Any], judge: Callable[[Any], Any]) -> list[Any]:
        def count(batch: Any) -> Any:
            self.judged[-1] += 1
            return judge(batch)

        self.judged.append(0)
        return super().spread(batches, count)


def documents(*lengths: int) -> Tokens:
    random = np.random.default_rng(0)
    ids = [id for length in lengths for id in (START, *random.integers(4, VOCAB, length), END)]
    return Tokens(np.array(ids, np.uint16), sum(lengths), sum(lengths), len(lengths), 0)


def windows(task: str, build: Callable[..., nn.Module]) -> nn.Module:
    settings = resolve({}, {**tiny(), "task": task, "model.context": CONTEXT}, strict=False).model
    return randomise(build(settings, vocab=VOCAB)).eval()


def reader(outputs: int) -> Predictor:
    settings = resolve({}, {**labelled("lstm"), "task": "classification"})
    return randomise(build_predictor(settings.model, vocab=VOCAB, outputs=outputs)).eval()


def cases() -> Iterator[tuple[str, Task, nn.Module, dict[str, Any]]]:
    """A name, a task, a model, and what else `evaluate` is told."""
    tokens = {PART: documents(40, 6, 25, 90, 3, 8)}
    language = LanguageModelling(tokens, context=CONTEXT, start=START)
    writer = windows("language-model", build_language_model)
    yield "language-model", language, writer, {}
    yield "stride", language, writer, {"stride": 3}
    yield "sample", language.sample(0.4), writer, {}
    masking = Masking(MASK, np.arange(4, VOCAB), VOCAB, 0.4)
    masked = MaskedModelling(tokens, context=CONTEXT, start=START, masking=masking)
    yield "masked-language-model", masked, windows("masked-language-model", build_masked_model), {}
    numbers = np.arange(len(LENGTHS))
    classes = Classification({PART: examples_of_lengths(LENGTHS, numbers % 3)}, Classes.of("abc", None))
    yield "classification", classes, reader(3), {}
    yield "few examples", classes.sample(0.05), reader(3), {}
    body = reader(3)
    yield FROZEN, classes, body, {}
    labels = Labels(("a", "b"))
    sets = np.stack([numbers % 2, numbers % 3 == 0], 1).astype(np.float32)
    yield "multilabel", Multilabel({PART: examples_of_lengths(LENGTHS, sets)}, labels), reader(2), {}
    spreads = (numbers / 7).astype(np.float32)
    yield "regression", Regression({PART: examples_of_lengths(LENGTHS, spreads)}, Scale(3.0, 2.0)), reader(1), {}
    rows = mirrored(29)
    letters = letters_of(rows)
    pairs = Translating({PART: pair_examples(rows, letters, 20)}, letters, context=20)
    size = letters.vocab_size
    yield "translation", pairs, ready(translator("lstm", "lstm", source_vocab=size, target_vocab=size)), {}


def new(task: Any, model: Any, *, frozen: bool) -> Task:
    """The task; on features that nobody has computed so far."""
    return on_frozen_features(task, model) if frozen else task


def same(one: Evaluation, other: Evaluation) -> None:
    assert one == other, (one.metrics, other.metrics)  # records among them, numbers to the last bit
    assert list(one.arrays) == list(other.arrays)
    for name, values in one.arrays.items():
        assert values.dtype == other.arrays[name].dtype
        assert np.array_equal(values, other.arrays[name]), name


def main() -> None:
    language_model.TOKENS_AT_ONCE = 28
    language_model.MAX_TOKEN_LOSSES = 50  # of every n-th window
    inputs.MIN_BATCH_TOKENS = texts.TOKENS_AT_ONCE = translate.TOKENS_AT_ONCE = 30
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    judged = {}
    for name, task, model, more in cases():
        processes, alone = Counting(rank, world), Counting()
        together, other = (
            new(task, model, frozen=name == FROZEN).among(who).evaluate(model, PART, **more)
            for who in (processes, alone)
        )
        same(together, other)
        judged[name] = [processes.judged, alone.judged]
    print(json.dumps(judged), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
