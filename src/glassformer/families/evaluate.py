"""How good a trained model is."""

from dataclasses import replace
from typing import Any

import torch

from glassformer.config.errors import DataError, Misuse, Say, silent
from glassformer.families.base import AnyRun, DataParts, EvaluatedPart, Loaded
from glassformer.families.load import loaded_run
from glassformer.families.prepare import split_data
from glassformer.families.requests import EvaluateOptions
from glassformer.runs.run import CARD


class OwnDataGone(DataError):
    """A run's own data is not there, or not what it was."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: name the data to evaluate on")
        self.why = why


def evaluate_run(run: AnyRun, options: EvaluateOptions, device: str = "auto", say: Say = silent) -> EvaluatedPart:
    """An evaluation with everything that belongs to it."""
    if options.other_data and options.part is not None:
        raise Misuse(f"--part {options.part} is a part of the run's own data: it does not go with other data")
    if options.reading and not options.other_data:
        raise Misuse(f"--data.{next(iter(options.reading))} says how other data is read: name the DATA to evaluate on")
    loaded = loaded_run(run, device)
    loaded.family.check_options(loaded, options)
    if options.other_data:
        return evaluate_part(loaded, loaded.family.whole_part(loaded, options), options, say)
    corpus, part = own_corpus(loaded), options.part
    name = part or ("test" if "test" in corpus.parts else "validation")
    if part is None and name not in corpus.parts and loaded.config.data.refit:
        raise Misuse(
            f"{loaded.run.path} has learned from all its rows (a refit) and has no held-out part of its own: name "
            "the DATA to evaluate on; its README has the scores from before the refit"
        )
    if name not in corpus.parts:
        raise Misuse(f"this run has no {name} part; it has {', '.join(corpus.parts)}")
    return replace(evaluate_part(loaded, corpus.parts[name], options, say), corpus=corpus)


def evaluate_part(loaded: Loaded, part: Any, options: EvaluateOptions, say: Say = silent) -> EvaluatedPart:
    """What a run makes of a part, its own or another's."""
    with torch.inference_mode():
        return loaded.family.evaluate_part(loaded, part, options, say)


def own_corpus(loaded: Loaded) -> DataParts:
    """The data that the run was trained on, divided as it was then."""
    path = loaded.config.data.path or loaded.config.data.source_file
    if path is None and "imported" in loaded.run.card():
        raise OwnDataGone(f"{loaded.run.path} was imported and has no held-out part of its own")
    if path is None:
        raise OwnDataGone(f"{loaded.run.path} does not say what it was trained on")
    try:
        corpus = split_data(loaded.config)
    except Misuse as error:
        raise OwnDataGone(f"the data this run was trained on is not there ({error})") from None
    if corpus.fingerprint != loaded.run.card().get("data", {}).get("fingerprint"):
        raise OwnDataGone(
            f"{path} is not the data that this run was trained on ({CARD} has its fingerprint), and what was held out "
            "cannot be told"
        )
    return corpus
