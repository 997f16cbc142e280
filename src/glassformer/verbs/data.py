"""Describe, check and show data before training."""

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.config.presets import label_kind_of
from glassformer.config.resolve import Config
from glassformer.data.check.tables import DataCheck, check_table
from glassformer.data.check.texts import Lengths, check_pairs, check_texts
from glassformer.data.columns.inference import choose_columns
from glassformer.data.features.build import TextFeatures
from glassformer.data.io.source import open_source
from glassformer.data.io.table import Pictures, Table, read_table
from glassformer.data.packing.windows import NOTHING, training_pairs
from glassformer.data.split.labelled import as_table
from glassformer.families.base import FAMILIES, Family, Prepared
from glassformer.families.build import prepare, split_data
from glassformer.families.labelling import LabellingFamily
from glassformer.families.language import LanguageFamily, StreamFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.recognition import pairs_of
from glassformer.families.translation import TranslationFamily, tokenizers_of_sides
from glassformer.finetuning.sources import source_tokenizers
from glassformer.tasks.labelling import LabelledBatch
from glassformer.tasks.language_model import MaskedBatch, WindowBatch
from glassformer.tasks.translation import PairBatch
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Description:
    """Division of data into parts."""

    report: str
    fingerprint: str
    parts: dict[str, dict[str, int]]


def describe(config: Config, table: Table | Pictures | None = None) -> Description:
    """Return how data would be divided."""
    corpus, noun = split_data(config, table), FAMILIES[config.task].noun
    parts = {}
    for name, part in corpus.parts.items():
        counts = {unit: getattr(part, unit, None) for unit in ("documents", "characters", "bytes")}
        units = {unit: count for unit, count in counts.items() if count is not None}
        parts[name] = units or {f"{noun}s": len(part)}
    return Description(corpus.report(), corpus.fingerprint, parts)


def check(config: Config, table: Table | Pictures | None) -> Any:
    """Return problems of texts, labelled examples or pairs, and the lengths that exceed the model's context."""
    return check_data(FAMILIES[config.task], config, table)


@singledispatch
def check_data(family: Family, config: Config, table: Table | Pictures | None) -> DataCheck:
    """Return problems of labelled data."""
    if isinstance(table, Pictures):
        return check_table(*as_table(table))
    assert config.data.path is not None
    table = table or read_table(config.data.path, config.data)
    columns = choose_columns(table, config.data, label_kind_of(config.task))
    if columns.text is None:
        return check_table(table, columns, settings=config.data)
    texts = [text for text in table.texts(columns.text) if text.strip()]
    if config.is_finetuned:
        tokenizer, _ = source_tokenizers(config)
    else:
        tokenizer = Tokenizer.train(texts, replace(config.tokenizer, min_count=1))  # rare tokens have a length too
    frame = len([*tokenizer.roles.opening, *tokenizer.roles.closing]) if config.framed else 0
    return check_table(table, columns, _lengths(tokenizer, frame), config.model.context, config.data)


@check_data.register
def check_stream(family: StreamFamily, config: Config, read: Any) -> DataCheck:
    assert config.data.path is not None
    return check_texts(open_source(config.data.path, config.data), config.data.same_text)


@check_data.register
def check_translation(family: TranslationFamily, config: Config, read: Table | None) -> DataCheck:
    pairs = pairs_of(config.data, read)
    table, source, target = pairs.table, pairs.source, pairs.target
    sources, targets = ([text for text in table.columns[name] if text.strip()] for name in (source, target))
    if config.is_finetuned:
        of_source, of_target = source_tokenizers(config)
    else:
        of_source, of_target = tokenizers_of_sides(sources, targets, config)
    lengths, target_lengths = (_lengths(tokenizer, 1) for tokenizer in (of_source, of_target or of_source))  # END
    return check_pairs(
        table,
        source,
        target,
        lengths,
        config.model.context,
        target_lengths=target_lengths,
        same_text=config.data.same_text,
    )


def _lengths(tokenizer: Tokenizer, frame: int) -> Lengths:
    """Return a function for the lengths of texts in tokens. `frame`: number of tokens added around each text."""
    return lambda texts: [len(ids) + frame for ids in tokenizer.encode_batch(texts)]


@dataclass(frozen=True)
class ShownBatch:
    """A batch as the model reads it."""

    step: int
    rows: list[list[str]]
    """Tokens of each row. In a row of a language model, the last token is only a target."""
    ids: list[list[int]]
    answers: list[str] | None
    """Answer of each row: its label, its target tokens, or the hidden tokens with their positions. None for language
    models."""
    pairs: list[tuple[str, str]]
    """Start of the first row of a language model as training pairs: prefix → next token."""
    hidden: bool = False
    """True if tokens are hidden; the answers are then the hidden tokens."""


FEW_NUMBERS = 20
"""Maximum number of values that are shown one by one."""
MOST_PAIRS = 12
"""Maximum number of training pairs made from a row."""


def show_batch(config: Config, step: int, table: Table | Pictures | None = None) -> ShownBatch:
    """Return batch `step` of a training run with these settings. For language models, it includes training pairs."""
    prepared = prepare(config, rows=table)
    rows = batch_rows(FAMILIES[config.task], prepared.task.batch(step), prepared, step)
    if rows.answers is not None:
        return rows
    tokenizer = prepared.tokenizer
    assert tokenizer is not None
    last = config.training.targets == "last"
    row = rows.rows[0] if last else rows.rows[0][: MOST_PAIRS + 1]
    pairs = training_pairs(row, " " if tokenizer.kind == "word" else "")
    asked = [pair for pair, answer in zip(pairs, rows.ids[0][1:], strict=False) if answer != tokenizer.start]
    return replace(rows, pairs=asked[-1:] if last else asked)


@singledispatch
def batch_rows(family: Family, batch: Any, prepared: Prepared, step: int) -> ShownBatch:
    """Return a batch as rows with their answers."""
    raise SettingError(f"a batch of {family.task} cannot be shown")


@batch_rows.register
def windows_as_rows(family: LanguageFamily, batch: WindowBatch, prepared: Prepared, step: int) -> ShownBatch:
    return ShownBatch(step, _names(prepared.tokenizer, batch.ids), batch.ids.tolist(), None, [])


def _names(tokenizer: Tokenizer | None, ids: Tensor) -> list[list[str]]:
    assert tokenizer is not None
    return [[tokenizer.shown(id) for id in row] for row in ids.tolist()]


@batch_rows.register
def masked_windows_as_rows(family: MaskedFamily, batch: MaskedBatch, prepared: Prepared, step: int) -> ShownBatch:
    """Return windows with hidden tokens; the answers are these tokens with their positions."""
    tokenizer = prepared.tokenizer
    assert tokenizer is not None
    answers = [
        "|".join(f"{place}: {tokenizer.shown(id)}" for place, id in zip(places, hidden, strict=True) if id != NOTHING)
        for places, hidden in zip(batch.places.tolist(), batch.answers.tolist(), strict=True)
    ]
    rows = _names(tokenizer, batch.inputs)
    return ShownBatch(step, rows, batch.inputs.tolist(), answers, [], hidden=True)


@batch_rows.register
def examples_as_rows(family: LabellingFamily, batch: LabelledBatch, prepared: Prepared, step: int) -> ShownBatch:
    """Return texts as tokens, and other examples as the shapes and values of their tensors."""
    assert prepared.answers is not None
    answers = prepared.answers.words(batch.answers)
    if isinstance(prepared.features, TextFeatures):
        return ShownBatch(step, _names(prepared.tokenizer, batch.inputs[0]), batch.inputs[0].tolist(), answers, [])
    tensors = [tensor for tensor in batch.inputs if tensor.numel()]
    rows = [
        [batch.known[row], *(f"{' × '.join(map(str, tensor.shape[1:]))}: {_span(tensor[row])}" for tensor in tensors)]
        for row in range(batch.size)
    ]
    return ShownBatch(step, rows, [], answers, [])


def _span(tensor: Tensor) -> str:
    """Return the smallest and the largest value; all values if there are few."""
    values = tensor.flatten().tolist()
    if len(values) > FEW_NUMBERS:
        return f"from {min(values):.3g} to {max(values):.3g}"
    return ", ".join(f"{value:.3g}" for value in values)


@batch_rows.register
def pairs_as_rows(family: TranslationFamily, batch: PairBatch, prepared: Prepared, step: int) -> ShownBatch:
    """Return sources as rows and targets as answers.

    The decoder reads a target from START on and predicts it up to END.
    """
    assert prepared.tokenizer is not None
    tokenizer = prepared.target_tokenizer or prepared.tokenizer
    targets = [
        "|".join(tokenizer.shown(id) for id in row[:length])
        for row, length in zip(batch.target.tolist(), batch.target_mask.sum(1).tolist(), strict=True)
    ]
    return ShownBatch(step, _names(prepared.tokenizer, batch.source), batch.source.tolist(), targets, [])
