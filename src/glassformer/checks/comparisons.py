"""Checks within this process.

Scores must not depend on other examples in a batch, on capturing or on a cache. Weights, training runs and exports must
not change when they are written to files and read back.
"""

import contextlib
import copy
import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.checks.subject import Subject, relative_difference
from glassformer.config.messages import listening, silent
from glassformer.config.sections import TrainingSettings
from glassformer.data.wording import counted
from glassformer.exchange.exporting import exports_of
from glassformer.exchange.huggingface.export import is_huggingface, read_back
from glassformer.exchange.onnx.graph import OnnxModel, is_onnx
from glassformer.families.base import Family
from glassformer.families.language import LanguageFamily
from glassformer.families.load import load
from glassformer.families.translation import TranslationFamily
from glassformer.inspection.capture import capture
from glassformer.models.modules import LanguageModel, Seq2Seq
from glassformer.models.weights import take_weights
from glassformer.runs.run import CARD, Run
from glassformer.tasks.answers import Answers
from glassformer.training.checkpointer import Checkpointer, RunCheckpointer, Snapshot, restore
from glassformer.training.context import TrainerOptions
from glassformer.training.events import Event, Stepped
from glassformer.training.loop import Trainer
from glassformer.training.schedule import total_steps

BATCH_ROWS = 4
EXTRA_PADDING = 3
"""Number of padding columns after the longest row."""


@torch.inference_mode()
def check_batched(subject: Subject) -> Deviation:
    """Compare the scores of examples of equal length in a batch with their scores alone."""
    longest = sorted(subject.calls, key=subject.lengths, reverse=True)[:BATCH_ROWS]
    lengths = [min(several) for several in zip(*map(subject.lengths, longest), strict=True)]
    calls = [subject.truncate(call, lengths) for call in longest]
    of = f" of {counted(lengths[0], 'token')}" if lengths else ""
    return Deviation(
        relative_difference(subject.scores(calls), subject.batch_scores(subject.batch(calls), calls)),
        f"the scores of {len(calls)} examples{of}, together and alone",
    )


@torch.inference_mode()
def check_padded(subject: Subject) -> Deviation:
    """Compare the scores of examples of different lengths in a padded batch with their scores alone."""
    if not subject.token_places:
        raise DoesNotApply("its examples are all of one length")
    count = len(subject.calls)
    calls = [
        subject.truncate(call, [max(1, length * (count - number) // count) for length in subject.lengths(call)])
        for number, call in enumerate(subject.calls)
    ]
    lengths = [subject.lengths(call)[0] for call in calls]
    return Deviation(
        relative_difference(
            subject.scores(calls), subject.batch_scores(subject.batch(calls, more=EXTRA_PADDING), calls)
        ),
        f"the scores of {count} examples of {min(lengths)} to {max(lengths)} tokens, padded and alone",
    )


@torch.inference_mode()
def check_looked_at(subject: Subject) -> Deviation:
    """Compare the scores before, during and after a capture that reads every tensor."""
    before = subject.scores()
    with capture(subject.model) as seen:
        during = subject.scores()
        names = list(seen)
        for name in names:
            seen[name]
        again = subject.scores()
    after = subject.scores()
    difference = max(relative_difference(before, scores) for scores in (during, again, after))
    return Deviation(difference, f"scores before, under and after a capture of {len(names)} tensors")


# --- with a cache and without ---


@torch.inference_mode()
def check_cached(subject: Subject) -> Deviation:
    """Compare scores computed in pieces, with a cache, with the scores of whole examples."""
    return Deviation(cache_difference(subject.loaded.family, subject), "scores in pieces and of the whole")


@singledispatch
def cache_difference(family: Family, subject: Subject) -> float:
    """Return the largest difference that a cache makes, as a share of the largest number."""
    raise DoesNotApply("it reads an example as a whole and keeps nothing")


@cache_difference.register
def cache_difference_of_writer(family: LanguageFamily, subject: Subject) -> float:
    model: Any = subject.model
    if not model.encoder.causal:
        raise DoesNotApply("it was trained without its mask and reads the future: it cannot go token by token")
    texts = [call[0] for call in subject.calls]
    pieces = [_score_in_pieces(model, ids, model.init_state(1, ids.shape[1])) for ids in texts]
    return max(relative_difference(subject.scores(), pieces), _rows_of_text(subject, model))


@cache_difference.register
def cache_difference_of_translator(family: TranslationFamily, subject: Subject) -> float:
    model: Any = subject.model
    if not model.decoder.causal:
        raise DoesNotApply("its decoder was trained without its mask and reads the future")
    pieces = [
        _score_in_pieces(model, target, model.init_state(model.encode(source), target.shape[1]))
        for source, _, target, *_ in subject.calls
    ]
    return relative_difference(subject.scores(), pieces)


def _score_in_pieces(model: LanguageModel | Seq2Seq, tokens: Tensor, state: Any) -> Tensor:
    """Return the scores of tokens processed in pieces: the first half, two single tokens, and the rest."""
    length = tokens.shape[1]
    borders = sorted({0, length // 2, min(length, length // 2 + 1), min(length, length // 2 + 2), length})
    pieces = [model.extend(tokens[:, first:last], state) for first, last in pairwise(borders)]
    scores: Tensor = model.head(torch.cat(pieces, 1))[0]
    return scores


def _rows_of_text(subject: Subject, model: LanguageModel) -> float:
    """Return the difference for a batch of texts in one state: process all but the last tokens, then the last."""
    texts = [call for call in subject.calls if subject.lengths(call)[0] > 1]
    if not texts:
        return 0.0
    ids, mask = subject.batch([subject.truncate(text, [subject.lengths(text)[0] - 1]) for text in texts])
    state = model.init_state(len(texts), ids.shape[1] + 1)
    model.extend(ids, state, mask)
    last = torch.cat([text[0][:, -1:] for text in texts])
    cached = model.head(model.extend(last, state))[:, -1]
    return relative_difference([row[-1] for row in subject.scores(texts)], list(cached))


# --- through files ---

CHECKPOINT_STEP, STOP_STEP, LAST_STEP = 2, 3, 4
"""Update after which a checkpoint is written, training is interrupted, and training ends."""
MIN_TOTAL_STEPS = 1000
"""Minimum length of the training run in updates, so that no validation is due in the first updates."""

READERS: dict[str, tuple[Callable[[Path], bool], Callable[[Path, Answers | None], nn.Module]]] = {
    "onnxruntime": (is_onnx, lambda folder, answers: OnnxModel(folder)),
    "what was imported again": (is_huggingface, read_back),
}
"""Test whether a folder contains such an export, and function that returns its model, by program."""


@torch.inference_mode()
def check_saved(subject: Subject) -> Deviation:
    """Compare the scores of the model with those of a new model whose weights are read back from a file."""
    own = copy.deepcopy(subject.own_model) if isinstance(subject.own_model, nn.Module) else subject.own_model
    with tempfile.TemporaryDirectory() as folder:
        for name in (CARD, "tokenizer.json", "target_tokenizer.json"):
            if (subject.loaded.run.path / name).is_file():
                shutil.copy(subject.loaded.run.path / name, folder)
        run = Run(Path(folder))
        run.write_weights(take_weights(subject.model))
        again = load(run, str(subject.device), model=own, verify=False, say=silent).model
    return Deviation(
        relative_difference(subject.scores(), subject.scores(model=again)),
        "scores with weights as they are and read back",
    )


def check_resumed(subject: Subject) -> Deviation:
    """Compare a few uninterrupted updates from the run's weights with the same updates resumed after a stop."""
    if subject.prepared is None:
        raise DoesNotApply(subject.missing)
    settings = subject.loaded.config.training
    settings = replace(
        settings,
        steps=max(MIN_TOTAL_STEPS, total_steps(settings, subject.prepared.task) or 0),
        epochs=None,
        minutes=None,
        compile="off",
        checkpoint_every=CHECKPOINT_STEP,
        validate_every=None,
        keep_checkpoints=False,
    )
    straight = _train(subject, settings, LAST_STEP)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        _train(subject, settings, STOP_STEP, run)
        with listening(silent):
            checkpoint = run.newest_checkpoint()
        assert checkpoint is not None
        went_on = _train(subject, settings, LAST_STEP, run, restore(*checkpoint))
    if straight.keys() != went_on.keys():
        return Deviation(torch.inf, "the two trainings ended with other tensors")
    return Deviation(
        relative_difference(list(straight.values()), [went_on[name] for name in straight]),
        f"weights and the optimiser's memory after {LAST_STEP} updates, in one go and stopped after {STOP_STEP}",
    )


@torch.inference_mode()
def check_exported(subject: Subject) -> Deviation:
    """Compare the scores of the run with the scores of its exports, for examples alone and padded in a batch."""
    loaded, calls = subject.loaded, subject.calls
    folders = exports_of(loaded.run.path) if subject.export is None else [subject.export]
    if not folders:
        raise DoesNotApply("not exported")
    if not any(folder.is_dir() for folder in folders):
        raise DoesNotApply(f"not exported any more: {folders[-1]} is gone (--export: where it is now)")
    answers = loaded.family.read_processor(loaded.run, loaded.config).answers
    models = [
        (name, read(folder, answers))
        for folder, (name, (holds, read)) in itertools.product(folders, READERS.items())
        if holds(folder)
    ]
    if not models:
        raise DoesNotApply(f"nothing is known of how to read {folders[-1]}")
    batch = subject.batch(calls) if subject.token_places else None

    def scores(model: nn.Module | None = None) -> list[Tensor]:
        together = [] if batch is None else subject.batch_scores(batch, calls, model)
        return [*subject.scores(model=model), *together]

    difference = max(relative_difference(scores(), scores(model)) for _, model in models)
    together = ", alone and padded together" if batch is not None else ""
    names = ", ".join(dict.fromkeys(name for name, _ in models))
    return Deviation(difference, f"the scores of {len(calls)} examples{together}, here and by {names}")


# --- interrupted training ---


class _Stopped(Exception):
    pass


def _train(
    subject: Subject, settings: TrainingSettings, last: int, run: Run | None = None, snapshot: Snapshot | None = None
) -> dict[str, Tensor]:
    """Train until update `last`, stop without saving, and return the weights, optimiser state and average.

    `run`: run to store checkpoints in. `snapshot`: checkpoint to continue from.
    """
    assert subject.prepared is not None

    def stop(event: Event) -> None:
        if isinstance(event, Stepped) and event.step >= last:
            raise _Stopped

    trainer = Trainer(
        copy.deepcopy(subject.model),
        subject.prepared.task,
        settings,
        TrainerOptions(
            subject.device,
            checkpointer=Checkpointer() if run is None else RunCheckpointer(run, keep=1),
            listen=stop,
            resume=snapshot,
        ),
    )
    with contextlib.suppress(_Stopped):
        trainer.run()
    held = {
        "weights": take_weights(trainer.context.model),
        "optimiser": trainer.context.optimiser.state(),
        "average": trainer.context.average.state(),
    }
    return {f"{kind} {name}": value.clone() for kind, values in held.items() for name, value in values.items()}
