"""Which words have vectors like a word's, and a plane on which one sees it."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import nn

from glassformer.bricks.embedding import WordVectors
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.arrays import numbers_of
from glassformer.inspection.links import words_of
from glassformer.models.reader import BagPredictor, Predictor
from glassformer.models.token_model import Seq2Seq, TokenModel
from glassformer.text.tokenizer import Tokenizer

NOTHING = 1e-9
"""A spread that is this small beside the largest is rounding."""


@dataclass(frozen=True)
class Neighbours:
    """A word, the words nearest to it, and the vectors of all of them, its own first."""

    word: str
    words: list[str]
    vectors: Float[Array, "_ d"]

    @property
    def dots(self) -> Float[Array, "k"]:
        """Of each nearest word's vector with the word's own."""
        return self.vectors[1:].astype(np.float64) @ self.vectors[0]

    @property
    def cosines(self) -> Float[Array, "k"]:
        return cosines(self.vectors)[0, 1:]


def word_table(model: nn.Module) -> Float[Array, "V d"]:
    """A model's word vectors; of a translator those of the source; of a bag of words what each word adds."""
    table: nn.Module | None = None
    if isinstance(model, BagPredictor):
        return numbers_of(model.bag.table.weight[: model.bag.vocab])
    if isinstance(model, Seq2Seq):
        table = model.embed_source
    elif isinstance(model, TokenModel | Predictor):
        table = words_of(model.embed)
    else:
        raise Misuse(f"{type(model).__name__} is a model of one's own: where its word vectors are, only it knows")
    if not isinstance(table, WordVectors):
        raise Misuse("this model has no word vectors: its words are one-hot, or it reads none (model.embed vectors)")
    return numbers_of(table.table.weight)


def word_id(word: str, tokenizer: Tokenizer) -> int:
    """The token that is this word, as it stands after a blank if there is such a token."""
    if not word.strip():
        raise Misuse("there is no word to look for")
    for text in dict.fromkeys([f" {word.lstrip(' ')}", word]):
        ids = tokenizer.encode(text)
        if len(ids) == 1 and ids[0] != tokenizer.unk:
            return ids[0]
    if tokenizer.unk in ids:
        raise Misuse(f"'{word}' is unknown: it is not among the {tokenizer.vocab_size:,} tokens of this model")
    cut = "|".join(tokenizer.token(id) for id in ids)
    raise Misuse(f"'{word}' has no vector of its own: it is cut into {len(ids)} tokens, {cut}; ask for one of them")


def nearest(table: Float[Array, "V d"], id: int, most: int = 10, *, skip: Collection[int] = ()) -> list[int]:
    """The rows nearest to row `id` by dot product, nearest first; neither itself nor those to skip."""
    order = np.argsort(-(table.astype(np.float64) @ table[id]), kind="stable")
    return order[~np.isin(order, [id, *skip])][:most].tolist()


def neighbours_of(model: nn.Module, tokenizer: Tokenizer, word: str, *, most: int = 10) -> Neighbours:
    """The words whose vectors are nearest to a word's."""
    table = word_table(model)
    id = word_id(word, tokenizer)
    beyond = range(tokenizer.vocab_size, len(table))  # a table may have more rows than there are tokens
    rows = nearest(table, id, most, skip={*no_words(tokenizer), *beyond})
    return Neighbours(tokenizer.token(id).strip(), [tokenizer.token(one) for one in rows], table[[id, *rows]])


def no_words(tokenizer: Tokenizer) -> set[int]:
    """Special tokens, bytes that are only part of a character, signs that are never printed, and ids of no token."""
    ids = set(tokenizer.specials)
    for id in range(tokenizer.vocab_size):
        try:
            if not tokenizer.token_bytes(id).decode().strip().isprintable():
                ids.add(id)
        except (IndexError, UnicodeDecodeError):
            ids.add(id)
    return ids


COSINE = "cos(a, b) = a·b / (|a| |b|)"


def cosines(vectors: Float[Array, "N d"]) -> Float[Array, "N N"]:
    """Of every two of these vectors; 0 beside a vector that is 0."""
    unit = _unit(vectors.astype(np.float64))
    return np.clip(unit @ unit.T, -1, 1)


def closest(alike: Float[Array, "N N"]) -> tuple[int, int]:
    """The two different ones that are most alike."""
    above = np.where(np.triu(np.ones_like(alike, dtype=bool), 1), alike, -np.inf)
    first, second = np.unravel_index(above.argmax(), above.shape)
    return int(first), int(second)


def plane(
    vectors: Float[Array, "N d"], like: Float[Array, "N 2"] | None = None
) -> tuple[Float[Array, "N 2"], tuple[float, float]]:
    """Principal components: the two directions in which the vectors spread most, and each one's share of the spread.

    X − mean = U S Vᵀ; the points are the first two columns of U S. A direction may point either way: here so that its
    first point that is not 0 is positive, or as the points of `like` do.
    """
    x = vectors.astype(np.float64)
    u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    s = np.where(s > NOTHING * max(s[0], np.abs(x).max()), s, 0.0)
    points = np.zeros((len(x), 2))
    points[:, : len(s)] = (u * s)[:, :2]
    for axis in range(2):
        column = points[:, axis]
        agreement = 0.0 if like is None else float(column @ like[:, axis])
        far = column[np.abs(column) > NOTHING * np.abs(column).max(initial=0.0)]
        if (agreement or (far[0] if len(far) else 1.0)) < 0:
            points[:, axis] = -column
    spread = np.square(s)
    shares = np.zeros(2)
    shares[: len(s)] = (spread / max(spread.sum(), np.finfo(float).tiny))[:2]
    return points + 0.0, (float(shares[0]), float(shares[1]))


def _unit(vectors: Float[Array, "*rest d"]) -> Float[Array, "*rest d"]:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
