"""The data and the model of a configuration, or of a run that is there already; and the card that a run leaves."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from glassformer.bricks.own import make_part
from glassformer.config.arguments import check_arguments
from glassformer.config.encoders import OWN, is_own_model
from glassformer.config.errors import (
    DataError,
    GlassformerError,
    Misuse,
    RunError,
    Say,
    SettingError,
    error_line,
    is_overflow,
    refuse_unknown,
    silent,
    warn,
)
from glassformer.config.plugins import OwnPart, load_plugins, own_part, parts_of
from glassformer.config.presets import INFERENCE_PRECISIONS, TEXT, VERSION
from glassformer.config.resolve import BUDGETS, Config, flatten, resolve
from glassformer.data.io.place import short_name
from glassformer.families.base import FAMILIES, DataParts, Loaded, OwnModel, Prepared, Processor, tokenizers_of
from glassformer.families.recognition import PATHS
from glassformer.finetuning.sources import source_tokenizers
from glassformer.finetuning.weights import take_from_runs
from glassformer.models.build import learned_count, parameter_count, put_vectors, sized
from glassformer.models.modules import Predictor, device_of
from glassformer.models.precision import lower_precision
from glassformer.models.weights import UndrawnWeights, refuse_misfit, shapes_alone, with_current_names
from glassformer.runs.run import CARD, DONE, Run, environment, tokenizer_card
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vectors import read_vectors
from glassformer.training.checkpointer import Snapshot, restore
from glassformer.training.device import Precision, choose_device
from glassformer.training.schedule import total_steps

MANY_LAYERS = 1000
"""As many are built in no time, where they hold no numbers."""


class OtherData(DataError):
    """Data that is not what a run began with."""


def split_data(config: Config, rows: Any = None) -> DataParts:
    """The data and what is held out of it. `rows`: where it has been read already."""
    return FAMILIES[config.task].split_data(config, rows)


def prepare(config: Config, say: Say, run: Run | None = None, rows: Any = None) -> Prepared:
    """`run`: what began with this data, and has tokenizers for it. `rows`: where the data has been read already."""
    known = Processor() if run is None else tokenizers_of(run)
    if known.tokenizer is None and config.is_finetuned:
        tokenizer, target_tokenizer = source_tokenizers(config)
        known = Processor(tokenizer=tokenizer, target_tokenizer=target_tokenizer)
    corpus = split_data(config, rows)
    if run is not None and corpus.fingerprint != run.card().get("data", {}).get("fingerprint"):
        raise OtherData("the data is not what this run began with: going on would mix the two")
    say(f"data: {corpus.report()}")
    prepared = FAMILIES[config.task].prepare(config, corpus, known, say)
    prepared.task.validates = "validation" in corpus.parts
    return prepared


def prepare_again(run: Run, instead: str = "") -> Prepared:
    """The data that a run was trained on, as it was read then. `instead`: what to do where nobody knows it."""
    if "imported" in run.card():
        raise DataError(f"{run.path} was imported: what it was trained on is not known here{instead}")
    try:
        return prepare(run.config(), silent, run)
    except OtherData:
        raise
    except DataError as error:
        raise DataError(f"the data that this run was trained on is not there: {error}") from None


# --- tokens, as every family that reads texts makes them ---


def tokenizer_of_texts(texts: list[str], config: Config, say: Say, *, encoded_next: bool = False) -> Tokenizer:
    """Tokens of the training part alone: what is held out must be news to the tokenizer too."""
    size = sum(len(text.encode()) for text in texts)
    return Tokenizer.train(texts, config.tokenizer, say, total_bytes=size, encoded_next=encoded_next)


def say_tokens(tokenizer: Tokenizer, tokens: dict[str, int], unknown: dict[str, int], say: Say) -> None:
    counts = ", ".join(
        f"{count:,} {name}" + (f" ({unknown[name] / count:.2%} unknown)" if unknown[name] else "")
        for name, count in tokens.items()
    )
    say(f"tokens: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}; {counts}")


# --- the model ---


def build_model(config: Config, processor: Processor, own: OwnModel | None = None) -> nn.Module:
    """The model with its first weights. `own`: a person's own."""
    family, name = FAMILIES[config.task], config.model.encoder
    if (registered := own_part("model", name)) is not None:
        return family.own_model(config, processor, _maker(registered, config))
    if name != OWN:
        return family.build_model(config, processor)
    if own is None:
        raise RunError("this model is a person's own nn.Module, which a run does not hold: give it again, model=…")
    return family.own_model(config, processor, own)


def _maker(part: OwnPart, config: Config) -> OwnModel:
    """A registered model, as one that was given from Python is made."""
    reads = "vocab" if config.data.kind == TEXT else "shape"
    return lambda first, outputs: make_part(part, {reads: first, "outputs": outputs, "context": config.model.context})


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


def try_out(model: nn.Module, prepared: Prepared, name: str = "model=…") -> None:
    """A model with a person's own code on one example, before a run is begun or replaced."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise SettingError(f"{type(model).__name__} has no weights to learn")
    training = model.training
    tensors = prepared.task.batch(0).rows(0, 1).tensors(device_of(model))
    try:
        with torch.no_grad():
            prepared.task.loss(model.eval(), *tensors)
    except GlassformerError:
        raise
    except Exception as error:
        raise SettingError(f"{name} fails on the first example: {error_line(error)}") from error
    model.train(training)


def say_size(model: nn.Module, say: Say) -> None:
    """How large it is, and whether this machine can hold it: weights, and of what is learned gradients and two moments,
    4 bytes each.
    """
    count, learned = parameter_count(model), learned_count(model)
    needed = (4 * count + 12 * learned) / 2**30
    note = f": about {needed:.0f} GiB with gradients and the optimiser's memory" if needed >= 1 else ""
    say(f"model: {sized(count, learned)}{note}")


@check_arguments
def load(
    run: "str | os.PathLike[str] | Run",
    device: str = "auto",
    *,
    model: OwnModel | None = None,
    precision: str = "fp32",
    verify: bool = True,
    say: Say = silent,
) -> Loaded:
    """A run's best weights, its tokenizer and its settings; nothing outside the folder is needed.

    But for a run of a person's own `model`, which must be given again. `precision`: fp32, bf16, or on a CPU int8, for
    use and not for training. `verify`: whether weights and labels are still those that were trained.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    config, place = run.config(), choose_device(device)
    _check_precision(precision, place, config)
    family = FAMILIES[config.task]
    processor = family.read_processor(run, config)
    for line in run.changed_parts():
        (warn if say is silent else say)(line)
    if parts_of(config) or config.model.encoder == OWN:  # a person's own code may need numbers to be built
        built = build_model(config, processor, model)
    else:
        _refuse_other_sizes(run, config, processor)
        with UndrawnWeights():
            built = build_model(config, processor)
    run.load_weights(built, verify=verify, say=say)
    built.to(place).eval()
    if precision != "fp32":
        done = lower_precision(built, precision)
        say(f"{done}; what that costs: glassformer evaluate {run.path} --precision {precision}")
    return replace(family.loaded(built, processor, run, config), load_again=_load_again, precision=precision)


def _check_precision(precision: str, device: torch.device, config: Config) -> None:
    refuse_unknown("precision", precision, INFERENCE_PRECISIONS)
    if precision == "int8" and device.type != "cpu":
        raise Misuse("8 bits are for a CPU (--device cpu); a GPU is fast in bf16 (--precision bf16)")
    if Precision(precision, device).slow:
        raise Misuse("this CPU has no bf16 of its own, so that fp32 is faster here (--precision fp32, or int8)")
    if precision == "bf16" and config.data.kind != TEXT:
        raise Misuse("bf16 is for models that read text; this one also reads numbers or images (--precision fp32)")
    if precision != "fp32" and is_own_model(config.model.encoder):
        raise Misuse(f"precision {precision} is for models that are built here; this one is a person's own nn.Module")


def _refuse_other_sizes(run: Run, config: Config, processor: Processor) -> None:
    """Before memory is taken: refuse a card that asks for another model than the file of weights holds."""
    shapes, file = run.weight_shapes(), str(run.weights_path)
    layers = max(config.model.layers, config.model.decoder_layers or 0)
    if layers > max(MANY_LAYERS, len(shapes)):
        raise RunError(f"{file} does not fit the model: it holds {len(shapes):,} weights, and no {layers:,} layers")
    try:
        with shapes_alone():
            built = build_model(config, processor)
    except Misuse as error:
        raise RunError(f"{run.path / CARD} is damaged: {error}") from None
    except (RuntimeError, OverflowError, TypeError) as error:
        if not is_overflow(error):  # a model of one's own that cannot be built without numbers
            return
        raise RunError(f"{run.path / CARD} is damaged: it asks for sizes that no model has") from None
    refuse_misfit(built, with_current_names(shapes, built.state_dict().keys()), file)


def _load_again(path: str, device: str, own: OwnModel | None, precision: str = "fp32") -> Loaded:
    """A loaded model in a process that may know nothing yet of what others were registered."""
    load_plugins()
    return load(path, device, model=own, precision=precision)


def loaded_run(run: "str | os.PathLike[str] | Run | Loaded", device: str = "auto", say: Say = silent) -> Loaded:
    """A run, loaded unless it is already."""
    return run if isinstance(run, Loaded) else load(run, device, say=say)


def opened_run(run: "str | os.PathLike[str] | Run | Loaded") -> Run:
    """A run's folder, whether or not its model is loaded."""
    if isinstance(run, Loaded):
        return run.run
    return run if isinstance(run, Run) else Run.open(run)


def load_for(
    verb: str,
    run: "str | os.PathLike[str] | Run",
    device: str = "auto",
    say: Say = silent,
    *,
    precision: str = "fp32",
) -> Loaded:
    """A run that a verb (generate, translate) can use, or one line that says what this one does."""
    folder = opened_run(run)
    refuse_other_verb(verb, folder)
    return load(folder, device, precision=precision, say=say)


def refuse_other_verb(verb: str, run: Run) -> None:
    """One line that says what a run does, where that is something else."""
    task = run.config().task
    if FAMILIES[task].verb != verb:
        what, instead = {"generate": "write"}.get(verb, verb), f"glassformer {FAMILIES[task].verb} {run.path} TEXT"
        raise Misuse(f"{run.path} learned {task}, not to {what}: {instead}")


# --- the card ---

BEFORE = "before the refit, on rows held out"
"""How the scores that a refitted run tells are labelled: they are not its own."""


def run_card(
    config: Config, prepared: Prepared, model: nn.Module, command: str | None, source: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The card as it stands before the first step. `source`: what is to be said of the run it begins from."""
    return {
        "glassformer": VERSION,
        "status": "training",
        "task": config.task,
        "labels": None if prepared.answers is None else prepared.answers.to_json(),
        "parameters": parameter_count(model),
        "learned": learned_count(model),
        "steps_per_epoch": prepared.task.steps_per_epoch,
        **({} if source is None else {"from": source}),
        "data": {
            "name": short_name(config.data.path or config.data.source_file or ""),
            "fingerprint": prepared.corpus.fingerprint,
            "report": prepared.corpus.report(),
            "tokens": prepared.tokens,
        },
        "tokenizer": None if prepared.tokenizer is None else tokenizer_card(prepared.tokenizer),
        **({} if config.data.kind == TEXT or prepared.features is None else {"features": prepared.features.to_json()}),
        "target_tokenizer": None if prepared.target_tokenizer is None else tokenizer_card(prepared.target_tokenizer),
        "command": command,
        "environment": environment(),
        **({"bricks": [part.card() for part in parts]} if (parts := parts_of(config)) else {}),
        "config": config.to_dict(),
    }


def learned_of(card: Mapping[str, Any]) -> int:
    """How many of a run's parameters were trained: all, where its card says nothing else."""
    return int(card.get("learned", card["parameters"]))


def size_in_words(card: Mapping[str, Any]) -> str:
    """How large a run's model is, in words."""
    return sized(card["parameters"], learned_of(card))


def nothing_held_out(card: Mapping[str, Any]) -> bool:
    """Whether a run has learned from all its data."""
    return list(card["data"]["tokens"]) == ["train"]


def label_names(card: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """What a run tells apart, and what these are called: classes, or labels of which several may hold."""
    labels = card.get("labels")
    if isinstance(labels, list):
        return "classes", labels
    return ("labels", labels["labels"]) if isinstance(labels, dict) and "labels" in labels else None


# --- going on with a run ---


FIXED = ("training.optimizer", "training.loss", "training.last_blocks")
"""Of those of training: what the optimiser remembers is of these."""


def resumed_config(run: Run, flags: dict[str, Any], *, may_change: bool = True) -> Config:
    """The run's own settings; how to train may change, but not what the optimiser remembers. Unless it `may_change`,
    how long to train alone.

    So may the place of the data: that it is the same is told by its fingerprint.
    """
    if "imported" in run.card():
        raise Misuse(f"{run.path} was imported and never trained here: train DATA --from {run.path} starts from it")
    saved = run.config().to_dict()
    before = flatten(saved)
    free = {*PATHS, *BUDGETS, *(key for key in before if may_change and key.startswith("training."))} - {*FIXED}
    other = [key for key, value in flags.items() if key not in free and before.get(key) != value]
    if other:
        named = [key if len(other) > 1 else "it" for key in other]
        what = "; ".join(
            f"{name} was {before.get(key)!r}, not {flags[key]!r}" for name, key in zip(named, other, strict=True)
        )
        how = any(key.startswith("training.") and key not in FIXED for key in other)
        hint = f" (how to train may: --resume --out {run.path}, without DATA)" if how else ""
        raise SettingError(f"{', '.join(other)} cannot change when a run goes on: {what}{hint}")
    return resolve(saved, {key: value for key, value in flags.items() if before.get(key) != value})


def same_settings(one: Config, other: Config) -> bool:
    """Whether two runs' settings are the same, wherever their data lies."""
    first, second = (flatten(config.to_dict()) for config in (one, other))
    return all(first[key] == second[key] for key in first if key not in PATHS)


def snapshot_to_resume(
    run: Run, config: Config, prepared: Prepared, say: Say, *, same: bool = False
) -> Snapshot | None:
    """Where the run stands, if there is something left to do. `same`: nothing else was asked for, only its papers."""
    finished = run.card().get("status") in DONE
    found = run.newest_checkpoint(say)
    if found is None:
        if finished:
            raise Misuse(f"{run.path} had finished and has no checkpoint to go on from: --overwrite trains it anew")
        say("no checkpoint to go on from: starting again from the first step")
        return None
    snapshot = restore(*found)
    done, wanted = snapshot.progress.step, total_steps(config.training, prepared.task)
    if wanted is not None and (wanted < done or (finished and wanted == done and not same)):
        raise Misuse(f"{run.path} has made {done:,} updates, so {wanted:,} leave nothing to do: ask for more")
    _say_average(run.config().training.average, config.training.average, snapshot, say)
    return snapshot


def _say_average(before: int | None, span: int | None, snapshot: Snapshot, say: Say) -> None:
    """What becomes of the average of the weights, where it is not as it was."""
    if span is not None and not snapshot.average:
        say("training.average: the checkpoint holds no average yet, so it starts from the weights as they are")
    elif span is None and snapshot.average:
        say("training.average is unset: the checkpoint's average is dropped, and the weights are used as they are")
    elif span is not None and span != before:
        say(f"training.average: the average goes on, from here over about {span} updates")
