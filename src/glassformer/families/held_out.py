"""A run's validation part, to be looked at: some of its examples, and the loss on it."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.config.errors import DataError, Misuse
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.data.split.labelled import LabelledCorpus
from glassformer.families.answer import learned_answer
from glassformer.families.load import AnyLoaded, LoadedMasked, LoadedPredictor, LoadedTranslator
from glassformer.families.model_input import Given, as_read, given
from glassformer.families.prepare import Prepared, prepare
from glassformer.families.resume import same_data
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.token_model import TokenModel
from glassformer.runs.run import Run
from glassformer.tasks.answers import Classes, Labels
from glassformer.tasks.base import Task
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.translation import Translating
from glassformer.tasks.windows import OnWindows
from glassformer.text.tokenizer import Tokenizer

MOST_TOKENS = 128
"""Of an example over which heads are measured."""
MOST_PATCHES = 4096
MOST_JUDGED = 20_000
"""Tokens of the validation part on which a loss is measured again and again."""
A_TEXT = ": give a text"
SEARCHED = 2**20
"""Tokens among which the beginnings of documents are looked for."""


def examples_held_out(
    run: Run, config: Config, prepared: Prepared, model: nn.Module, *, count: int, most: int, room: int
) -> Iterator[Given]:
    """Some examples of the validation part, of so many tokens at `most`; of an image, so many patches as `room`."""
    task, tokenizer = prepared.task, prepared.tokenizer
    if isinstance(task, OnWindows):
        assert tokenizer is not None
        assert isinstance(model, TokenModel)
        yield from _beginnings(model, task, tokenizer, min(most, task.context), count)
    elif isinstance(task, Translating):
        assert tokenizer is not None
        assert isinstance(model, Seq2Seq)
        pairs, target = task.parts[_held_part(task)], prepared.target_tokenizer or tokenizer
        translator = LoadedTranslator(model, tokenizer, run, config, None, target)
        for row in _few(np.flatnonzero(np.maximum(pairs.source.lengths, pairs.target.lengths) <= most), count):
            yield given(translator, pairs.sources[row], target=pairs.targets[row])
    elif isinstance(task, Labelling):
        assert prepared.features is not None
        assert prepared.answers is not None
        assert isinstance(prepared.corpus, LabelledCorpus)
        predictor = LoadedPredictor(model, tokenizer, run, config, prepared.features, prepared.answers)
        held = _held_part(task)
        part, inputs = prepared.corpus.parts[held], task.parts[held]
        short = np.flatnonzero(inputs.lengths <= most)
        if len(short) < count:  # of images, lengths count pixels
            short = np.sort(np.argsort(inputs.lengths, kind="stable")[:count])
        for row in _few(short, count):
            example = as_read(predictor, part, inputs, row)
            if len(example.tokens) <= (room if example.square is not None else most):
                yield example


def _held_part(task: Task) -> str:
    """The validation part; of a refit, which has learned from that too, the test part."""
    assert isinstance(task, OnWindows | Translating | Labelling)
    found = next((name for name in ("validation", "test") if name in task.parts), None)
    if found is None:
        raise DataError("this run has learned from all its rows (a refit): nothing of them is held out; give a text")
    return found


def _beginnings(model: TokenModel, task: OnWindows, tokenizer: Tokenizer, most: int, count: int) -> Iterator[Given]:
    """Of documents, as far as they can be shown."""
    ids = task.parts[_held_part(task)].ids[:SEARCHED]
    starts = np.arange(0, len(ids), most) if task.start is None else np.flatnonzero(ids == task.start)
    for start in _few(starts if len(starts) else np.zeros(1, np.int64), count):
        chosen: list[int] = ids[start : start + most].tolist()
        if tokenizer.end in chosen:
            chosen = chosen[: chosen.index(tokenizer.end) + 1]
        batch = torch.tensor([chosen], device=model.head.weight.device)
        names = [tokenizer.shown(id) for id in chosen]
        yield Given(inputs=(batch,), text="", tokens=names, ids=chosen, words=range(len(chosen)))


def _few(places: NDArray[np.int64], count: int) -> list[int]:
    """So many of them at most, evenly chosen, the first and the last among them."""
    return (
        places[np.unique(np.linspace(0, len(places) - 1, count).round().astype(np.int64))].tolist()
        if len(places)
        else []
    )


def prepare_again(run: Run, instead: str = "") -> Prepared:
    """The data that a run was trained on, as it was read then. `instead`: what to do where nobody knows it."""
    if "imported" in run.card():
        raise DataError(f"{run.path} was imported: what it was trained on is not known here{instead}")
    try:
        prepared = prepare(run.config(), silent, run.tokenizer(), target_tokenizer=run.target_tokenizer())
    except DataError as error:
        raise DataError(f"the data that this run was trained on is not there: {error}") from None
    same_data(run, prepared)
    return prepared


def examples_of(loaded: AnyLoaded, count: int, say: Say) -> list[Given]:
    """Some examples of the validation part, spread over it."""
    prepared = prepare_again(loaded.run, A_TEXT)
    part = _held_part(prepared.task)
    found = list(
        examples_held_out(
            loaded.run,
            loaded.config,
            prepared,
            loaded.model,
            count=count,
            most=MOST_TOKENS,
            room=MOST_PATCHES,
        )
    )
    if not found:
        raise DataError(f"no example of the {part} part has {MOST_TOKENS} tokens or fewer: give a text")
    say(f"{len(found)} examples of the {part} part")
    return found


def loss_on(
    loaded: AnyLoaded, examples: Sequence[Given], answer: str | None, say: Say
) -> tuple[Callable[[], float], str]:
    """Something that measures a model's loss: on these examples, or without any on the validation part; and its name.

    Of a text the loss per token, of a translation that of what is written, of an example that of its `answer`, or where
    nobody says it of the answer that the whole model gives.
    """
    model = loaded.model
    if examples and isinstance(loaded, LoadedMasked):
        raise Misuse("the loss of a masked model is that of tokens hidden in its validation part: give no text")
    if not examples:
        prepared = prepare_again(loaded.run, "" if isinstance(loaded, LoadedMasked) else A_TEXT)
        part = _held_part(prepared.task)
        say(f"the loss is that of the {part} part")

        def validate() -> float:
            with torch.no_grad():
                return prepared.task.evaluate(model, part, most=MOST_JUDGED).metrics["loss"]

        return validate, f"{part} loss ({prepared.task.unit})"
    with torch.no_grad():
        right = [_right(loaded, example, answer) for example in examples]

    def judge() -> float:
        with torch.no_grad():
            losses = [_loss(loaded, example, one) for example, one in zip(examples, right, strict=True)]
        return float(torch.stack(losses).mean())

    return judge, "loss on this text" if len(examples) == 1 else "loss on these texts"


def _right(loaded: AnyLoaded, example: Given, answer: str | None) -> Tensor:
    """The token that follows each, or the answer to the example."""
    if not isinstance(loaded, LoadedPredictor):
        return torch.tensor(example.answer_ids)
    if answer is not None:
        return learned_answer(loaded, answer)
    scores = loaded.model(*example.inputs).float().cpu()
    if isinstance(loaded.answers, Labels):
        return (scores > 0).float()
    return loaded.answers.probabilities(scores).argmax(-1) if isinstance(loaded.answers, Classes) else scores[:, 0]


def _loss(loaded: AnyLoaded, example: Given, right: Tensor) -> Tensor:
    scores = loaded.model(*example.inputs).float().cpu()
    if not isinstance(loaded, LoadedPredictor):
        return F.cross_entropy(scores[0, : len(right)], right)
    if isinstance(loaded.answers, Labels):
        return F.binary_cross_entropy_with_logits(scores, right)
    if isinstance(loaded.answers, Classes):
        return -loaded.answers.probabilities(scores)[0, right[0]].log()
    return (scores[0, 0] - right[0]).square()
