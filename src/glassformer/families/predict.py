"""Prepare examples for a predictor, and return its predictions with remarks about unusual inputs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from glassformer.config.data_section import POINT
from glassformer.config.errors import DataError, Misuse, RunError
from glassformer.config.messages import Say, say
from glassformer.config.presets import IMAGE, TEXT
from glassformer.config.resolve import Config
from glassformer.data.columns.numbers import spelled_with
from glassformer.data.columns.schema import ignored_in_words
from glassformer.data.features.build import MixedInputs
from glassformer.data.features.images import ImageFeatures, ImageInputs
from glassformer.data.features.inputs import Features, Inputs
from glassformer.data.features.tables import Marks, TableInputs
from glassformer.data.features.texts import Examples
from glassformer.data.io.memory import cell_text
from glassformer.data.io.pictures import fit_picture, read_picture
from glassformer.data.io.table import ROWS_AT_ONCE, Table, text_parts
from glassformer.data.split.labelled import Labelled, rows_as_part
from glassformer.data.wording import RowPosition, counted, listed
from glassformer.families.requests import Example, check_text
from glassformer.families.schema import as_learned, needed, read_columns, read_decimals, schema_of
from glassformer.notebook.html import facts, shares
from glassformer.tasks.answers import Answers, Labels, Scale
from glassformer.tasks.labelling import fast_tokens, score

MAX_SHOWN_LABELS = 12
"""Maximum number of labels that a notebook shows for a prediction."""


@dataclass(frozen=True)
class Prediction:
    """Prediction for an example: a class, a set of labels, or a number.

    A class is the likeliest label, with the probability of each. A set contains all labels whose probability is above
    the threshold.
    """

    text: str
    label: str | None = None
    probabilities: dict[str, float] | None = None
    value: float | None = None
    noun: str = "text"
    """Name of one example."""
    labels: list[str] | None = None
    """Predicted labels if several may apply, else None."""
    unknown_tokens: float | None = None
    """Share of the text's tokens that the run does not know; None if it reads no text."""
    outside_range: tuple[str, ...] = ()
    """Columns whose number is outside the training range."""
    unseen_categories: tuple[str, ...] = ()
    """Columns whose category was not seen in training."""

    @property
    def unknown_text(self) -> bool:
        """True if the run knows no token of the text.

        A run that reads nothing else returns the same answer for every such text.
        """
        return self.unknown_tokens == 1.0

    @property
    def marks(self) -> dict[str, Any]:
        """Deviations of the input from the training data, JSON-serialisable; empty if there are none."""
        marks: dict[str, Any] = {"unknown_text": True} if self.unknown_text else {}
        marks |= {"unknown_tokens": self.unknown_tokens} if self.unknown_tokens else {}
        columns = {"outside_range": self.outside_range, "unseen_categories": self.unseen_categories}
        return marks | {name: list(names) for name, names in columns.items() if names}

    @property
    def probability(self) -> float | None:
        """Probability of the label; None for a set of labels or a number."""
        return None if self.probabilities is None or self.label is None else max(self.probabilities.values())

    def to_dict(self) -> dict[str, Any]:
        label = {"labels": self.labels, "label": self.label, "probability": self.probability}
        answer = {**label, "probabilities": self.probabilities, "value": self.value}
        known = {} if self.unknown_tokens is None else {"unknown_text": False, "unknown_tokens": self.unknown_tokens}
        fields = {name: value for name, value in answer.items() if value is not None}
        return {self.noun: self.text, **fields, **known, **self.marks}

    def _repr_html_(self) -> str:
        """Return the prediction and the likeliest labels as HTML."""
        if self.probabilities is None:
            return facts({self.noun: self.text, "value": self.value})
        said = self.label if self.labels is None else ", ".join(self.labels) or "(none)"
        likeliest = sorted(self.probabilities.items(), key=lambda pair: -pair[1])[:MAX_SHOWN_LABELS]
        return facts({self.noun: self.text, "says": said}) + shares(likeliest)


def predict_inputs(model: nn.Module, answers: Answers, inputs: Inputs) -> list[Prediction]:
    """Return the prediction for each example. Raise `RunError` if a score is not finite."""
    scores = score(model, inputs, answers.outputs, fast_tokens(inputs, model))
    finite = scores.isfinite().all(1)
    if not finite.all():
        row = int((~finite).int().argmax())
        text, values = inputs.texts[row][:40], scores[row].tolist()[:3]
        raise RunError(f"the model's scores for '{text}' are not finite ({values}): use a higher precision")
    rows = zip(inputs.texts, _answers(answers, scores), _marks(inputs), strict=True)
    return [Prediction(text, noun=inputs.noun, **answer, **mark) for text, answer, mark in rows]


def _answers(answers: Answers, scores: Tensor) -> list[dict[str, Any]]:
    """Return the fields of a `Prediction` for each row of scores."""
    if isinstance(answers, Scale):
        return [{"value": value} for value in answers.values(scores).tolist()]
    shares = answers.probabilities(scores.double()).tolist()
    rows = [dict(zip(answers.names, row, strict=True)) for row in shares]
    if isinstance(answers, Labels):
        return [{"probabilities": row, "labels": answers.said(list(row.values()))} for row in rows]
    return [{"probabilities": row, "label": max(row, key=row.__getitem__)} for row in rows]


def _marks(inputs: Inputs) -> list[dict[str, Any]]:
    """Return the deviations of each example from the training data."""
    marks: list[dict[str, Any]] = [{} for _ in range(len(inputs))]
    if (texts := texts_in(inputs)) is not None:
        marks = [{"unknown_tokens": share} for share in texts.unknown_tokens.tolist()]
    for kind, columns in unusual_in(inputs).items():
        for name, rows in columns.items():
            for row in np.flatnonzero(rows).tolist():
                marks[row][kind] = (*marks[row].get(kind, ()), name)
    return marks


def inputs_of(features: Features, config: Config, part: Labelled, remark: Say = say) -> Inputs:
    """Return a part without labels as inputs. Report cut texts to `say`, and unusual values to `remark`."""
    notes = InputNotes()
    inputs = notes.read(features, part)
    notes.tell(config, remark)
    return inputs


@dataclass
class InputCounts:
    """Number of rows read, and their deviations from the training data. JSON-serialisable and additive."""

    rows: int = 0
    unanswered: dict[str, int] = field(default_factory=dict)
    """Rows without an answer, by reason."""
    ignored_columns: list[str] = field(default_factory=list)
    """Columns of the table that the run does not read."""
    texts: int = 0
    unknown_texts: int = 0
    """Texts without any token that the run knows."""
    tokens: int = 0
    unknown_tokens: int = 0
    outside_range: dict[str, int] = field(default_factory=dict)
    """Numbers outside the training range, by column."""
    unseen_categories: dict[str, int] = field(default_factory=dict)
    """Categories not seen in training, by column."""

    def count(self, inputs: Inputs) -> None:
        """Add the counts of some inputs, except their rows, which are counted elsewhere."""
        if (texts := texts_in(inputs)) is not None:
            self.texts += len(texts)
            self.unknown_texts += int((texts.unknown_tokens == 1.0).sum())
            self.tokens += len(texts.ids) - texts.frame * len(texts)
            self.unknown_tokens += texts.unknown
        for kind, columns in unusual_in(inputs).items():
            for name, rows in columns.items():
                add_to(getattr(self, kind), name, int(rows.sum()))

    def add(self, other: "InputCounts") -> None:
        """Add the counts of another file."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            if isinstance(mine, int):
                setattr(self, one.name, mine + theirs)
            elif isinstance(mine, list):
                mine += [name for name in theirs if name not in mine]
            else:
                for name, number in theirs.items():
                    add_to(mine, name, number)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as users see them, with the share of unknown tokens instead of two counts."""
        return {"unanswered": self.unanswered, "ignored_columns": self.ignored_columns, **self.differences()}

    def differences(self) -> dict[str, Any]:
        """Return the deviations of the inputs from the training data."""
        texts = {"unknown_text": self.unknown_texts, "unknown_tokens": self.unknown_tokens / max(1, self.tokens)}
        values = {"outside_range": self.outside_range, "unseen_categories": self.unseen_categories}
        return {**(texts if self.texts else {}), **values}


def add_to(counts: dict[str, int], name: str, number: int) -> None:
    counts[name] = counts.get(name, 0) + number


@dataclass
class InputNotes:
    """Remarks about inputs that are read part by part, reported once at the end."""

    cut: int = 0
    counts: InputCounts = field(default_factory=InputCounts)
    remarks: dict[str, list[str]] = field(default_factory=dict)
    """Remarks about values, by their text without numbers, so that similar remarks are grouped."""

    def read(self, features: Features, part: Labelled) -> Inputs:
        """Return a part without labels as inputs, and note what is unusual about it."""
        inputs = features.inputs(part, np.zeros(len(part), np.int64))
        self.note(inputs)
        return inputs

    def note(self, inputs: Inputs) -> None:
        """Note what is unusual about inputs."""
        texts = texts_in(inputs)
        self.cut += 0 if texts is None else texts.cut
        self.counts.count(inputs)
        for line in inputs.remarks:
            self.remark(line)

    def remark(self, line: str) -> None:
        self.remarks.setdefault(re.sub(r"\d[\d,]*", "", line), []).append(line)

    def tell(self, config: Config, remark: Say = say) -> None:
        """Report cut texts to `say`, and unusual values to `remark`."""
        texts, unknown = self.counts.texts, self.counts.unknown_texts
        say_cut(self.cut, texts, config.model.context)
        if unknown:
            remark(f"{counted(unknown, 'text has', 'texts have')} no token that this run knows")
        if self.counts.outside_range:
            columns = [f"{name} ({number:,})" for name, number in self.counts.outside_range.items()]
            remark(f"numbers outside the range of training: {listed(columns)}")
        for first, *more in self.remarks.values():
            remark(f"{first}, and more like it" if more else first)


def pieces_of(part: Labelled) -> Iterator[Labelled]:
    """Yield a part in pieces of at most `ROWS_AT_ONCE` rows."""
    for first in range(0, len(part), ROWS_AT_ONCE):
        yield part.select(part.name, list(range(first, min(len(part), first + ROWS_AT_ONCE))))


def part_of(features: Features, config: Config, examples: Sequence[Any] | Table, remark: Say | None = None) -> Labelled:
    """Return examples (texts, files, pixels, rows) as a part without labels.

    Report resized images to `say`, and columns that the run does not read to `remark` (default: `say`).
    """
    if isinstance(examples, Table):
        return rows_of(features, config, examples, list(range(len(examples))))
    if config.data.kind == TEXT:
        texts = [check_text(example) for example in examples]
        if (blank := next((row for row, text in enumerate(texts) if not text.strip()), None)) is not None:
            raise DataError(f"the text at position {blank:,} (counted from 0) is empty: leave it out, or write one")
        return Labelled("given", texts, [""] * len(texts), list(range(1, len(texts) + 1)), "given")
    if config.data.kind == IMAGE:
        assert isinstance(features, ImageFeatures)
        return _images(features, examples)
    rows = [_row(example, config, features) for example in examples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name, "") for row in rows] for name in names}
    table = Table("given", columns, [RowPosition(row) for row in range(len(rows))])
    if line := ignored_in_words("given", schema_of(config, features).ignored(names)):
        (remark or say)(line)
    return rows_of(features, config, table, list(range(len(rows))))


def rows_of(features: Features, config: Config, table: Table, rows: list[int]) -> Labelled:
    """Return rows of a table as a part without labels."""
    table = spelled_with(table, read_decimals(features))
    return rows_as_part(table, needed(features, config, table), as_learned(features, config.data), rows)


def _images(features: ImageFeatures, images: Sequence[Any]) -> Labelled:
    """Return images as a part without labels. `images`: file names or arrays of pixels."""
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
    """Return the values of a row as text. A string is read as JSON."""
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


# --- inputs by kind ---


def texts_in(inputs: Inputs) -> Examples | None:
    """Return the text inputs, or None."""
    if isinstance(inputs, MixedInputs):
        return inputs.text
    return inputs if isinstance(inputs, Examples) else None


def unusual_in(inputs: Inputs) -> dict[str, Marks]:
    """Return the rows with values not seen in training, by the kind of deviation and by column."""
    table = inputs.table if isinstance(inputs, MixedInputs) else inputs
    if not isinstance(table, TableInputs):
        return {}
    kinds = {"outside_range": table.outside_range, "unseen_categories": table.unseen_categories}
    return {kind: marks for kind, marks in kinds.items() if marks}


def images_in(inputs: Inputs) -> ImageInputs | None:
    if isinstance(inputs, MixedInputs):
        return inputs.image
    return inputs if isinstance(inputs, ImageInputs) else None


def say_read(features: Features, parts: Mapping[str, Inputs]) -> None:
    """Report the columns that are read, and unusual values in each part."""
    say(f"read: {features.words}")
    for remark in features.remarks:
        say(remark)
    for name, part in parts.items():
        for remark in part.remarks:
            say(f"{name}: {remark}")


def say_cut(cut: int, texts: int, context: int, advice: str = "") -> None:
    """Report how many texts are longer than the model reads."""
    if cut:
        say(f"{cut:,} of {texts:,} texts are longer than {context:,} tokens and cut there{advice}")
