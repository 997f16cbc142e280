"""From settings to everything a training needs: text divided, tokens counted, a task."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.config.errors import DataError, SettingError
from glassformer.config.presets import LABELLING, LANGUAGE_MODEL
from glassformer.config.resolve import BUDGETS, Config, flatten, resolve, with_epochs
from glassformer.config.say import Say
from glassformer.config.sections import DataSettings
from glassformer.data.columns import SAMPLE, choose_columns, may_hold_labels
from glassformer.data.examples import Examples, encode_examples
from glassformer.data.labelled import Labelled, LabelledCorpus, split_table
from glassformer.data.part import Part
from glassformer.data.source import open_source
from glassformer.data.split import Corpus, split
from glassformer.data.store import pack
from glassformer.data.table import Table, holds_table, read_table
from glassformer.tasks.answers import Answers, Classes, Scale
from glassformer.tasks.base import Task
from glassformer.tasks.classification import Classification
from glassformer.tasks.language_model import LanguageModelling
from glassformer.tasks.regression import Regression
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prepared:
    corpus: Corpus | LabelledCorpus
    tokenizer: Tokenizer
    tokens: dict[str, int]
    """Of each part."""
    task: Task
    answers: Answers | None = None
    """What is said of a text; None: a language model."""


# --- what the data is for ---


def settle(
    file: Mapping[str, Any], flags: Mapping[str, Any], say: Say, *, task: str | None = None
) -> tuple[Config, Table | None]:
    """The whole configuration: what the settings leave open (`task`, else what the data looks like) is found out.

    Gives the table too, where one had to be read.
    """
    said = {**flatten(file), **flatten(flags)}
    task = said.get("task") or task
    path = said.get("data.path")
    if path is None or task == LANGUAGE_MODEL or not holds_table(path):
        if task in LABELLING and path is not None:
            raise DataError(
                f"{path} is not a table: {task} needs a text and a label column (.csv, .tsv, .jsonl, .parquet)"
            )
        return resolve(file, flags, {"task": task}), None
    reading = {key.removeprefix("data."): value for key, value in said.items() if key.startswith("data.")}
    settings = DataSettings(**reading)
    table = read_table(path, settings, most=SAMPLE)  # a corpus may be too large to hold
    if task is not None or may_hold_labels(table, settings):
        table = read_table(path, settings)
    columns = choose_columns(table, settings, task)
    say(f"columns: {columns.why}")
    config = resolve(file, flags, {"task": columns.task, "data.text": columns.text, "data.label": columns.label})
    if config.task == LANGUAGE_MODEL:
        return config, None
    if all(said.get(budget) is None for budget in BUDGETS):
        config = with_epochs(config, len(table))
    return config, table


def divide(config: Config, table: Table | None = None) -> Corpus | LabelledCorpus:
    """The data and what is held out of it. `table`: where it has been read already."""
    data = config.data
    if data.path is None:
        raise SettingError(
            "no data: name a text file, a folder, a table, or an embedded data set (`glassformer data` lists them)"
        )
    if config.task == LANGUAGE_MODEL:
        return split(open_source(data.path, data), data)
    table = table or read_table(data.path, data)
    return split_table(table, choose_columns(table, data, config.task), data)


# --- what it becomes ---


def prepare(config: Config, say: Say, tokenizer: Tokenizer | None = None, table: Table | None = None) -> Prepared:
    """`tokenizer`: the one to use, instead of training one."""
    corpus = divide(config, table)
    say(f"data: {corpus.report()}")
    if "validation" not in corpus.parts:
        raise SettingError("nothing is held out: set data.validation_fraction above 0, or give --validation FILE")
    if isinstance(corpus, Corpus):
        return _for_language(config, corpus, tokenizer or train_tokenizer(corpus.parts["train"], config, say), say)
    if tokenizer is None:
        texts = corpus.parts["train"].texts
        size = sum(len(text.encode()) for text in texts)
        tokenizer = Tokenizer.train(texts, config.tokenizer, say, total_bytes=size)
    return _for_labels(config, corpus, tokenizer, say)


def train_tokenizer(part: Part, config: Config, say: Say) -> Tokenizer:
    """Tokens of the training part alone: what is held out must be news to the tokenizer too."""
    texts = (chunk.text for chunk in part.chunks())
    return Tokenizer.train(texts, config.tokenizer, say, total_bytes=part.bytes)


def _for_language(config: Config, corpus: Corpus, tokenizer: Tokenizer, say: Say) -> Prepared:
    parts = {name: pack(part, tokenizer, say) for name, part in corpus.parts.items()}
    counts = {name: len(tokens.ids) for name, tokens in parts.items()}
    _say_tokens(tokenizer, counts, {name: tokens.unknown for name, tokens in parts.items()}, say)
    if tokenizer.vocab_size <= len(tokenizer.specials) + 1:
        raise DataError("there is only one token to learn: the text repeats a single one")
    task = LanguageModelling(
        parts,
        context=config.model.context,
        batch_size=config.training.batch_size,
        start=tokenizer.start,
        seed=config.training.seed,
        smoothing=config.training.label_smoothing,
    )
    return Prepared(corpus, tokenizer, counts, task)


def _for_labels(config: Config, corpus: LabelledCorpus, tokenizer: Tokenizer, say: Say) -> Prepared:
    answers = answers_of(corpus, config.training.loss)
    parts = {name: examples_of(part, answers, tokenizer, config) for name, part in corpus.parts.items()}
    counts = {name: len(part.ids) for name, part in parts.items()}
    _say_tokens(tokenizer, counts, {name: part.unknown for name, part in parts.items()}, say)
    if cut := sum(part.cut for part in parts.values()):
        of = sum(len(part) for part in parts.values())
        say(f"{cut:,} of {of:,} texts are longer than {config.model.context:,} tokens and cut there (--model.context)")
    return Prepared(corpus, tokenizer, counts, labelling_task(config, parts, answers), answers)


def answers_of(corpus: LabelledCorpus, loss: str | None) -> Answers:
    if corpus.classes is not None:
        return Classes.of(corpus.classes, loss)
    return Scale.of(np.array([float(label) for label in corpus.parts["train"].labels]), loss)


def examples_of(part: Labelled, answers: Answers, tokenizer: Tokenizer, config: Config) -> Examples:
    learned = answers.learned(part.labels)
    return encode_examples(part.texts, learned, tokenizer, context=config.model.context, framed=config.framed)


def labelling_task(config: Config, parts: dict[str, Examples], answers: Answers) -> Classification | Regression:
    """The task on these parts; without a training part, one to evaluate with."""
    training = config.training
    order = {"batch_size": training.batch_size, "seed": training.seed}
    if isinstance(answers, Scale):
        return Regression(parts, answers, **order)
    weights = training.class_weights if "train" in parts else None
    return Classification(parts, answers, **order, smoothing=training.label_smoothing, class_weights=weights)


def _say_tokens(tokenizer: Tokenizer, tokens: dict[str, int], unknown: dict[str, int], say: Say) -> None:
    counts = ", ".join(
        f"{count:,} {name}" + (f" ({unknown[name] / count:.2%} unknown)" if unknown[name] else "")
        for name, count in tokens.items()
    )
    say(f"tokens: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}; {counts}")
