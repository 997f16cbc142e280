"""A trained model, ready for use."""

import os

from glassformer.config.errors import Misuse
from glassformer.families.base import FAMILIES, Loaded, OwnModel
from glassformer.families.build import build_model
from glassformer.runs.run import Run
from glassformer.training.device import choose_device


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
