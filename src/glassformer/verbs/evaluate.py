"""How good a trained model is."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from glassformer.config.errors import DataError, Misuse
from glassformer.config.presets import IMAGE, TEXT
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.config.sections import DataSettings
from glassformer.data.aligned import is_tmx
from glassformer.data.columns import choose_columns
from glassformer.data.image_features import ImageFeatures
from glassformer.data.labelled import Labelled, whole_table
from glassformer.data.looks import existing
from glassformer.data.part import Part, whole
from glassformer.data.pictured import whole_pictures
from glassformer.data.pictures import read_pictures
from glassformer.data.source import open_source
from glassformer.data.store import Tokens, pack
from glassformer.data.survey import survey
from glassformer.data.table import read_table
from glassformer.data.translations import Pairs, whole_pairs
from glassformer.decoding.translate import Search
from glassformer.runs.run import CARD, Run
from glassformer.tasks.answers import Classes
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling
from glassformer.verbs.examples import labelling_task, say_cut
from glassformer.verbs.load import AnyLoaded, Loaded, LoadedPredictor, LoadedTranslator, LoadedWriter, load
from glassformer.verbs.predict import as_learned, needed
from glassformer.verbs.prepare import (
    divide,
    pair_examples_of,
    pairs_of,
    say_too_long,
    translating_task,
)


def evaluate(
    run: "str | os.PathLike[str] | Run | AnyLoaded",
    data: str | None = None,
    *,
    part: str | None = None,
    stride: int | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    lowercase: bool = False,
    device: str = "auto",
    reading: Mapping[str, Any] | None = None,
    say: Say = silent,
) -> Evaluation:
    """A full pass over `data`, or without it over a part of the run's own: test if it has one, else validation.

    `stride` is for language models; `beam` (5), `length_penalty` (1) and `lowercase` (one more BLEU, of lower-cased
    texts) for translators. `reading`: data settings that differ from the run's, such as `{"encoding": "latin-1"}`.
    """
    reading = dict(reading or {})
    files = any(name in reading for name in ("source_file", "target_file"))
    other = data is not None or files
    if other and part is not None:
        raise Misuse(f"--part {part} is a part of the run's own data: it does not go with other data")
    if reading and not other:
        raise Misuse(f"--data.{next(iter(reading))} says how other data is read: name the DATA to evaluate on")
    loaded = run if isinstance(run, Loaded) else load(run, device)
    place = {"path": data, "source_file": None, "target_file": None} if other else {}
    settings = replace(loaded.config.data, **{**place, **reading})
    searching = {"beam": beam, "length_penalty": length_penalty}
    searching = {name: value for name, value in searching.items() if value is not None}
    if not isinstance(loaded, LoadedTranslator) and (searching or lowercase):
        raise Misuse("--beam, --length-penalty and --lowercase are for runs that translate")
    if not isinstance(loaded, LoadedTranslator) and files:
        raise Misuse("--source-file and --target-file are for runs that translate: name the DATA to evaluate on")
    if not isinstance(loaded, LoadedWriter) and stride is not None:
        raise Misuse("--stride is for language models, which read a text window by window")
    with torch.inference_mode():
        if isinstance(loaded, LoadedWriter):
            text = _part(loaded, part) if data is None else whole(survey(open_source(data, settings)), "given")
            assert isinstance(text, Part)
            return _of_text(loaded, text, stride, say)
        if isinstance(loaded, LoadedTranslator):
            if other and is_tmx(data or "") and not is_tmx(loaded.config.data.path or ""):  # no columns: languages
                settings = replace(settings, source=reading.get("source"), target=reading.get("target"))
            pairs = _given_pairs(settings) if other else _part(loaded, part)
            assert isinstance(pairs, Pairs)
            how = Search(**searching)  # type: ignore[arg-type]
            return _of_pairs(loaded, replace(loaded.config, data=settings), pairs, how, lowercase, say)
        assert isinstance(loaded, LoadedPredictor)
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
    examples = loaded.features.inputs(part, loaded.answers.learned(part.labels))
    say(f"{part.name} part: {len(part.texts):,} {examples.noun}s")
    say_cut({part.name: examples}, loaded.config.model.context, say)
    for remark in examples.remarks:
        say(remark)
    return labelling_task(loaded.config, {part.name: examples}, loaded.answers).evaluate(loaded.model, part.name)


def _of_pairs(
    loaded: LoadedTranslator, config: Config, part: Pairs, how: Search, lowercase: bool, say: Say
) -> Evaluation:
    """`config`: the run's, but for how these pairs are read."""
    say(f"{part.name} part: {len(part):,} pairs")
    examples = pair_examples_of(part, loaded.tokenizer, loaded.target_tokenizer, config)
    say_too_long({part.name: examples}, config.model.context, say)
    task = translating_task(config, {part.name: examples}, loaded.target_tokenizer)
    return task.evaluate(loaded.model, part.name, how=how, lowercase=lowercase)


def _given_pairs(settings: DataSettings) -> Pairs:
    return whole_pairs(*pairs_of(settings), "given")


def _given(loaded: LoadedPredictor, data: str, settings: DataSettings) -> Labelled:
    classes = loaded.answers.names if isinstance(loaded.answers, Classes) else None
    if loaded.config.data.kind == IMAGE:
        assert isinstance(loaded.features, ImageFeatures)
        return whole_pictures(read_pictures(data, loaded.features.size), "given", classes or ())
    table = read_table(data, settings)
    if loaded.config.data.kind == TEXT:
        columns = choose_columns(table, settings, loaded.config.task)
    else:  # the columns that it learned from, however they look here
        assert settings.label is not None
        columns = replace(
            needed(loaded.features, loaded.config, table),
            label=existing(table.name, settings.label, table.columns, "--label"),
        )
        settings = as_learned(loaded.features, settings)
    return whole_table(table, columns, "given", classes, settings)


def _part(loaded: Loaded, part: str | None) -> Part | Labelled | Pairs:
    """The part that the run did not train on, from the data it was trained on."""
    path = loaded.config.data.path or loaded.config.data.source_file
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
            f"{path} is not the data that this run was trained on ({CARD} has its fingerprint): "
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
