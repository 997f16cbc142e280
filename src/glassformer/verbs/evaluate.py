"""How good a trained model is."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from glassformer.config.errors import DataError, Misuse
from glassformer.config.say import Say, silent
from glassformer.config.sections import DataSettings
from glassformer.data.part import Part, whole
from glassformer.data.source import open_source
from glassformer.data.split import split
from glassformer.data.store import Tokens, pack
from glassformer.data.survey import survey
from glassformer.runs.run import CARD, Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling
from glassformer.verbs.load import Loaded, load


def evaluate(
    run: "str | os.PathLike[str] | Run | Loaded",
    data: str | None = None,
    *,
    part: str | None = None,
    stride: int | None = None,
    device: str = "auto",
    reading: Mapping[str, Any] | None = None,
    say: Say = silent,
) -> Evaluation:
    """A full pass over `data`, or without it over a part of the run's own: test if it has one, else validation.

    `reading`: data settings that differ from the run's, such as `{"encoding": "latin-1"}`.
    """
    if data is not None and part is not None:
        raise Misuse(f"--part {part} is a part of the run's own data: it does not go with other data")
    loaded = run if isinstance(run, Loaded) else load(run, device)
    settings = replace(loaded.config.data, **(reading or {}))
    chosen = held_out(loaded, part) if data is None else given(data, settings)
    plural = "s" * (chosen.documents != 1)
    say(f"{chosen.name} part: {chosen.documents:,} document{plural}, {chosen.characters:,} characters")
    tokens = pack(chosen, loaded.tokenizer, say)
    say_unknown(tokens, say)
    context = loaded.model.context
    say(f"windows of {context} tokens, {stride or context} apart")
    task = LanguageModelling({chosen.name: tokens}, context=context, start=loaded.tokenizer.start)
    with torch.inference_mode():
        return task.evaluate(loaded.model, chosen.name, stride=stride)


def given(data: str, settings: DataSettings) -> Part:
    return whole(survey(open_source(data, settings)), "given")


def held_out(loaded: Loaded, part: str | None) -> Part:
    """The part that the run did not train on, from the data it was trained on."""
    settings = loaded.config.data
    if settings.path is None:
        raise Misuse(f"{loaded.run.path} does not say what it was trained on: name the data to evaluate on")
    try:
        corpus = split(open_source(settings.path, settings), settings)
    except DataError as error:
        raise DataError(
            f"the data this run was trained on is not there ({error}): name the data to evaluate on"
        ) from None
    if corpus.fingerprint != loaded.run.card().get("data", {}).get("fingerprint"):
        raise DataError(
            f"{settings.path} is not the text that this run was trained on ({CARD} has its fingerprint): "
            "what was held out cannot be told; name the data to evaluate on"
        )
    name = part or ("test" if "test" in corpus.parts else "validation")
    if name not in corpus.parts:
        raise Misuse(f"this run has no {name} part; it has {', '.join(corpus.parts)}")
    return corpus.parts[name]


def say_unknown(tokens: Tokens, say: Say) -> None:
    if tokens.unknown:
        say(
            f"{tokens.unknown:,} of {len(tokens.ids):,} tokens ({tokens.unknown / len(tokens.ids):.2%}) are unknown to "
            "the tokenizer: they are easy to predict and make the loss look better than it is"
        )
