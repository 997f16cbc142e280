"""What a trained model says of an example: labels, numbers or a vector; and what it reads of one."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.bricks.pooling import UnitLength
from glassformer.config.data_section import POINT
from glassformer.config.errors import DataError, Misuse, Say, SettingError, silent
from glassformer.config.presets import IMAGE, TEXT, label_kind_of
from glassformer.config.progress import counting_on, progress_of
from glassformer.config.resolve import Config
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.numbers import spelled_with
from glassformer.data.features.build import MixedFeatures, MixedInputs
from glassformer.data.features.images import ImageFeatures, ImageInputs
from glassformer.data.features.inputs import Features, Inputs
from glassformer.data.features.tables import TableFeatures
from glassformer.data.features.texts import Examples, encode_examples
from glassformer.data.io.chunks import ROWS_AT_ONCE, prefetch
from glassformer.data.io.memory import cell_text
from glassformer.data.io.pictures import fit_picture, read_picture
from glassformer.data.io.table import Table, require_columns, text_parts
from glassformer.data.split.labelled import Labelled, rows_as_part
from glassformer.families.requests import Embedded, Example, check_text
from glassformer.models.modules import BagPredictor, Predictor, Seq2Seq, TokenModel, device_of
from glassformer.notebook.html import facts, shares
from glassformer.tasks.answers import Answers, Labels, Scale
from glassformer.tasks.labelling import Batching, compute_rows, score
from glassformer.text.tokenizer import Tokenizer

LIKELIEST = 12
"""Labels that a notebook shows of a prediction."""


@dataclass(frozen=True)
class Prediction:
    """What a model says of an example: the likeliest label with the probability of each, all labels that are likelier
    than not, or a number.
    """

    text: str
    label: str | None = None
    probabilities: dict[str, float] | None = None
    value: float | None = None
    noun: str = "text"
    """What the example is called."""
    labels: list[str] | None = None
    """Where several may be true at once."""

    @property
    def probability(self) -> float | None:
        """The probability of the label."""
        return None if self.probabilities is None or self.label is None else max(self.probabilities.values())

    def to_dict(self) -> dict[str, Any]:
        if self.probabilities is None:
            return {self.noun: self.text, "value": self.value}
        if self.labels is not None:
            return {self.noun: self.text, "labels": self.labels, "probabilities": self.probabilities}
        return {
            self.noun: self.text,
            "label": self.label,
            "probability": self.probability,
            "probabilities": self.probabilities,
        }

    def _repr_html_(self) -> str:
        """What is said, and how likely the likeliest are."""
        if self.probabilities is None:
            return facts({self.noun: self.text, "value": self.value})
        said = self.label if self.labels is None else ", ".join(self.labels) or "(none)"
        likeliest = sorted(self.probabilities.items(), key=lambda pair: -pair[1])[:LIKELIEST]
        return facts({self.noun: self.text, "says": said}) + shares(likeliest)


def predict_inputs(model: nn.Module, answers: Answers, inputs: Inputs) -> list[Prediction]:
    """What a model says of each example."""
    scores = score(model, inputs, answers.outputs, Batching.fast(inputs, model))
    noun = inputs.noun
    if isinstance(answers, Scale):
        values = answers.values(scores).tolist()
        return [Prediction(text, value=value, noun=noun) for text, value in zip(inputs.texts, values, strict=True)]
    rows = [dict(zip(answers.names, row, strict=True)) for row in answers.probabilities(scores.double()).tolist()]
    if isinstance(answers, Labels):
        return [
            Prediction(text, None, row, noun=noun, labels=answers.said(list(row.values())))
            for text, row in zip(inputs.texts, rows, strict=True)
        ]
    return [
        Prediction(text, max(row, key=row.__getitem__), row, noun=noun)
        for text, row in zip(inputs.texts, rows, strict=True)
    ]


def inputs_of(features: Features, config: Config, part: Labelled, say: Say, remark: Say) -> Inputs:
    """A part without labels as the model reads it. `say` is told what is cut, `remark` what is odd about values."""
    notes = InputNotes()
    inputs = notes.read(features, part)
    notes.tell(config, say, remark)
    return inputs


@dataclass
class InputNotes:
    """What is to be said of inputs that are read part by part: told once, when all are read."""

    cut: int = 0
    texts: int = 0
    remarks: dict[str, list[str]] = field(default_factory=dict)
    """What is odd about values; those lines together that differ in their numbers alone."""

    def read(self, features: Features, part: Labelled) -> Inputs:
        """A part without labels as a model reads it."""
        inputs = features.inputs(part, np.zeros(len(part), np.int64))
        if (texts := texts_in(inputs)) is not None:
            self.cut, self.texts = self.cut + texts.cut, self.texts + len(texts)
        for line in inputs.remarks:
            self.remark(line)
        return inputs

    def remark(self, line: str) -> None:
        self.remarks.setdefault(re.sub(r"\d[\d,]*", "", line), []).append(line)

    def tell(self, config: Config, say: Say, remark: Say) -> None:
        """`say` is told what is cut, `remark` what is odd about values."""
        if self.cut:
            context = f"{config.model.context:,} tokens"
            say(f"{self.cut:,} of {self.texts:,} texts are longer than {context} and cut there")
        for first, *more in self.remarks.values():
            remark(f"{first}, and more like it" if more else first)


def pieces_of(part: Labelled) -> Iterator[Labelled]:
    """A part in pieces of a few rows."""
    for first in range(0, len(part), ROWS_AT_ONCE):
        yield part.select(part.name, list(range(first, min(len(part), first + ROWS_AT_ONCE))))


def part_of(features: Features, config: Config, examples: Sequence[Any] | Table, say: Say) -> Labelled:
    """Examples as a person gives them (texts, files, pixels, rows), as a part without labels."""
    if isinstance(examples, Table):
        return rows_of(features, config, examples, list(range(len(examples))))
    if config.data.kind == TEXT:
        texts = [check_text(example) for example in examples]
        return Labelled("given", texts, [""] * len(texts), list(range(1, len(texts) + 1)), "given")
    if config.data.kind == IMAGE:
        assert isinstance(features, ImageFeatures)
        return _images(features, examples, say)
    rows = [_row(example, config, features) for example in examples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table("given", {name: [row.get(name, "") for row in rows] for name in names}, list(range(1, len(rows) + 1)))
    return rows_of(features, config, table, list(range(len(rows))))


def rows_of(features: Features, config: Config, table: Table, rows: list[int]) -> Labelled:
    """Rows of a table as a part without labels."""
    table = spelled_with(table, read_decimals(features))
    return rows_as_part(table, needed(features, config, table), as_learned(features, config.data), rows)


def needed(features: Features, config: Config, table: Table) -> Columns:
    """The columns that a run reads; a table that lacks one is refused."""
    mixed = features if isinstance(features, MixedFeatures) else None
    text = config.data.text if mixed is not None and mixed.text is not None else None
    image = config.data.image if mixed is not None and mixed.image is not None else None
    columns = read_columns(features)
    require_columns(table.name, (*text_parts(text, table.columns), *columns, image), table.columns)
    return Columns(text, None, label_kind_of(config.task), "", config.data.kind, columns, image)


def as_learned(features: Features, settings: DataSettings) -> DataSettings:
    """How to read data for a run: the columns that it reads, images of the size that it reads."""
    changes: dict[str, Any] = {"extra_columns": ",".join(read_columns(features)) or None}
    if isinstance(features, MixedFeatures) and features.image is not None:
        changes["image_size"] = "x".join(map(str, features.image.size))
    return replace(settings, **changes)


def read_columns(features: Features | None) -> tuple[str, ...]:
    """The number, category and date columns that a run reads."""
    table = table_in(features)
    return () if table is None else table.columns


def read_decimals(features: Features | None) -> dict[str, str]:
    """The decimal signs of the number columns that a run reads."""
    table = table_in(features)
    return {} if table is None else table.decimals


def table_in(features: Features | None) -> TableFeatures | None:
    """How a run reads columns of numbers, categories and dates, if it does."""
    table = features.table if isinstance(features, MixedFeatures) else features
    return table if isinstance(table, TableFeatures) else None


def _images(features: ImageFeatures, images: Sequence[Any], say: Say) -> Labelled:
    """`images`: files, or pixels."""
    files = [f"image {place}" if isinstance(one, np.ndarray) else str(one) for place, one in enumerate(images)]
    pixels, resized = [], 0
    for file, image in zip(files, images, strict=True):
        if not isinstance(image, np.ndarray) and not Path(file).is_file():
            raise DataError(f"no image at '{file}': this run reads image files")
        picture = image if isinstance(image, np.ndarray) else read_picture(Path(file))
        resized += picture.shape[:2] != features.size
        pixels.append(fit_picture(picture, features.size, len(features.mean)))
    if resized:
        height, width = features.size
        say(f"{resized:,} of {len(files):,} images brought to the {height}×{width} pixels that this run reads")
    stacked = np.stack(pixels) if pixels else np.empty((0, *features.size, len(features.mean)), np.uint8)
    lines = list(range(1, len(files) + 1))
    return Labelled("given", files, [""] * len(files), lines, "given", pixels=stacked)


def _row(example: Example, config: Config, features: Features) -> dict[str, str]:
    """A row's values as text."""
    value: Any = example
    if isinstance(example, str):
        try:
            value = json.loads(example)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        names = [*text_parts(config.data.text, ()), *read_columns(features), config.data.image]
        shown = json.dumps({name: "…" for name in names if name}, ensure_ascii=False)
        raise Misuse(f"this run reads rows, as JSON: {shown}; '{str(example)[:40]}' is none (--file reads a table)")
    decimals = read_decimals(features)
    return {str(name): cell_text(cell, {}, decimals.get(str(name), POINT)) for name, cell in value.items()}


# --- what is read of examples ---


def texts_in(inputs: Inputs) -> Examples | None:
    """The texts among what a model reads of examples, if there are any."""
    if isinstance(inputs, MixedInputs):
        return inputs.text
    return inputs if isinstance(inputs, Examples) else None


def images_in(inputs: Inputs) -> ImageInputs | None:
    if isinstance(inputs, MixedInputs):
        return inputs.image
    return inputs if isinstance(inputs, ImageInputs) else None


def say_read(features: Features, parts: Mapping[str, Inputs], say: Say) -> None:
    """What is read of examples that are more than texts, and what is odd about them."""
    say(f"read: {features.words}")
    for remark in features.remarks:
        say(remark)
    for name, part in parts.items():
        for remark in part.remarks:
            say(f"{name}: {remark}")


def say_cut(parts: Mapping[str, Inputs], context: int, say: Say, advice: str = "") -> None:
    """How many texts are longer than the model reads."""
    texts = [words for part in parts.values() if (words := texts_in(part)) is not None]
    if cut := sum(part.cut for part in texts):
        of = sum(len(part) for part in texts)
        say(f"{cut:,} of {of:,} texts are longer than {context:,} tokens and cut there{advice}")


# --- vectors out: a trained model as a feature extractor ---


@torch.no_grad()
def embed(
    model: nn.Module, tokenizer: Tokenizer, config: Config, texts: Sequence[str], *, tokens: bool
) -> list[Embedded]:
    """The vector of a text is what the model's head sees of it, or what it is made to give; of a language model or of a
    translator's encoder, the mean over its tokens.
    """
    if not isinstance(model, TokenModel | Seq2Seq | Predictor | BagPredictor):
        raise SettingError(f"{type(model).__name__} is a model of one's own: what its vectors are, only it knows")
    translated = isinstance(model, Seq2Seq)

    def encode(some: Sequence[str]) -> Examples:
        return encode_examples(
            some,
            np.zeros(len(some)),
            tokenizer,
            context=config.model.context,
            framed=config.framed or translated,
            translated=translated,
        )

    encoded = map(encode, (texts[first : first + ROWS_AT_ONCE] for first in range(0, len(texts), ROWS_AT_ONCE)))
    ready = prefetch(encoded) if len(texts) > ROWS_AT_ONCE else encoded
    found: list[Embedded] = []
    for examples in ready:
        with counting_on(len(found), len(texts), "text"):
            found += _embedded(model, tokenizer, examples, tokens=tokens)
    return found


def _embedded(
    model: TokenModel | Seq2Seq | Predictor | BagPredictor, tokenizer: Tokenizer, examples: Examples, *, tokens: bool
) -> list[Embedded]:
    """The vectors of some texts, in their order."""
    device, texts = device_of(model), examples.texts
    marks = torch.tensor(sorted(tokenizer.roles.marks), device=device)
    by_row: dict[int, Embedded] = {}
    progress = progress_of("text")
    progress(0, len(texts))
    for rows, (ids, mask) in examples.batches(Batching.fast(examples, model).tokens):
        ids, mask = ids.to(device), mask.to(device)
        inside = mask & ~torch.isin(ids, marks)
        states, whole = _vectors(model, ids, mask, inside)
        for place, (row, vector) in enumerate(zip(rows.tolist(), whole.float().cpu().numpy(), strict=True)):
            if not tokens:
                by_row[row] = Embedded(texts[row], vector)
                continue
            names = [tokenizer.token(id) for id in ids[place, inside[place]].tolist()]
            by_row[row] = Embedded(texts[row], vector, names, states[place, inside[place]].float().cpu().numpy())
        progress(len(by_row), len(texts))
    return [by_row[row] for row in range(len(texts))]


@torch.no_grad()
def embed_examples(
    model: nn.Module, features: Features, config: Config, examples: Sequence[Example] | Table
) -> list[Embedded]:
    """What the model's head sees of each example, where these are more than texts."""
    if not isinstance(model, Predictor):
        raise SettingError(f"{type(model).__name__} is a model of one's own: what its vectors are, only it knows")
    inputs = inputs_of(features, config, part_of(features, config, examples, silent), silent, silent)
    vectors = compute_rows(inputs, model.features, device_of(model), Batching.fast(inputs, model)).numpy()
    return [Embedded(text, vector) for text, vector in zip(inputs.texts, vectors, strict=True)]


def _vectors(
    model: TokenModel | Seq2Seq | Predictor | BagPredictor,
    ids: Tensor,
    mask: Tensor,
    inside: Tensor,
) -> tuple[Tensor, Tensor]:
    """The vectors of each token, and of each text."""
    if isinstance(model, Predictor | BagPredictor):
        states = model.states(ids, mask)
        pooled: Tensor = model.pool(states, mask)
        head: nn.Module = model.head
        return states, head(pooled) if isinstance(head, UnitLength) else pooled
    states = model.states(ids, mask) if isinstance(model, TokenModel) else model.encode(ids, mask).states
    return states, (states * inside.unsqueeze(-1)).sum(1) / inside.sum(1, keepdim=True).clamp(min=1)
