"""An example on its way through a model: what that is called with, and what a person knows its tokens by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from glassformer.config.errors import Misuse, Say
from glassformer.text.tokenizer import Tokenizer

Example = str | Mapping[str, Any]
"""A text, an image's file, or the values of a row by the names of their columns (as JSON, too)."""


@dataclass(frozen=True, kw_only=True)
class ModelInput:
    """One example. `model(*inputs)` computes it, as a batch of one."""

    inputs: tuple[Tensor | None, ...]
    text: str
    tokens: list[str]
    """A name for every vector that the encoder reads; of a translator, that of the source."""
    ids: list[int]
    """The words among them, START and END included."""
    words: range
    """Where these stand among the tokens."""
    written: list[str] | None = None
    """Of a translator: the tokens after which it writes, START first."""
    answers: list[str] | None = None
    """What follows each: the next token of a text ("" after the last), or what a translator writes, END last. Of a
    masked model what stands there ("": MASK).
    """
    answer_ids: list[int] | None = None
    """The same as ids; of a text one fewer, for nothing follows its last token."""
    stand: list[int | None] | None = None
    """Of a masked model: the id at each place, None where MASK stands, or what it is never asked for: START, END."""
    output: str = ""
    """What a translator writes."""
    columns: tuple[str, ...] = ()
    """Of a table's row: its numbers, then its categories."""
    pixels: NDArray[np.uint8] | None = None
    grid: tuple[int, int] | None = None
    """Rows and columns of an image's patches, which stand row by row at `patches`."""
    patches: range | None = None

    @property
    def follows(self) -> list[int | None]:
        """The id after each token that something is written after, or where one is guessed; None: nobody knows."""
        if self.stand is not None:
            return self.stand
        return [*(self.answer_ids or []), *([] if self.written else [None])]

    @property
    def sides(self) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
        """The tokens that look and those looked at, by stack of attention."""
        read, written = (self.tokens, self.tokens), (self.written or [], self.written or [])
        return {"self": read, "source": read, "target": written, "cross": (self.answers or [], self.tokens)}

    @property
    def square(self) -> tuple[int, int] | None:
        """How an example that is nothing but an image is cut: into patches, or into pixels where it is one vector."""
        if self.pixels is None or self.columns or self.ids:
            return None
        height, width = self.pixels.shape[:2]
        return self.grid or (height, width)

    @property
    def parts(self) -> Sequence[str]:
        """What a model can do without: a name for each token, or for each column or pixel of what is one vector."""
        if self.square is not None:
            return [f"{row},{column}" for row in range(self.square[0]) for column in range(self.square[1])]
        return self.columns if len(self.tokens) == 1 and self.columns else self.tokens


def say_unknown(tokenizer: Tokenizer, ids: list[int], say: Say) -> None:
    if tokenizer.unk is not None and (unknown := ids.count(tokenizer.unk)):
        say(f"{unknown} of the text's tokens {'is' if unknown == 1 else 'are'} unknown to this model")


@dataclass(frozen=True)
class Embedded:
    """A text as a vector, and where asked for its tokens, each with a vector of its own."""

    text: str
    vector: NDArray[np.float32]
    tokens: list[str] | None = None
    vectors: NDArray[np.float32] | None = None


def random_tokens(vocab: int, generator: Generator, max_tokens: int) -> torch.Tensor:
    """The ids of a text of half as many tokens or more, drawn evenly."""
    length = int(torch.randint(1 + max_tokens // 2, max_tokens + 1, (), generator=generator))
    return torch.randint(vocab, (1, length), generator=generator)


def check_text(example: Example) -> str:
    if not isinstance(example, str):
        raise Misuse(f"this run reads texts, not a {type(example).__name__}")
    return example


def evenly_chosen(places: NDArray[np.int64], count: int) -> list[int]:
    """So many of them at most, the first and the last among them."""
    if not len(places):
        return []
    return places[np.unique(np.linspace(0, len(places) - 1, count).round().astype(np.int64))].tolist()
