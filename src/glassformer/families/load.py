"""A configuration's model (one of ours by name, or a person's own), and that of a run, ready for use."""

import os
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import Misuse, RunError, Say, SettingError
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, Loaded, OwnModel, Prepared, Processor
from glassformer.finetuning.weights import take_from_runs
from glassformer.models.build import learned_count, parameter_count, put_vectors, sized
from glassformer.models.reader import Predictor
from glassformer.runs.run import Run
from glassformer.tasks.labelling import device_of
from glassformer.text.vectors import read_vectors
from glassformer.training.device import choose_device


def build_model(config: Config, processor: Processor, own: OwnModel | None = None) -> nn.Module:
    """The model with its first weights. `own`: a person's own."""
    family = FAMILIES[config.task]
    if config.model.encoder != OWN:
        return family.build_model(config, processor)
    if own is None:
        raise RunError("this model is a person's own nn.Module, which a run does not hold: give it again, model=…")
    return family.own_model(config, processor, own)


def learn_from_data(model: nn.Module, prepared: Prepared, config: Config, say: Say) -> dict[str, Any] | None:
    """What a model takes from elsewhere before the first step: a bag's word frequencies, words' vectors from a file,
    what another run has learned. Gives what a card says of that run.
    """
    FAMILIES[config.task].learn_from_data(model, prepared)
    if config.model.vectors is not None:
        assert isinstance(model, Predictor)
        assert prepared.tokenizer is not None
        words = {prepared.tokenizer.token(id): id for id in range(prepared.tokenizer.vocab_size)}
        ids, vectors = read_vectors(config.model.vectors, words)
        put_vectors(model, ids, vectors)
        say(f"vectors: {len(ids):,} of {len(words):,} words found in {config.model.vectors}")
    return take_from_runs(model, config, prepared.answers, say) if config.is_finetuned else None


def try_out(model: nn.Module, prepared: Prepared) -> None:
    """A person's own model on one example, before a run is begun or replaced."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise SettingError(f"{type(model).__name__} has no weights to learn")
    training = model.training
    with torch.no_grad():
        prepared.task.loss(model.eval(), *prepared.task.batch(0).rows(0, 1).tensors(device_of(model)))
    model.train(training)


def say_size(model: nn.Module, say: Say) -> None:
    """How large it is, and whether this machine can hold it: weights, and of what is learned gradients and two moments,
    4 bytes each.
    """
    count, learned = parameter_count(model), learned_count(model)
    needed = (4 * count + 12 * learned) / 2**30
    note = f": about {needed:.0f} GiB with gradients and the optimiser's memory" if needed >= 1 else ""
    say(f"model: {sized(count, learned)}{note}")


def load(run: "str | os.PathLike[str] | Run", device: str = "auto", *, model: OwnModel | None = None) -> Loaded:
    """A run's best weights, its tokenizer and its settings; nothing outside the folder is needed.

    But for a run of a person's own `model`, which must be given again.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    config = run.config()
    family = FAMILIES[config.task]
    processor = family.read_processor(run, config)
    built = build_model(config, processor, model)
    run.load_weights(built)
    built.to(choose_device(device)).eval()
    return family.loaded(built, processor, run, config)


def loaded_run(run: "str | os.PathLike[str] | Run | Loaded", device: str = "auto") -> Loaded:
    """A run, loaded unless it is already."""
    return run if isinstance(run, Loaded) else load(run, device)


def opened_run(run: "str | os.PathLike[str] | Run | Loaded") -> Run:
    """A run's folder, whether or not its model is loaded."""
    if isinstance(run, Loaded):
        return run.run
    return run if isinstance(run, Run) else Run.open(run)


def load_for(verb: str, run: "str | os.PathLike[str] | Run", device: str = "auto") -> Loaded:
    """A run that a verb (generate, translate) can use, or one line that says what this one does."""
    loaded = load(run, device)
    if loaded.family.verb != verb:
        what, instead = {"generate": "write"}.get(verb, verb), f"glassformer {loaded.family.verb} {run} TEXT"
        raise Misuse(f"{loaded.run.path} learned {loaded.config.task}, not to {what}: {instead}")
    return loaded
