"""Examples as a model reads them, whatever they are: what it is called with, and the answer to each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.order import TOKENS_AT_ONCE, token_borders
from glassformer.data.split.labelled import Labelled
from glassformer.models.inputs import Shape

Tensors = tuple[Tensor, ...]

FEWEST_AT_ONCE, BATCHES = 2**11, 16
"""Tokens in a batch of which nothing is learned where there are few examples; and batches, before these grow."""


class Inputs(ABC):
    """Some examples. A model is called with the tensors that `take` gives, one after the other."""

    answers: NDArray[Any]
    """A class number, or a number, for each."""
    texts: Sequence[str]
    """What a person knows each by: its text, its values, its file."""
    noun: str = "example"
    """What one of them is called."""
    remarks: tuple[str, ...] = ()
    """What was odd about them, in words for a person."""
    has_words: bool = False
    """Texts are among what is read."""

    def __len__(self) -> int:
        return len(self.texts)

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each; those of like length go together."""

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> Tensors:
        """What a model is called with for these examples."""

    @abstractmethod
    def select(self, rows: NDArray[np.int64]) -> "Inputs":
        """Only these examples."""

    def trim(self, tensors: Tensors) -> Tensors:
        """The tensors of some of the examples that were taken together, without padding that none of them needs."""
        return tensors

    def augment(self, tensors: Tensors, step: int) -> Tensors:
        """The tensors of a step of training, where examples are changed a little: a function of seed and step alone."""
        return tensors

    def batches(self, tokens: int = TOKENS_AT_ONCE) -> Iterator[tuple[NDArray[np.int64], Tensors]]:
        """All examples once, those of like length together: which they are, and what a model is called with.

        `tokens`: how many a batch may hold, padding among them.
        """
        for rows in self.batch_rows(tokens):
            yield rows, self.take(rows)

    def batch_rows(self, tokens: int = TOKENS_AT_ONCE) -> Iterator[NDArray[np.int64]]:
        """Which examples are in each of the batches."""
        lengths = self.lengths
        order = np.argsort(lengths, kind="stable")
        # few examples in several batches all the same: else short ones are padded to the longest of all
        most = min(tokens, max(FEWEST_AT_ONCE, int(lengths.sum()) // BATCHES))
        for first, last in pairwise(token_borders(most, lengths[order])):
            yield order[first:last]


class Features(ABC):
    """How an example becomes what a model reads: learned from the training part, and saved in the run."""

    remarks: tuple[str, ...] = ()
    """What learning found, in words for a person."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """What a model has to know of the examples."""

    @abstractmethod
    def inputs(self, part: Labelled, answers: NDArray[Any]) -> Inputs:
        """The examples of a part as a model reads them."""

    def to_json(self) -> dict[str, Any]:
        """What was learned, for a run to keep; nothing, where it is all in the tokenizer."""
        return {}

    @property
    @abstractmethod
    def words(self) -> str:
        """What is read, for a person."""
