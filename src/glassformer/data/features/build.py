"""Learn, save and load the features of texts, tables, images and their combinations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import RunError
from glassformer.config.presets import IMAGE, MIXED, TABLE, TEXT
from glassformer.config.resolve import Config
from glassformer.data.columns.inference import Columns
from glassformer.data.features.images import ImageFeatures, ImageInputs
from glassformer.data.features.inputs import Answers, Features, Inputs, Tensors
from glassformer.data.features.tables import TableFeatures, TableInputs
from glassformer.data.features.texts import Examples, encode_examples
from glassformer.data.split.labelled import Labelled
from glassformer.models.inputs import Shape
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextFeatures(Features):
    """Tokens of a text; all that is learned is in the tokenizer."""

    tokenizer: Tokenizer
    context: int
    framed: bool

    @property
    def shape(self) -> Shape:
        return Shape(vocab=self.tokenizer.vocab_size, space=self.tokenizer.space)

    @property
    def words(self) -> str:
        return "the text"

    def inputs(self, part: Labelled, answers: Answers) -> Examples:
        return encode_examples(part.texts, answers, self.tokenizer, context=self.context, framed=self.framed)


class _Kinds:
    """Features or inputs of a text, columns and an image, each of which may be missing."""

    text: Any
    table: Any
    image: Any

    @property
    def kinds(self) -> dict[str, Any]:
        """The kinds that are present, in the order in which a model reads them."""
        kinds = {TEXT: self.text, TABLE: self.table, IMAGE: self.image}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(remark for kind in self.kinds.values() for remark in kind.remarks)


@dataclass(frozen=True, eq=False)
class MixedInputs(_Kinds, Inputs):  # type: ignore[override]
    """Inputs of several kinds; a model is called with the tensors of one kind after the other."""

    answers: Answers
    texts: Sequence[str]
    text: Examples | None = None
    table: TableInputs | None = None
    image: ImageInputs | None = None

    @property
    def has_words(self) -> bool:  # type: ignore[override]
        return self.text is not None

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.sum([kind.lengths for kind in self.kinds.values()], axis=0, dtype=np.int64)

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return tuple(tensor for kind in self.kinds.values() for tensor in kind.take(rows))

    def select(self, rows: NDArray[np.int64]) -> "MixedInputs":
        texts = [self.texts[row] for row in rows.tolist()]
        return MixedInputs(self.answers[rows], texts, **{name: kind.select(rows) for name, kind in self.kinds.items()})

    def trim(self, tensors: Tensors) -> Tensors:
        return tensors if self.text is None else (*self.text.trim(tensors[:2]), *tensors[2:])

    def augment(self, tensors: Tensors, step: int) -> Tensors:
        return tensors if self.image is None else (*tensors[:-1], *self.image.augment(tensors[-1:], step))


@dataclass(frozen=True)
class MixedFeatures(_Kinds, Features):  # type: ignore[override]
    text: TextFeatures | None
    table: TableFeatures | None
    image: ImageFeatures | None

    @property
    def shape(self) -> Shape:
        columns = Shape() if self.table is None else self.table.shape
        return Shape(
            vocab=0 if self.text is None else self.text.shape.vocab,
            numbers=columns.numbers,
            categories=columns.categories,
            image=None if self.image is None else self.image.shape.image,
        )

    @property
    def words(self) -> str:
        return "; ".join(kind.words for kind in self.kinds.values())

    def inputs(self, part: Labelled, answers: Answers) -> MixedInputs:
        kinds = {name: kind.inputs(part, answers) for name, kind in self.kinds.items()}
        return MixedInputs(answers, part.texts, **kinds)

    def to_json(self) -> dict[str, object]:
        return {name: kind.to_json() for name, kind in self.kinds.items() if name != TEXT}


def learn_features(
    config: Config, part: Labelled, tokenizer: Tokenizer | None, columns: Columns | None = None
) -> Features:
    """Learn features from the training part. `tokenizer`: for texts. `columns`: spelling of columns."""
    text = None if tokenizer is None else text_features(tokenizer, config)
    table = TableFeatures.learn(part, columns, config.data.rare_values) if part.columns else None
    image = None if part.pixels is None else ImageFeatures.learn(part, config)
    return _of_kind(config.data.kind, text, table, image)


def text_features(tokenizer: Tokenizer, config: Config) -> TextFeatures:
    return TextFeatures(tokenizer, config.model.context, config.framed)


def read_features(value: Any, tokenizer: Tokenizer | None, config: Config, source: str) -> Features:
    """Read the features that `to_json` returned."""
    text, kind = None if tokenizer is None else text_features(tokenizer, config), config.data.kind
    try:
        kinds = value if kind == MIXED else {kind: value}
        table = TableFeatures.from_json(kinds[TABLE]) if TABLE in kinds else None
        image = ImageFeatures.from_json(kinds[IMAGE], config) if IMAGE in kinds else None
    except (KeyError, TypeError, ValueError, AttributeError, RunError) as error:
        raise RunError(f"{source} is damaged: the features of its examples cannot be read ({error})") from None
    return _of_kind(kind, text, table, image)


def _of_kind(
    kind: str, text: TextFeatures | None, table: TableFeatures | None, image: ImageFeatures | None
) -> Features:
    if kind == MIXED:
        return MixedFeatures(text, table, image)
    features: Features | None = {TEXT: text, TABLE: table, IMAGE: image}[kind]
    assert features is not None
    return features
