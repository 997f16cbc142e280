"""A few examples that were held out, for a report: what a model looks at in them, and what surprised it most."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.bricks.vocabulary_loss import vocabulary_losses
from glassformer.config.resolve import Config
from glassformer.data.labelled import LabelledCorpus
from glassformer.inside.attention import sizes_of
from glassformer.inside.panels import Panel
from glassformer.inside.report import Records, worst
from glassformer.models.language_model import LanguageModel
from glassformer.models.seq2seq import Seq2Seq
from glassformer.runs.run import Run
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.language_model import LanguageModelling, answers
from glassformer.tasks.translation import Translating
from glassformer.text.tokenizer import Tokenizer
from glassformer.verbs.given import Given, as_read, given
from glassformer.verbs.learning import attention_panels
from glassformer.verbs.load import LoadedPredictor, LoadedTranslator
from glassformer.verbs.prepare import Prepared

EXAMPLES = 3
"""Whose attention is shown."""
MOST_TOKENS = 48
"""Of such an example, if they have names to read; an image's patches may be more."""
MOST_WEIGHTS = 2**19
"""Of all these examples together: what goes into a page of 2 MB beside the rest."""
PASSAGES = 3
SEARCHED = 2**20
"""Tokens among which the beginnings of documents are looked for."""


def held_out_attention(run: Run, config: Config, prepared: Prepared, model: nn.Module) -> Iterator[Panel]:
    """The heads on a few examples of the validation part that are short enough to be seen."""
    heads = sum(layers * heads for layers, heads in sizes_of(model).values())
    if not heads:
        return
    room = math.isqrt(MOST_WEIGHTS // (EXAMPLES * heads))
    examples = examples_held_out(run, config, prepared, model, count=EXAMPLES, most=min(MOST_TOKENS, room), room=room)
    for number, example in enumerate(examples, 1):
        yield from attention_panels(model, example, f"Example {number}: ")


def examples_held_out(
    run: Run, config: Config, prepared: Prepared, model: nn.Module, *, count: int, most: int, room: int
) -> Iterator[Given]:
    """Some examples of the validation part, of so many tokens at `most`; of an image, so many patches as `room`."""
    task, tokenizer = prepared.task, prepared.tokenizer
    if isinstance(task, LanguageModelling):
        assert tokenizer is not None
        assert isinstance(model, LanguageModel)
        yield from _beginnings(model, task, tokenizer, min(most, task.context), count)
    elif isinstance(task, Translating):
        assert tokenizer is not None
        assert isinstance(model, Seq2Seq)
        pairs, target = task.parts["validation"], prepared.target_tokenizer or tokenizer
        translator = LoadedTranslator(model, tokenizer, run, config, None, target)
        for row in _few(np.flatnonzero(np.maximum(pairs.source.lengths, pairs.target.lengths) <= most), count):
            yield given(translator, pairs.sources[row], target=pairs.targets[row])
    elif isinstance(task, Labelling):
        assert prepared.features is not None
        assert prepared.answers is not None
        assert isinstance(prepared.corpus, LabelledCorpus)
        predictor = LoadedPredictor(model, tokenizer, run, config, prepared.features, prepared.answers)
        part, inputs = prepared.corpus.parts["validation"], task.parts["validation"]
        short = np.flatnonzero(inputs.lengths <= most)
        if len(short) < count:  # of images, lengths count pixels
            short = np.sort(np.argsort(inputs.lengths, kind="stable")[:count])
        for row in _few(short, count):
            example = as_read(predictor, part, inputs, row)
            if len(example.tokens) <= (room if example.patches == range(len(example.tokens)) else most):
                yield example


def _beginnings(
    model: LanguageModel, task: LanguageModelling, tokenizer: Tokenizer, most: int, count: int
) -> Iterator[Given]:
    """Of documents, as far as they can be shown."""
    ids = task.parts["validation"].ids[:SEARCHED]
    starts = np.arange(0, len(ids), most) if task.start is None else np.flatnonzero(ids == task.start)
    for start in _few(starts if len(starts) else np.zeros(1, np.int64), count):
        chosen: list[int] = ids[start : start + most].tolist()
        if tokenizer.end in chosen:
            chosen = chosen[: chosen.index(tokenizer.end) + 1]
        batch = torch.tensor([chosen], device=model.head.weight.device)
        yield Given((batch,), "", [tokenizer.shown(id) for id in chosen], chosen, range(len(chosen)))


def _few(places: NDArray[np.int64], count: int) -> list[int]:
    """So many of them at most, evenly chosen, the first and the last among them."""
    return (
        places[np.unique(np.linspace(0, len(places) - 1, count).round().astype(np.int64))].tolist()
        if len(places)
        else []
    )


@torch.inference_mode()
def dearest(
    model: LanguageModel, task: LanguageModelling, part: str, records: Records, tokenizer: Tokenizer
) -> Iterator[tuple[list[str], NDArray[np.float64]]]:
    """The windows of an evaluation with the largest loss per token: their tokens, and the loss of each.

    Only windows at least half as long as the longest: a short rest is easily the dearest.
    """
    ids = task.parts[part].ids
    enough = math.ceil(max(record["tokens"] for record in records) / 2)
    places = worst(records, lambda one: one["loss"] / one["tokens"] if one["tokens"] >= enough else None, PASSAGES)
    for record in (records[place] for place in places):
        window = ids[record["start"] - 1 : record["start"] + record["covered"]].astype(np.int64)
        batch = torch.from_numpy(window)[None].to(model.head.weight.device)
        following = answers(batch, task.start)
        losses = vocabulary_losses(model.features(batch[:, :-1])[0], model.head.weight, following[0])
        yield [tokenizer.shown(id) for id in window[1:].tolist()], losses.double().cpu().numpy()
