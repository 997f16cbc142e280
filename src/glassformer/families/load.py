"""Load a run: its model with the best weights."""

import os
from dataclasses import replace

import torch

from glassformer.config.arguments import check_arguments
from glassformer.config.encoders import OWN, is_own_model
from glassformer.config.errors import Misuse, RunError, is_overflow, refuse_unknown
from glassformer.config.messages import Say, say, say_or_warn, takes_listener
from glassformer.config.plugins import load_plugins, parts_of
from glassformer.config.presets import INFERENCE_PRECISIONS, TEXT
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, Loaded, OwnModel, Processor
from glassformer.families.build import build_model
from glassformer.models.weights import UndrawnWeights, lower_precision, refuse_misfit, shapes_alone
from glassformer.runs.run import CARD, Run
from glassformer.training.device import choose_device, cpu_has_bf16

MAX_UNCHECKED_LAYERS = 1000
"""Number of layers that can always be built quickly on the meta device."""


@check_arguments
@takes_listener
def load(
    run: "str | os.PathLike[str] | Run",
    device: str = "auto",
    *,
    model: OwnModel | None = None,
    precision: str = "fp32",
    verify: bool = True,
    say: Say = say,
) -> Loaded:
    """Load the best weights, the tokenizer and the settings of a run. Nothing outside the folder is needed.

    A run of a user's own module needs that module as `model`. `precision` is fp32, bf16, or int8 on a CPU; bf16 and
    int8 are for inference only. `verify`: check that weights, labels and settings have not changed since training.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    config, place = run.config(), choose_device(device)
    _check_precision(precision, place, config)
    family = FAMILIES[config.task]
    run.verify_card(verify=verify)
    processor = family.read_processor(run, config)
    for line in run.changed_parts():
        say_or_warn(line)
    if parts_of(config) or config.model.encoder == OWN:  # a user's code may need real numbers to build it
        built = build_model(config, processor, model)
    else:
        _refuse_other_sizes(run, config, processor)
        with UndrawnWeights():
            built = build_model(config, processor)
    run.load_weights(built, verify=verify)
    built.to(place).eval()
    if precision != "fp32":
        done = lower_precision(built, precision)
        say(f"{done}; what that costs: glassformer evaluate {run.path} --precision {precision}")
    return replace(family.loaded(built, processor, run, config), load_again=_load_again, precision=precision)


def _check_precision(precision: str, device: torch.device, config: Config) -> None:
    refuse_unknown("precision", precision, INFERENCE_PRECISIONS)
    if precision == "int8" and device.type != "cpu":
        raise Misuse("8 bits are for a CPU (--device cpu); a GPU is fast in bf16 (--precision bf16)")
    if precision == "bf16" and device.type == "cpu" and not cpu_has_bf16():
        raise Misuse("this CPU has no bf16 of its own, so that fp32 is faster here (--precision fp32, or int8)")
    if precision == "bf16" and config.data.kind != TEXT:
        raise Misuse("bf16 is for models that read text; this one also reads numbers or images (--precision fp32)")
    if precision != "fp32" and is_own_model(config.model.encoder):
        raise Misuse(f"precision {precision} is for models that are built here; this one is a person's own nn.Module")


def _refuse_other_sizes(run: Run, config: Config, processor: Processor) -> None:
    """Raise `RunError` if the card and the weights file disagree about the model, before memory is allocated."""
    shapes, file = run.weight_shapes(), str(run.weights_path)
    layers = max(config.model.layers, config.model.decoder_layers or 0)
    if layers > max(MAX_UNCHECKED_LAYERS, len(shapes)):
        raise RunError(f"{file} does not fit the model: it holds {len(shapes):,} weights, and no {layers:,} layers")
    try:
        with shapes_alone():
            built = build_model(config, processor)
    except Misuse as error:
        raise RunError(f"{run.path / CARD} is damaged: {error}") from None
    except (RuntimeError, OverflowError, TypeError) as error:
        if not is_overflow(error):  # a user's brick that cannot be built on the meta device
            return
        raise RunError(f"{run.path / CARD} is damaged: it asks for sizes that no model has") from None
    refuse_misfit(built, shapes, file)


def _load_again(path: str, device: str, own: OwnModel | None, precision: str = "fp32") -> Loaded:
    """Load a run in a process that may not have loaded the plugins yet."""
    load_plugins()
    return load(path, device, model=own, precision=precision)


def loaded_run(run: "str | os.PathLike[str] | Run | Loaded", device: str = "auto") -> Loaded:
    """Return a loaded run, which is loaded from its folder if necessary."""
    return run if isinstance(run, Loaded) else load(run, device)


def opened_run(run: "str | os.PathLike[str] | Run | Loaded") -> Run:
    """Return a run's folder, whether or not its model is loaded."""
    if isinstance(run, Loaded):
        return run.run
    return run if isinstance(run, Run) else Run.open(run)


def load_for(
    verb: str, run: "str | os.PathLike[str] | Run", device: str = "auto", *, precision: str = "fp32"
) -> Loaded:
    """Load a run for a command (generate, translate); raise `Misuse` if the run has another task."""
    folder = opened_run(run)
    refuse_other_verb(verb, folder)
    return load(folder, device, precision=precision)


def refuse_other_verb(verb: str, run: Run) -> None:
    """Raise `Misuse` if another command uses this run."""
    task = run.config().task
    if FAMILIES[task].verb != verb:
        what, instead = {"generate": "write"}.get(verb, verb), f"glassformer {FAMILIES[task].verb} {run.path} TEXT"
        raise Misuse(f"{run.path} learned {task}, not to {what}: {instead}")
