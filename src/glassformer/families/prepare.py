"""From settings to everything a training needs: text divided, tokens counted, a task."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from glassformer.config.encoders import encoder_info
from glassformer.config.errors import DataError, SettingError
from glassformer.config.presets import (
    CLASSIFICATION,
    IMAGE,
    LABELLING,
    MASKED,
    PACKED,
    TABLE,
    TASK_OF_LABELS,
    TEXT,
    TRANSLATION,
    VECTORS,
    label_kind_of,
)
from glassformer.config.resolve import BUDGETS, Config, flatten, resolve, that_writes, with_epochs
from glassformer.config.say import Say
from glassformer.config.sections import DataSettings, ModelSettings
from glassformer.data.columns.inference import SAMPLE, Columns, choose_columns, may_hold_labels
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.datasets.hub import own_parts
from glassformer.data.features.build import learn_features
from glassformer.data.features.inputs import Features
from glassformer.data.io.pictures import Pictures, holds_pictures, read_pictures
from glassformer.data.io.place import find
from glassformer.data.io.source import open_source
from glassformer.data.io.table import Table, holds_table, read_table
from glassformer.data.packing.store import pack
from glassformer.data.split.documents import TextCorpus, split_texts
from glassformer.data.split.labelled import LabelledCorpus, split_table
from glassformer.data.split.pairs import PairCorpus, split_pairs
from glassformer.data.split.part import Part
from glassformer.data.split.pictures import COLUMNS as PICTURE_COLUMNS
from glassformer.data.split.pictures import split_pictures
from glassformer.families.examples import agreed, answers_of, labelling_task, only_classes, say_cut, say_read, words_in
from glassformer.families.pairs import (
    NO_DATA,
    find_pairs,
    is_read_apart,
    pair_examples_of,
    pairs_of,
    say_too_long,
    translating_task,
)
from glassformer.families.streams import able_to_hide, able_to_part, stream_task
from glassformer.finetuning.begin import Beginning, tokens_of
from glassformer.tasks.answers import Answers
from glassformer.tasks.base import Task
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prepared:
    corpus: TextCorpus | LabelledCorpus | PairCorpus
    tokenizer: Tokenizer | None
    """None where there are no words."""
    tokens: dict[str, int]
    """Of each part."""
    task: Task
    answers: Answers | None = None
    """What is said of an example; None where texts are written."""
    target_tokenizer: Tokenizer | None = None
    """That of the targets, where a translation has one for each side."""
    features: Features | None = None
    """How an example becomes what is read, where something is said of it."""


# --- what the data is for ---


def settle(file: Mapping[str, Any], flags: Mapping[str, Any], say: Say) -> tuple[Config, Table | Pictures | None]:
    """The whole configuration: what the settings leave open, what the data looks like decides.

    Gives the table or the pictures too, where they had to be read.
    """
    said = {**flatten(file), **flatten(flags)}
    task = said.get("task")
    path = said.get("data.path")
    if task == VECTORS:
        raise SettingError(
            "--task vectors is nothing to train: it is what some imported models do (glassformer import SOURCE); with "
            "--from such a run, train another task"
        )
    if path is not None and is_hub(path) and find(path) is None:
        file = {**flatten(file), **own_parts(path, said, say)}
        said = {**file, **flatten(flags)}
    reading = {key.removeprefix("data."): value for key, value in said.items() if key.startswith("data.")}
    settings = DataSettings(**reading)
    begun = Beginning.of(said)

    def whole(found: Mapping[str, Any], starts: Mapping[str, Any] | None = None, rows: int | None = None) -> Config:
        if begun is None:
            return resolve(file, flags, found, starts=starts)
        more = begun.found(task or found["task"], rows)
        return begun.settled(resolve(file, flags, {**found, **more}, starts=starts))

    if path is not None and task not in PACKED and holds_pictures(path):
        if begun is not None:
            raise SettingError(f"{begun.sources.first} reads texts, and {path} holds pictures: leave --from away")
        return _settle_pictures(file, flags, settings, task, say)
    if (pairs := find_pairs(settings, task)) is not None:
        table, source, target = pairs
        say(f"columns: from '{source}' to '{target}' (--source, --target); task: {TRANSLATION} (--task)")
        named = {} if is_read_apart(settings) else {"data.source": source, "data.target": target}
        return that_writes(whole({"task": TRANSLATION, **named}, _starts(path))), table
    if path is None or task in PACKED or not holds_table(path):
        if task in LABELLING and path is not None:
            raise DataError(
                f"{path} is not a table: {task} needs a text and a label column (.csv, .tsv, .jsonl, .parquet)"
            )
        return that_writes(whole({"task": task or (None if begun is None else begun.task)}, _starts(path))), None
    table = read_table(path, settings, most=SAMPLE)  # a corpus may be too large to hold
    if task is not None or may_hold_labels(table, settings):
        table = read_table(path, settings)
    columns = _columns(table, settings, task, said)
    say(f"columns: {columns.why}")
    agreed(said.get("data.kind"), columns, table.name)
    found = {"task": TASK_OF_LABELS[columns.label_kind], "data.text": columns.text, "data.label": columns.label}
    found["data.kind"] = columns.kind
    found |= {"data.also": ",".join(columns.also) or None, "data.label_separator": columns.separator}
    if begun is not None and columns.label_kind is None:
        found["task"] = begun.task
    config = whole(found, rows=len(table))
    if config.task in PACKED:
        return that_writes(config), None
    if begun is None and all(said.get(budget) is None for budget in BUDGETS):
        config = with_epochs(config, len(table))
    return config, table


def _starts(path: str | None) -> Mapping[str, Any]:
    """Where settings start for an embedded data set."""
    return {} if path is None or find(path) is not None else open_dataset(path).settings


def _settle_pictures(
    file: Mapping[str, Any], flags: Mapping[str, Any], settings: DataSettings, task: str | None, say: Say
) -> tuple[Config, Pictures]:
    assert settings.path is not None
    only_classes(settings.path, task)
    pictures = read_pictures(settings.path, settings.size_of_images())
    classes = len(set(pictures.labels))
    say(f"pictures of {classes:,} classes; task: {CLASSIFICATION} (--task)")
    config = resolve(file, flags, {"task": CLASSIFICATION, "data.kind": IMAGE})
    said = {**flatten(file), **flatten(flags)}
    agreed(said.get("data.kind"), PICTURE_COLUMNS, pictures.name)
    if all(said.get(budget) is None for budget in BUDGETS):
        config = with_epochs(config, len(pictures))
    return config, pictures


def _columns(table: Table, settings: DataSettings, task: str | None, said: Mapping[str, Any]) -> Columns:
    """What each column is for; a model that reads no texts takes a table for its other columns, if it has any."""
    reads = encoder_info(said.get("model.encoder", ModelSettings.encoder)).reads
    if TABLE in reads and TEXT not in reads and "data.kind" not in said:
        with contextlib.suppress(DataError):
            return choose_columns(table, replace(settings, kind=TABLE), label_kind_of(task))
    return choose_columns(table, settings, label_kind_of(task))


def divide(config: Config, table: Table | Pictures | None = None) -> TextCorpus | LabelledCorpus | PairCorpus:
    """The data and what is held out of it. `table`: where it has been read already."""
    data = config.data
    if config.task == CLASSIFICATION and data.kind == IMAGE and data.path is not None:
        return split_pictures(table if isinstance(table, Pictures) else _pictures(data), data)
    assert not isinstance(table, Pictures)
    if config.task == TRANSLATION:
        return split_pairs(*pairs_of(data, table), data)
    if data.path is None:
        raise SettingError(NO_DATA)
    if config.task in PACKED:
        return split_texts(open_source(data.path, data), data)
    table = table or read_table(data.path, data)
    return split_table(table, choose_columns(table, data, label_kind_of(config.task)), data)


def _pictures(data: DataSettings) -> Pictures:
    assert data.path is not None
    return read_pictures(data.path, data.size_of_images())


# --- what it becomes ---


def prepare(
    config: Config,
    say: Say,
    tokenizer: Tokenizer | None = None,
    table: Table | Pictures | None = None,
    target_tokenizer: Tokenizer | None = None,
) -> Prepared:
    """`tokenizer`: the one to use, instead of training one."""
    if tokenizer is None and config.begun:
        tokenizer, target_tokenizer = tokens_of(config)
    corpus = divide(config, table)
    say(f"data: {corpus.report()}")
    held_out_for_validation(corpus, config)
    if isinstance(corpus, TextCorpus):
        tokenizer = tokenizer or train_tokenizer(corpus.parts["train"], config, say)
        prepared = _for_language(config, corpus, tokenizer, say)
    elif isinstance(corpus, PairCorpus):
        prepared = _for_translation(config, corpus, tokenizer, target_tokenizer, say)
    else:
        if tokenizer is None and corpus.columns.text is not None:
            tokenizer = _tokenizer_of(corpus.parts["train"].texts, config, say, encoded_next=True)
        prepared = _for_labels(config, corpus, tokenizer, say)
    prepared.task.validates = "validation" in corpus.parts
    return prepared


def held_out_for_validation(corpus: TextCorpus | LabelledCorpus | PairCorpus, config: Config) -> None:
    """Refuse a training that nothing would tell how good it is."""
    if "validation" not in corpus.parts and not config.data.refit:
        raise SettingError("nothing is held out: set data.validation_fraction above 0, or give --validation FILE")


def train_tokenizer(part: Part, config: Config, say: Say) -> Tokenizer:
    """Tokens of the training part alone: what is held out must be news to the tokenizer too."""
    texts = (chunk.text for chunk in part.chunks())
    return Tokenizer.train(texts, config.tokenizer, say, total_bytes=part.bytes, mask=config.task == MASKED)


def _for_language(config: Config, corpus: TextCorpus, tokenizer: Tokenizer, say: Say) -> Prepared:
    if config.task == MASKED:
        able_to_hide(config, tokenizer)
    able_to_part(config, tokenizer)
    parts = {name: pack(part, tokenizer, say) for name, part in corpus.parts.items()}
    counts = {name: len(tokens.ids) for name, tokens in parts.items()}
    _say_tokens(tokenizer, counts, {name: tokens.unknown for name, tokens in parts.items()}, say)
    if tokenizer.vocab_size <= len(tokenizer.specials) + 1:
        raise DataError("there is only one token to learn: the text repeats a single one")
    return Prepared(corpus, tokenizer, counts, stream_task(config, parts, tokenizer))


def _for_labels(config: Config, corpus: LabelledCorpus, tokenizer: Tokenizer | None, say: Say) -> Prepared:
    answers = answers_of(corpus, config.training.loss)
    features = learn_features(config, corpus.parts["train"], tokenizer)
    parts = {name: features.inputs(part, answers.learned(part.labels)) for name, part in corpus.parts.items()}
    counts = {name: int(part.lengths.sum()) for name, part in parts.items()}
    if config.data.kind != TEXT:
        say_read(features, parts, say)
    if tokenizer is not None:
        texts = {name: words for name, part in parts.items() if (words := words_in(part)) is not None}
        tokens = {name: len(part.ids) for name, part in texts.items()}
        unknown = {name: part.unknown for name, part in texts.items()}
        _say_tokens(tokenizer, tokens, unknown, say)
        say_cut(parts, config.model.context, say, " (--model.context)")
    task = labelling_task(config, parts, answers)
    return Prepared(corpus, tokenizer, counts, task, answers, features=features)


def _for_translation(
    config: Config, corpus: PairCorpus, tokenizer: Tokenizer | None, target_tokenizer: Tokenizer | None, say: Say
) -> Prepared:
    train = corpus.parts["train"]
    if tokenizer is None and config.tokenizer.shared:
        tokenizer = _tokenizer_of([*train.sources, *train.targets], config, say)
    elif tokenizer is None:
        tokenizer = _tokenizer_of(train.sources, config, say)
        target_tokenizer = _tokenizer_of(train.targets, config, say)
    sides = (tokenizer, target_tokenizer or tokenizer)
    for side in sides:
        lacking = [name for name, ids in (("START", side.roles.opening), ("END", side.roles.closing)) if not ids]
        if lacking:
            where = config.model.from_run or config.model.decoder_from or f"tokenizer.file {config.tokenizer.file}"
            raise SettingError(
                f"{where} puts no {' and no '.join(lacking)} around a text, which translation needs: begin with tokens "
                "that have both, such as BERT's, Marian's, or those of a run trained here"
            )
    parts = {name: pair_examples_of(part, *sides, config) for name, part in corpus.parts.items()}
    counts = {name: len(part.source.ids) + len(part.target.ids) for name, part in parts.items()}
    if target_tokenizer is not None:
        say(f"tokens of the targets: {target_tokenizer.kind}, vocabulary of {target_tokenizer.vocab_size:,}")
    _say_tokens(tokenizer, counts, {name: sum(part.unknown) for name, part in parts.items()}, say)
    say_too_long(parts, config.model.context, say)
    if not len(parts["train"].sources):
        raise DataError("no pair is left to train on: raise --model.context, or --data.too_long cut")
    task = translating_task(config, parts, sides[1])
    return Prepared(corpus, tokenizer, counts, task, target_tokenizer=target_tokenizer)


def _tokenizer_of(texts: list[str], config: Config, say: Say, *, encoded_next: bool = False) -> Tokenizer:
    size = sum(len(text.encode()) for text in texts)
    return Tokenizer.train(texts, config.tokenizer, say, total_bytes=size, encoded_next=encoded_next)


def _say_tokens(tokenizer: Tokenizer, tokens: dict[str, int], unknown: dict[str, int], say: Say) -> None:
    counts = ", ".join(
        f"{count:,} {name}" + (f" ({unknown[name] / count:.2%} unknown)" if unknown[name] else "")
        for name, count in tokens.items()
    )
    say(f"tokens: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}; {counts}")
