"""Interfaces of inputs (examples as a model reads them) and of features (which make inputs from a part)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.order import TOKENS_AT_ONCE, token_borders
from glassformer.data.split.labelled import Labelled
from glassformer.models.inputs import Shape

Tensors = tuple[Tensor, ...]
Answers = NDArray[np.int64 | np.float32 | np.float64]
"""Numbers of classes, or amounts; for several labels per example, N×labels."""

MIN_BATCH_TOKENS, MIN_BATCHES = 2**11, 16
"""Minimum number of tokens per evaluation batch; batches are larger only if there are at least MIN_BATCHES of them."""


class Inputs(ABC):
    """Examples. A model is called with the tensors that `take` returns."""

    answers: Answers
    """The number of the class, or the amount, of each example."""
    texts: Sequence[str]
    """The text, values or file of each example, for people."""
    noun: str = "example"
    """Name of one example in messages."""
    remarks: tuple[str, ...] = ()
    """Messages on anomalies."""
    has_words: bool = False
    """Whether the model reads texts."""

    def __len__(self) -> int:
        return len(self.texts)

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each example."""

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> Tensors:
        """Return the tensors of these examples with which a model is called."""

    @abstractmethod
    def select(self, rows: NDArray[np.int64]) -> "Inputs":
        """Return only these examples."""

    def trim(self, tensors: Tensors) -> Tensors:
        """Return the tensors of some examples of a batch without unnecessary padding."""
        return tensors

    def augment(self, tensors: Tensors, step: int) -> Tensors:
        """Return the tensors of a training step, augmented as a function of seed and step alone."""
        return tensors

    def batches(self, tokens: int = TOKENS_AT_ONCE) -> Iterator[tuple[NDArray[np.int64], Tensors]]:
        """Yield the rows and tensors of batches of similar length, each example once.

        `tokens`: maximum number of tokens in a batch, with padding.
        """
        for rows in self.batch_rows(tokens):
            yield rows, self.take(rows)

    def batch_rows(self, tokens: int = TOKENS_AT_ONCE) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of each batch."""
        lengths = self.lengths
        order = np.argsort(lengths, kind="stable")
        # even few examples form several batches; otherwise short ones would be padded to the longest of all
        most = min(tokens, max(MIN_BATCH_TOKENS, int(lengths.sum()) // MIN_BATCHES))
        for first, last in pairwise(token_borders(most, lengths[order])):
            yield order[first:last]


class Features(ABC):
    """Rule by which examples become inputs, learned from the training part and saved in the run."""

    remarks: tuple[str, ...] = ()
    """Messages from learning."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """The facts about examples that a model is built from."""

    @abstractmethod
    def inputs(self, part: Labelled, answers: Answers) -> Inputs:
        """Return the examples of a part as a model reads them."""

    def to_json(self) -> dict[str, object]:
        """Return what was learned, except the tokenizer, for the run's card."""
        return {}

    @property
    @abstractmethod
    def words(self) -> str:
        """Description of the inputs, for people."""
