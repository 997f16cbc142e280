"""Labelled texts as a model reads them: token ids, end to end, and what is to be said of each text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import SettingError
from glassformer.data.features.inputs import Inputs, Tensors
from glassformer.data.features.sequences import Sequences
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Examples(Inputs):
    """Texts, and an answer to each."""

    tokens: Sequences
    answers: NDArray[Any]
    """A class number, or a number, for each text."""
    texts: Sequence[str]
    cut: int
    """How many texts were longer than the context."""
    unknown: int
    """How many ids are UNK."""

    noun = "text"

    @property
    def ids(self) -> NDArray[np.int32]:
        return self.tokens.ids

    @property
    def starts(self) -> NDArray[np.int64]:
        return self.tokens.starts

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.tokens.lengths

    def take(self, rows: NDArray[np.int64]) -> Tensors:
        return self.tokens.padded(rows)

    def trim(self, tensors: Tensors) -> Tensors:
        return self.tokens.trim(*tensors)


def encode_examples(
    texts: Sequence[str],
    answers: NDArray[Any],
    tokenizer: Tokenizer,
    *,
    context: int,
    framed: bool,
    translated: bool = False,
) -> Examples:
    """`framed`: START stands before each text and END after it, for models that know where a text begins and ends;
    before one that is to be `translated`, START does not.

    A text longer than the context is cut; its END stays.
    """
    roles = tokenizer.roles
    before = list(roles.source if translated else roles.opening) if framed else []
    after = list(tokenizer.roles.closing) if framed else []
    room = context - len(before) - len(after)
    if room < 1:
        raise SettingError(
            f"model.context {context} leaves no room for a word beside START and END: it must be at least "
            f"{len(before) + len(after) + 1}"
        )
    encoded = tokenizer.encode_batch(texts)
    cut = sum(len(ids) > room for ids in encoded)
    pieces = [np.concatenate([before, ids[:room], after]).astype(np.int32) for ids in encoded]
    tokens = Sequences.concatenate(pieces, tokenizer.pad or 0)
    return Examples(tokens, answers, texts, cut, tokens.count(tokenizer.unk))
