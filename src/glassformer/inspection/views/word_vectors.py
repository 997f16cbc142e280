"""Word vectors: the vectors of one word in several contexts, and the nearest neighbours of a word.

In context, the vector of a word is the same in all sentences at the input and changes with its surroundings from layer
to layer. Both views include a map of the vectors on a plane.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from glassformer.bricks.capabilities import capability
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.capture import numbers_of, vectors_by_layer
from glassformer.inspection.views.registry import LookRequest, leader, register_view, sentence
from glassformer.models.capabilities import CountsTokens, HasHead, HasWordVectors, LayerOutputs
from glassformer.rendering.panels import Frames, Grid, Lines, Panel, Points, Table, Words
from glassformer.rendering.takeaways import course
from glassformer.rendering.view import View
from glassformer.text.alignment import Span, tokens_of
from glassformer.text.display import cut, quoted
from glassformer.text.tokenizer import Tokenizer

COSINE = "cos(a, b) = a·b / (|a| |b|)"
ROUNDING_SPREAD = 1e-9
"""A spread below this fraction of the largest one is a rounding error."""
EQUAL_SHARE = 1e-5
"""Vectors that differ by at most this share of their largest number count as equal."""
MIN_MAPPED = 3
"""Minimum number of vectors on a map; two vectors lie on a line, so that the second axis would be empty."""
CONTEXT_CHARS = 14
"""Maximum number of characters that are shown on each side of the word."""
MAX_QUOTED_CHARS = 60
"""Maximum number of characters of a sentence in an error message."""


@register_view(
    "word",
    options=("word", "anchors"),
    texts="several",
    needs=lambda loaded: loaded.tokenizer is not None and loaded.capability(LayerOutputs) is not None,
)
def word(request: LookRequest) -> View:
    if request.word is None:
        raise Misuse('the view word needs a word: --word bank "by the bank" "at the bank"')
    if not request.texts:
        raise Misuse(f"--word {request.word} compares the word in several texts, and there are none")
    sentences: list[str] = []
    vectors, layers = [], [""]
    for text in request.texts:
        layers, of_text = _vectors_in(request, request.word, str(text))
        sentences += [str(text)] * len(of_text)
        vectors.append(of_text)
    anchors = [anchor.strip() for anchor in (request.anchors or "").split(",") if anchor.strip()]
    if request.anchors is not None and not anchors:
        raise Misuse("--anchors has no words: separate them by commas, as in --anchors river,money")
    by_anchor = {anchor: _vectors_in(request, anchor, anchor)[1][0] for anchor in anchors}
    return word_view(request.word, sentences, np.concatenate(vectors), layers, by_anchor)


def _vectors_in(request: LookRequest, word: str, text: str) -> tuple[list[str], Float[Array, "N L d"]]:
    """Return the names of the layers, and the vectors of a word by occurrence in a text and layer."""
    example = request.encode(text)
    spans = find_word(word, text, request.source_tokenizer, example.ids)
    places = [(start + example.words.start, end + example.words.start) for start, end in spans]
    return word_vectors(request.model, example.inputs, places)


@register_view(
    "nearest",
    texts="several",
    needs=lambda loaded: loaded.capability(HasWordVectors) is not None,
)
def nearest_words(request: LookRequest) -> View:
    if not request.texts:
        raise Misuse("the view nearest needs words: glassformer look RUN good bad --view nearest")
    tokenizer = request.source_tokenizer
    return neighbours_view([neighbours_of(request.model, tokenizer, str(text)) for text in request.texts])


# --- a word in its context ---


def places_of(word: str, text: str) -> list[Span]:
    """Return the character spans [start, end) of a whole word in a text, ignoring case.

    Scripts without capital letters may have no blanks between words. There, a word that is nowhere separate is also
    found inside longer sequences.
    """
    whole = re.escape(word)
    spans = [match.span() for match in re.finditer(rf"(?<!\w){whole}(?!\w)", text, re.IGNORECASE)]
    if not spans and word.isalpha() and word.lower() == word.upper():
        spans = [match.span() for match in re.finditer(whole, text)]
    return spans


def find_word(word: str, text: str, tokenizer: Tokenizer, ids: Sequence[int] | None = None) -> list[Span]:
    """Return the token span [start, end) of each occurrence of a word in a text.

    `ids` are the ids that a model reads of the text, including START if it has one. Occurrences that were cut off are
    omitted. Raises `Misuse` if there is no occurrence or the word is unknown.
    """
    word = word.strip()
    if not word:
        raise Misuse("there is no word to look for")
    places = places_of(word, text)
    if not places:
        raise Misuse(f"the sentence '{_short(text)}' does not hold the word '{word}'")
    spans: list[Span] = []
    for tokens in tokens_of(places, text, tokenizer, ids):
        if [piece.id for piece in tokens.pieces] == [tokenizer.unk]:
            raise Misuse(f"'{word}' is unknown to this model: it reads <unk> in '{_short(text)}'")
        if tokens.positions:
            spans.append((tokens.positions[0], tokens.positions[-1] + 1))
    if not spans:
        read = "" if ids is None else f"{len(ids):,} "
        raise Misuse(f"'{word}' stands beyond the {read}tokens that are read of '{_short(text)}'")
    return spans


@torch.inference_mode()
def word_vectors(
    model: nn.Module, inputs: Sequence[Any], spans: Sequence[Span]
) -> tuple[list[str], Float[Array, "N L d"]]:
    """Return the names of the layers, and a vector per span and layer: the mean over the tokens of the span.

    In a translator, these are the layers of the encoder. Layers whose width differs from the encoder's are omitted.
    """
    if capability(model, CountsTokens) is not None:
        raise Misuse("a bag of words has one vector for a word, whatever stands around it")
    if (known := capability(model, LayerOutputs)) is None:
        raise Misuse(f"{type(model).__name__} is a model of one's own: what its layers are, only it knows")
    vectors = vectors_by_layer(known, "encoder", inputs)[:-1]
    layers = [(name, x[0].float()) for name, x in vectors if x.shape[-1] == known.encoder.width]
    means = [torch.stack([x[start:end].mean(0) for _, x in layers]) for start, end in spans]
    return [name for name, _ in layers], numbers_of(torch.stack(means))


def word_view(
    word: str,
    sentences: Sequence[str],
    vectors: Float[Array, "N L d"],
    layers: Sequence[str],
    anchors: Mapping[str, Float[Array, "L d"]] | None = None,
) -> View:
    """Return the similarities of the vectors of a word, layer by layer.

    `sentences` holds the sentence of each vector. A sentence with two occurrences is listed twice, in text order.
    `anchors` holds the vectors of other words by layer. A chart per occurrence shows its cosine with each anchor.
    """
    labels = _labels(word, sentences)
    if not anchors and len(vectors) < 2:
        raise Misuse(f"'{word}' stands in one place only: there is nothing to compare it with; give two sentences")
    panels: list[Panel] = []
    if anchors:
        panels += [_anchor_chart(word, label, own, layers, anchors) for label, own in zip(labels, vectors, strict=True)]
    if len(vectors) > 1:
        panels += _similarity(word, labels, vectors, layers)
    return View(f"“{word}” in its context", panels)


def _anchor_chart(
    word: str,
    label: str,
    vectors: Float[Array, "L d"],
    layers: Sequence[str],
    anchors: Mapping[str, Float[Array, "L d"]],
) -> Lines:
    """Return the cosine of one occurrence of the word with each anchor, layer by layer."""
    by_anchor = {
        anchor: [float(cosines(np.stack(pair))[0, 1]) for pair in zip(vectors, other, strict=True)]
        for anchor, other in anchors.items()
    }
    last = [values[-1] for values in by_anchor.values()]
    takeaway = leader("nearest anchor", list(map(quoted, by_anchor)), last, layer=layers[-1])
    title, y_name, note = f"“{label}”", f"cosine with “{word}”", "Each anchor is read alone."
    return Lines.by_layer(layers, by_anchor.items(), title=title, takeaway=takeaway, y_name=y_name, note=note)


def _similarity(word: str, labels: Sequence[str], vectors: Float[Array, "N L d"], layers: Sequence[str]) -> list[Panel]:
    """Return the pairwise cosines of a word's vectors and a map, layer by layer, and a chart of the mean cosine."""
    frames: list[list[Panel]] = []
    points: Float[Array, "N 2"] | None = None
    for layer in vectors.swapaxes(0, 1):
        if np.ptp(layer, 0).max() <= EQUAL_SHARE * np.abs(layer).max():
            frames.append([Words(text=sentence("same vector", count=len(layer), word=word))])
            continue
        frames.append([cosine_grid("How alike", labels, layer)])
        if len(layer) >= MIN_MAPPED:
            on_map = map_of("On a map", layer, labels, like=points)
            frames[-1].append(on_map)
            points = on_map.points
    pairs = ~np.eye(len(vectors), dtype=bool)
    means = [float(cosines(layer)[pairs].mean()) for layer in vectors.swapaxes(0, 1)]
    title, takeaway = "How alike, layer by layer", f"The mean cosine {course(means)}"
    mean = Lines.by_layer(layers, [("mean of all pairs", means)], title=title, takeaway=takeaway, y_name="cosine")
    return [Frames(name="after", labels=layers, frames=frames), mean]


def _labels(word: str, sentences: Sequence[str]) -> list[str]:
    """Return the text around the word in each sentence; a repeated sentence shows the next occurrence."""
    labels = []
    for number, text in enumerate(sentences):
        places = places_of(word, text) or [(0, len(text))]
        start, end = places[min(list(sentences[:number]).count(text), len(places) - 1)]
        left, right = max(0, start - CONTEXT_CHARS), min(len(text), end + CONTEXT_CHARS)
        labels.append("…" * (left > 0) + " ".join(text[left:right].split()) + "…" * (right < len(text)))
    return labels


def _short(text: str) -> str:
    return cut(" ".join(text.split()), MAX_QUOTED_CHARS)


# --- nearest neighbours ---


@dataclass(frozen=True)
class Neighbours:
    """A word and its nearest neighbours, with their vectors; the vector of the word itself is the first."""

    word: str
    words: list[str]
    vectors: Float[Array, "_ d"]

    @property
    def dots(self) -> Float[Array, "k"]:
        """The dot product of each neighbour's vector with the word's own."""
        return self.vectors[1:].astype(np.float64) @ self.vectors[0]

    @property
    def cosines(self) -> Float[Array, "k"]:
        """The cosine of each neighbour's vector with the word's own."""
        return cosines(self.vectors)[0, 1:]


def word_table(model: nn.Module) -> Float[Array, "V d"]:
    """Return the word vectors of a model: in a translator those of the source, in a bag of words the rows of its table.

    Raises `Misuse` if the model has no word vectors.
    """
    if (known := capability(model, HasWordVectors)) is not None:
        return numbers_of(known.word_vectors())
    if capability(model, HasHead) is None:
        raise Misuse(f"{type(model).__name__} is a model of one's own: where its word vectors are, only it knows")
    raise Misuse("this model has no word vectors: its words are one-hot, or it reads none (model.embed vectors)")


def word_id(word: str, tokenizer: Tokenizer) -> int:
    """Return the id of the token that is this word, preferably the token with a preceding blank.

    Raises `Misuse` if the word is unknown or consists of several tokens.
    """
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
    """Return the rows with the largest dot products with row `id`, in descending order, without `id` and `skip`."""
    order = np.argsort(-(table.astype(np.float64) @ table[id]), kind="stable")
    return order[~np.isin(order, [id, *skip])][:most].tolist()


def neighbours_of(model: nn.Module, tokenizer: Tokenizer, word: str, *, most: int = 10) -> Neighbours:
    """Return the words whose vectors are nearest to a word's vector."""
    table = word_table(model)
    id = word_id(word, tokenizer)
    beyond = range(tokenizer.vocab_size, len(table))  # A table may have more rows than there are tokens.
    rows = nearest(table, id, most, skip={*no_words(tokenizer), *beyond})
    return Neighbours(tokenizer.token(id).strip(), [tokenizer.token(row) for row in rows], table[[id, *rows]])


def no_words(tokenizer: Tokenizer) -> set[int]:
    """Return the ids that are not words: special tokens, incomplete UTF-8 characters, control characters and gaps."""
    ids = set(tokenizer.specials)
    for id in range(tokenizer.vocab_size):
        try:
            if not tokenizer.token_bytes(id).decode().strip().isprintable():
                ids.add(id)
        except (IndexError, UnicodeDecodeError):
            ids.add(id)
    return ids


def cosines(vectors: Float[Array, "N d"]) -> Float[Array, "N N"]:
    """Return the pairwise cosines of vectors; the cosine with a zero vector is 0."""
    x = vectors.astype(np.float64)
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    unit = np.divide(x, length, out=np.zeros_like(x), where=length > 0)
    return np.clip(unit @ unit.T, -1, 1)


def plane(
    vectors: Float[Array, "N d"], like: Float[Array, "N 2"] | None = None
) -> tuple[Float[Array, "N 2"], tuple[float, float]]:
    """Return the projection onto the first two principal components, and each component's share of the variance.

    X − mean = U S Vᵀ; the points are the first two columns of U S. The sign of a component is arbitrary. It is chosen
    so that the points agree with those of `like`, or else so that the first point other than 0 is positive.
    """
    x = vectors.astype(np.float64)
    u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    s = np.where(s > ROUNDING_SPREAD * max(s[0], np.abs(x).max()), s, 0.0)
    points = np.zeros((len(x), 2))
    points[:, : len(s)] = (u * s)[:, :2]
    for axis in range(2):
        column = points[:, axis]
        agreement = 0.0 if like is None else float(column @ like[:, axis])
        far = column[np.abs(column) > ROUNDING_SPREAD * np.abs(column).max(initial=0.0)]
        if (agreement or (far[0] if len(far) else 1.0)) < 0:
            points[:, axis] = -column
    spread = np.square(s)
    shares = np.zeros(2)
    shares[: len(s)] = (spread / max(spread.sum(), np.finfo(float).tiny))[:2]
    return points + 0.0, (float(shares[0]), float(shares[1]))


def neighbours_view(several: Sequence[Neighbours]) -> View:
    """Return the words nearest to each word; for several words also a map of all and their pairwise cosines."""
    own = [nearest.word for nearest in several]
    panels: list[Panel] = [_table(f"Like “{nearest.word}”", nearest) for nearest in several]
    if len(several) > 1:
        labels = [word for nearest in several for word in (nearest.word, *nearest.words)]
        groups = [nearest.word for nearest in several for _ in range(len(nearest.words) + 1)]
        vectors = np.concatenate([nearest.vectors for nearest in several])
        panels += [
            map_of("All of them on a map", vectors, labels, groups),
            cosine_grid("How alike the words are", own, np.stack([nearest.vectors[0] for nearest in several])),
        ]
    return View(f"Words like {', '.join(f'“{word}”' for word in own)}", panels)


def map_of(
    title: str,
    vectors: Float[Array, "N d"],
    labels: Sequence[str],
    groups: Sequence[str] = (),
    like: Float[Array, "N 2"] | None = None,
) -> Points:
    """Return the vectors on a plane, with the share of the variance on each axis; `like` is as in `plane`."""
    points, shares = plane(vectors, like)
    x, y = (f"{share:.0%} of the spread" for share in shares)
    takeaway = f"The map shows {sum(shares):.0%} of the spread"
    return Points(title=title, takeaway=takeaway, points=points, labels=labels, groups=groups, x_name=x, y_name=y)


def cosine_grid(title: str, names: Sequence[str], vectors: Float[Array, "N d"], **facts: Any) -> Grid:
    """Return a grid of the pairwise cosines of vectors; `facts` are other fields of the grid."""
    alike = cosines(vectors)
    pairs = [f"“{one}” and “{other}”" for one in names for other in names]
    closest = leader("closest", pairs, np.where(np.triu(np.ones_like(alike, dtype=bool), 1), alike, np.nan))
    facts = {"takeaway": closest, "numbers": True, **facts}
    return Grid(title=title, values=alike, rows=names, columns=names, signed=True, high=1.0, formula=COSINE, **facts)


def _table(title: str, near: Neighbours) -> Table:
    rows = list(zip(near.words, near.dots.tolist(), near.cosines.tolist(), strict=True))
    bars = ("cosine",) if all(cosine >= 0 for _, _, cosine in rows) else ()
    nearest = leader("nearest word", list(map(quoted, near.words)), near.dots)
    return Table(title=title, takeaway=nearest, columns=("word", "dot product", "cosine"), rows=rows, bars=bars)
