"""How good a trained model is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from glassformer.config.errors import DataError, Misuse
from glassformer.config.presets import IMAGE, TEXT, label_kind_of
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import choose_columns
from glassformer.data.columns.label_sets import label_columns
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.pairs import PairExamples
from glassformer.data.io.aligned import is_tmx
from glassformer.data.io.pictures import read_pictures
from glassformer.data.io.source import open_source
from glassformer.data.io.survey import survey
from glassformer.data.io.table import read_table
from glassformer.data.packing.store import Tokens, pack
from glassformer.data.split.documents import TextCorpus
from glassformer.data.split.labelled import Labelled, LabelledCorpus, whole_table
from glassformer.data.split.pairs import PairCorpus, Pairs, whole_pairs
from glassformer.data.split.part import Part, whole
from glassformer.data.split.pictures import whole_pictures
from glassformer.decoding.translate import Search
from glassformer.families.examples import labelling_task, say_cut
from glassformer.families.load import (
    AnyLoaded,
    Loaded,
    LoadedMasked,
    LoadedPredictor,
    LoadedTranslator,
    LoadedVectors,
    LoadedWriter,
    load,
)
from glassformer.families.pairs import pair_examples_of, pairs_of, say_too_long, translating_task
from glassformer.families.predict import as_learned, needed
from glassformer.families.prepare import divide
from glassformer.families.streams import stream_task
from glassformer.runs.run import CARD, Run
from glassformer.tasks.answers import Classes, Labels
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling

AnyRun = str | os.PathLike[str] | Run | AnyLoaded
"""A run's folder, or what was made of it already."""


class OwnDataGone(DataError):
    """A run's own data is not there, or not what it was."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: name the data to evaluate on")
        self.why = why


def evaluate(
    run: AnyRun,
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
    asked = Asked(
        data=data,
        part=part,
        stride=stride,
        beam=beam,
        length_penalty=length_penalty,
        lowercase=lowercase,
        reading=dict(reading or {}),
    )
    return judged(run, asked, device, say).evaluation


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What to evaluate on, and how."""

    data: str | None = None
    part: str | None = None
    stride: int | None = None
    beam: int | None = None
    length_penalty: float | None = None
    lowercase: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def other(self) -> bool:
        """Whether it is data that the run may not know."""
        return self.data is not None or self.files

    @property
    def files(self) -> bool:
        return any(name in self.reading for name in ("source_file", "target_file"))

    def settings(self, loaded: Loaded) -> DataSettings:
        """How the data is read: as the run's was, but for what is said."""
        if not self.other:
            return loaded.config.data
        place = {"path": self.data, "source_file": None, "target_file": None}
        settings = replace(loaded.config.data, **{**place, **self.reading})
        if is_tmx(self.data or "") and not is_tmx(loaded.config.data.path or ""):  # no columns: languages
            return replace(settings, source=self.reading.get("source"), target=self.reading.get("target"))
        return settings


@dataclass(frozen=True, eq=False)
class Judged:
    """An evaluation, and what it is of."""

    loaded: AnyLoaded
    part: Part | Labelled | Pairs
    inputs: Tokens | Inputs | PairExamples
    """That part, as the model reads it."""
    evaluation: Evaluation
    corpus: TextCorpus | LabelledCorpus | PairCorpus | None = None
    """The run's own data, if the part is one of it."""


def judged(run: AnyRun, asked: Asked, device: str = "auto", say: Say = silent) -> Judged:
    """An evaluation with everything that belongs to it."""
    if asked.other and asked.part is not None:
        raise Misuse(f"--part {asked.part} is a part of the run's own data: it does not go with other data")
    if asked.reading and not asked.other:
        raise Misuse(f"--data.{next(iter(asked.reading))} says how other data is read: name the DATA to evaluate on")
    loaded = run if isinstance(run, Loaded) else load(run, device)
    _check(loaded, asked)
    corpus, part = None, asked.part
    if asked.other:
        chosen = given_part(loaded, asked)
    else:
        corpus = own_corpus(loaded)
        name = part or ("test" if "test" in corpus.parts else "validation")
        if part is None and name not in corpus.parts and loaded.config.data.refit:
            raise Misuse(
                f"{loaded.run.path} has learned from all its rows (a refit) and has no held-out part of its own: name "
                "the DATA to evaluate on; its README has the scores from before the refit"
            )
        if name not in corpus.parts:
            raise Misuse(f"this run has no {name} part; it has {', '.join(corpus.parts)}")
        chosen = corpus.parts[name]
    return replace(judge(loaded, chosen, asked, say), corpus=corpus)


def _check(loaded: Loaded, asked: Asked) -> None:
    """Refuse what a run of this task cannot be asked."""
    if isinstance(loaded, LoadedVectors):
        raise Misuse(
            f"{loaded.run.path} gives a vector for each text, and there is no right one to compare it with: "
            f"glassformer embed {loaded.run.path} TEXT"
        )
    searched = asked.lowercase or asked.beam is not None or asked.length_penalty is not None
    if not isinstance(loaded, LoadedTranslator) and searched:
        raise Misuse("--beam, --length-penalty and --lowercase are for runs that translate")
    if not isinstance(loaded, LoadedTranslator) and asked.files:
        raise Misuse("--source-file and --target-file are for runs that translate: name the DATA to evaluate on")
    if not isinstance(loaded, LoadedWriter) and asked.stride is not None:
        raise Misuse("--stride is for language models that write: each token of theirs sees only what stands before it")


def judge(loaded: Loaded, part: Part | Labelled | Pairs, asked: Asked, say: Say = silent) -> Judged:
    """What a run makes of a part, its own or another's."""
    with torch.inference_mode():
        if isinstance(loaded, LoadedWriter | LoadedMasked):
            assert isinstance(part, Part)
            return _of_text(loaded, part, asked.stride, say)
        if isinstance(loaded, LoadedTranslator):
            assert isinstance(part, Pairs)
            searching = {"beam": asked.beam, "length_penalty": asked.length_penalty}
            how = Search(**{name: value for name, value in searching.items() if value is not None})  # type: ignore[arg-type]
            config = replace(loaded.config, data=asked.settings(loaded))
            return _of_pairs(loaded, config, part, how, asked.lowercase, say)
        assert isinstance(loaded, LoadedPredictor)
        assert isinstance(part, Labelled)
        return _of_labels(loaded, part, say)


def given_part(loaded: Loaded, asked: Asked) -> Part | Labelled | Pairs:
    """All of the data that was named."""
    settings = asked.settings(loaded)
    if isinstance(loaded, LoadedTranslator):
        return whole_pairs(*pairs_of(settings), "given")
    assert asked.data is not None
    if isinstance(loaded, LoadedWriter | LoadedMasked):
        return whole(survey(open_source(asked.data, settings)), "given")
    assert isinstance(loaded, LoadedPredictor)
    return _given(loaded, asked.data, settings)


def _of_text(loaded: LoadedWriter | LoadedMasked, part: Part, stride: int | None, say: Say) -> Judged:
    plural = "s" * (part.documents != 1)
    say(f"{part.name} part: {part.documents:,} document{plural}, {part.characters:,} characters")
    tokens = pack(part, loaded.tokenizer, say)
    say_unknown(tokens, say)
    context = loaded.model.context
    say(f"windows of {context} tokens, {stride or context} apart")
    task = stream_task(loaded.config, {part.name: tokens}, loaded.tokenizer, context=context)
    if isinstance(task, LanguageModelling):
        return Judged(loaded, part, tokens, task.evaluate(loaded.model, part.name, stride=stride))
    return Judged(loaded, part, tokens, task.evaluate(loaded.model, part.name))


def _of_labels(loaded: LoadedPredictor, part: Labelled, say: Say) -> Judged:
    examples = loaded.features.inputs(part, loaded.answers.learned(part.labels))
    say(f"{part.name} part: {len(part.texts):,} {examples.noun}s")
    say_cut({part.name: examples}, loaded.config.model.context, say)
    for remark in examples.remarks:
        say(remark)
    task = labelling_task(loaded.config, {part.name: examples}, loaded.answers)
    return Judged(loaded, part, examples, task.evaluate(loaded.model, part.name))


def _of_pairs(loaded: LoadedTranslator, config: Config, part: Pairs, how: Search, lowercase: bool, say: Say) -> Judged:
    """`config`: the run's, but for how these pairs are read."""
    say(f"{part.name} part: {len(part):,} pairs")
    examples = pair_examples_of(part, loaded.tokenizer, loaded.target_tokenizer, config)
    say_too_long({part.name: examples}, config.model.context, say)
    task = translating_task(config, {part.name: examples}, loaded.target_tokenizer)
    return Judged(loaded, part, examples, task.evaluate(loaded.model, part.name, how=how, lowercase=lowercase))


def _given(loaded: LoadedPredictor, data: str, settings: DataSettings) -> Labelled:
    classes = loaded.answers.names if isinstance(loaded.answers, Classes | Labels) else None
    if loaded.config.data.kind == IMAGE:
        assert isinstance(loaded.features, ImageFeatures)
        return whole_pictures(read_pictures(data, loaded.features.size), "given", classes or ())
    table = read_table(data, settings)
    if loaded.config.data.kind == TEXT:
        columns = choose_columns(table, settings, label_kind_of(loaded.config.task))
    else:  # the columns that it learned from, however they look here
        assert settings.label is not None
        columns = replace(
            needed(loaded.features, loaded.config, table),
            label=",".join(label_columns(table.name, settings.label, table.columns)),
            separator=settings.label_separator,
        )
        settings = as_learned(loaded.features, settings)
    return whole_table(table, columns, "given", classes, settings)


def own_corpus(loaded: Loaded) -> TextCorpus | LabelledCorpus | PairCorpus:
    """The data that the run was trained on, divided as it was then."""
    path = loaded.config.data.path or loaded.config.data.source_file
    if path is None and "imported" in loaded.run.card():
        raise OwnDataGone(f"{loaded.run.path} was imported and has no held-out part of its own")
    if path is None:
        raise OwnDataGone(f"{loaded.run.path} does not say what it was trained on")
    try:
        corpus = divide(loaded.config)
    except Misuse as error:
        raise OwnDataGone(f"the data this run was trained on is not there ({error})") from None
    if corpus.fingerprint != loaded.run.card().get("data", {}).get("fingerprint"):
        raise OwnDataGone(
            f"{path} is not the data that this run was trained on ({CARD} has its fingerprint), and what was held out "
            "cannot be told"
        )
    return corpus


def say_unknown(tokens: Tokens, say: Say) -> None:
    if tokens.unknown:
        say(
            f"{tokens.unknown:,} of {len(tokens.ids):,} tokens ({tokens.unknown / len(tokens.ids):.2%}) are unknown to "
            "the tokenizer: they are easy to predict and make the loss look better than it is"
        )
