"""How good a trained model is."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from glassformer.config.errors import DataError, Misuse
from glassformer.config.say import Say, silent
from glassformer.config.sections import DataSettings
from glassformer.data.columns import choose_columns
from glassformer.data.labelled import Labelled, whole_table
from glassformer.data.part import Part, whole
from glassformer.data.source import open_source
from glassformer.data.store import Tokens, pack
from glassformer.data.survey import survey
from glassformer.data.table import read_table
from glassformer.runs.run import CARD, Run
from glassformer.tasks.answers import Classes
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling
from glassformer.verbs.load import Loaded, LoadedPredictor, LoadedWriter, load
from glassformer.verbs.prepare import divide, examples_of, labelling_task


def evaluate(
    run: "str | os.PathLike[str] | Run | LoadedWriter | LoadedPredictor",
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
    if data is None and reading:
        raise Misuse(f"--data.{next(iter(reading))} says how other data is read: name the DATA to evaluate on")
    loaded = run if isinstance(run, Loaded) else load(run, device)
    settings = replace(loaded.config.data, **(reading or {}))
    with torch.inference_mode():
        if isinstance(loaded, LoadedWriter):
            text = _part(loaded, part) if data is None else whole(survey(open_source(data, settings)), "given")
            assert isinstance(text, Part)
            return _of_text(loaded, text, stride, say)
        assert isinstance(loaded, LoadedPredictor)
        if stride is not None:
            raise Misuse("--stride is for language models, which read a text window by window")
        rows = _part(loaded, part) if data is None else _given(loaded, data, settings)
        assert isinstance(rows, Labelled)
        return _of_labels(loaded, rows, say)


def _of_text(loaded: LoadedWriter, part: Part, stride: int | None, say: Say) -> Evaluation:
    plural = "s" * (part.documents != 1)
    say(f"{part.name} part: {part.documents:,} document{plural}, {part.characters:,} characters")
    tokens = pack(part, loaded.tokenizer, say)
    say_unknown(tokens, say)
    context = loaded.model.context
    say(f"windows of {context} tokens, {stride or context} apart")
    task = LanguageModelling({part.name: tokens}, context=context, start=loaded.tokenizer.start)
    return task.evaluate(loaded.model, part.name, stride=stride)


def _of_labels(loaded: LoadedPredictor, part: Labelled, say: Say) -> Evaluation:
    say(f"{part.name} part: {len(part.texts):,} texts")
    examples = examples_of(part, loaded.answers, loaded.tokenizer, loaded.config)
    if examples.cut:
        context = loaded.config.model.context
        say(f"{examples.cut:,} of {len(examples):,} texts are longer than {context:,} tokens and cut there")
    return labelling_task(loaded.config, {part.name: examples}, loaded.answers).evaluate(loaded.model, part.name)


def _given(loaded: LoadedPredictor, data: str, settings: DataSettings) -> Labelled:
    table = read_table(data, settings)
    columns = choose_columns(table, settings, loaded.config.task)
    classes = loaded.answers.names if isinstance(loaded.answers, Classes) else None
    return whole_table(table, columns, "given", classes)


def _part(loaded: Loaded, part: str | None) -> Part | Labelled:
    """The part that the run did not train on, from the data it was trained on."""
    path = loaded.config.data.path
    if path is None:
        raise Misuse(f"{loaded.run.path} does not say what it was trained on: name the data to evaluate on")
    try:
        corpus = divide(loaded.config)
    except DataError as error:
        raise DataError(
            f"the data this run was trained on is not there ({error}): name the data to evaluate on"
        ) from None
    if corpus.fingerprint != loaded.run.card().get("data", {}).get("fingerprint"):
        raise DataError(
            f"{path} is not the text that this run was trained on ({CARD} has its fingerprint): "
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
