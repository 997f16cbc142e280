"""Two texts side by side: the same words in another order, say, and whether a model can tell them apart.

Without positions, attention sees a set of words: every sum in it has the same terms, whatever their order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.config.arrays import Array
from glassformer.encoders.base import Encoder
from glassformer.inspection.arrays import numbers_of
from glassformer.inspection.attention import attention_of
from glassformer.inspection.capture import capture, layers_of
from glassformer.inspection.nearest import cosines
from glassformer.models.reader import BagPredictor, Predictor
from glassformer.models.seq2seq import Seq2Seq
from glassformer.rendering.panels import Heads, Line, Lines, Panel, Table, Tokens
from glassformer.rendering.view import View

Vector = Float[Array, "d"]

ROUNDING = 1e-5
"""Scores that differ by no more than this share of the largest are equal: sums in another order round differently."""
OF_THE_TEXT = ("self", "source")
"""The attentions among the tokens of the text itself."""

OF_LAYERS = "of the mean over the tokens' vectors after each layer; pooled: of what the head reads"


@dataclass(frozen=True)
class Side:
    """One text, and what a model makes of it."""

    text: str
    tokens: Sequence[str]
    answers: Mapping[str, float]
    """Labels or next tokens with their probabilities; empty: it does not choose among few."""
    said: str
    """What the model says, in words."""
    scores: Vector
    """Before any softmax."""
    layers: Sequence[tuple[str, Vector]]
    """After every layer, the mean of the tokens' vectors; at the end what the head reads."""
    attention: Float[Array, "L h T T"] | None = None
    ids: Sequence[int] = ()
    """The words among the tokens, which else are the names of columns or patches."""
    alike: float | None = None
    """Where vectors are what a model is for: the cosine of this one and the other's."""


@dataclass(frozen=True)
class Compared:
    """Two sides against each other."""

    difference: float
    """The largest between their scores."""
    rounding: float
    """Up to so much is none."""
    layers: Sequence[str]
    cosines: Sequence[float]
    distances: Sequence[float]
    """Of the two vectors after each layer, as a share of their mean length."""

    @property
    def apart(self) -> bool:
        """Whether the model can tell the two apart."""
        return self.difference > self.rounding


@torch.inference_mode()
def side_of(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    text: str,
    tokens: Sequence[str],
    answers: Mapping[str, float],
    said: str,
    ids: Sequence[int] = (),
    alike: float | None = None,
) -> Side:
    """Of the first example. A language model's scores are those of the next token, a translator's of the first."""
    encoder = getattr(model, "encoder", None)
    with capture(model, ("encoder.*", "*.vectors", "pool.output", "logits")) as seen:
        scores = model(*inputs)
    if scores.dim() == 3:
        scores = scores[:, 0 if isinstance(model, Seq2Seq) else -1]
    layers: list[tuple[str, Vector]] = []
    if isinstance(encoder, Encoder):
        layers = [(name, _mean(states)) for name, states in layers_of(seen, encoder, "encoder")]
    if isinstance(model, Predictor):
        layers.append(("pooled", numbers_of(seen["pool.output"][0])))
    elif isinstance(model, BagPredictor):
        layers.append(("pooled", numbers_of(model.features(*inputs)[0])))
    found = attention_of(model, inputs)
    weights = next((found[name] for name in OF_THE_TEXT if name in found), None)
    return Side(text, tokens, answers, said, numbers_of(scores[0]), layers, weights, ids, alike)


def compare_sides(a: Side, b: Side) -> Compared:
    """How far apart a model's scores and vectors of the two texts are."""
    alike, distances = [], []
    for (_, one), (_, other) in zip(a.layers, b.layers, strict=True):
        pair = np.stack([one, other]).astype(np.float64)
        alike.append(float(cosines(pair)[0, 1]))
        mean = np.linalg.norm(pair, axis=1).mean()
        distances.append(float(np.linalg.norm(pair[0] - pair[1]) / max(mean, np.finfo(float).tiny)))
    largest = max(1.0, float(np.abs(a.scores).max()), float(np.abs(b.scores).max()))
    return Compared(
        difference=float(np.abs(a.scores.astype(np.float64) - b.scores).max()),
        rounding=ROUNDING * largest,
        layers=[name for name, _ in a.layers],
        cosines=alike,
        distances=distances,
    )


def versus_view(a: Side, b: Side, *, title: str = "Two texts, one model") -> View:
    """What the model says of both, how far apart they are after every layer, and where it looks in each."""
    compared = compare_sides(a, b)
    panels: list[Panel] = [_answers(a, b), *_tokens(a, b)]
    if compared.layers:
        panels += [_lines([("", compared)]), _layers(compared)]
    return View(title, [*panels, *_attention(a, b)], f"{_texts(a, b)} {verdict(a, b, compared)}")


def versus_runs_view(runs: Sequence[tuple[str, Side, Side]], *, title: str = "Two texts, several models") -> View:
    """The same two texts as several runs see them: one trained with positions and one without, say."""
    compared = [(name, compare_sides(a, b)) for name, a, b in runs]
    rows = [
        (name, a.said, b.said, found.difference, "yes" if found.apart else "no")
        for (name, a, b), (_, found) in zip(runs, compared, strict=True)
    ]
    columns = ("run", "says of the first", "of the second", "largest difference of scores", "tells them apart")
    panels: list[Panel] = [Table(columns=columns, rows=rows)]
    cut_alike = len({(tuple(a.tokens), tuple(b.tokens)) for _, a, b in runs}) == 1
    for name, a, b in runs[:1] if cut_alike else runs:
        panels += _tokens(a, b, "" if cut_alike else f"{name}: ")
    if all(found.layers for _, found in compared):
        panels.append(_lines(compared))
    for name, a, b in runs:
        panels += _attention(a, b, f"{name}: ")
    said = [f"{name}: {verdict(a, b, found)}" for (name, a, b), (_, found) in zip(runs, compared, strict=True)]
    return View(title, panels, " ".join([_texts(*runs[0][1:]), *said]))


def verdict(a: Side, b: Side, compared: Compared) -> str:
    """Whether the model can tell the two apart, in words."""
    by = f"largest difference of its scores: {compared.difference:.3g}"
    if not compared.apart:
        how = "but for rounding" if compared.difference else "to the last digit"
        return f"This model gives both the same answer {how} ({by}): it cannot tell them apart."
    if a.alike is not None:
        return f"The cosine of their vectors is {a.alike:.3f}."
    says = f"{a.said} of both" if a.said == b.said else f"{a.said} of the first, {b.said} of the second"
    return f"This model tells them apart ({by}): it says {says}."


def _texts(a: Side, b: Side) -> str:
    """By their words, where these are all that is read."""
    only_words = all(side.ids and len(side.ids) == len(side.tokens) for side in (a, b))
    if only_words and list(a.ids) == list(b.ids):
        return f"'{a.text}' and '{b.text}' are the same to a model."
    if only_words and Counter(a.ids) == Counter(b.ids):
        return f"'{a.text}' and '{b.text}' hold the same words, in another order."
    return f"'{a.text}' beside '{b.text}'."


def _answers(a: Side, b: Side) -> Table:
    """Likeliest first, as the first text has it."""
    title, columns = "what the model says", ("answer", "first text", "second text")
    if a.alike is not None:
        return Table(title="how alike the two vectors are", columns=("cosine",), rows=[(a.alike,)])
    if not a.answers and not b.answers:
        return Table(title=title, columns=columns[1:], rows=[(a.said, b.said)])
    found = [(name, a.answers.get(name), b.answers.get(name)) for name in dict.fromkeys([*a.answers, *b.answers])]
    rows = sorted(found, key=lambda row: [-1.0 if one is None else one for one in row[1:]], reverse=True)
    return Table(title=title, columns=columns, rows=rows, bars=columns[1:])


def _tokens(a: Side, b: Side, of: str = "") -> list[Panel]:
    """Both texts, where there are words in them."""
    note = "shaded: where the other text has another word"
    sides = (("first", a, b), ("second", b, a))
    return [
        Tokens(title=f"{of}the {name} text", tokens=one.tokens, values=_moved(one.tokens, other.tokens), note=note)
        for name, one, other in sides
        if one.ids
    ]


def _attention(a: Side, b: Side, of: str = "") -> list[Panel]:
    return [
        Heads(title=f"{of}attention in the {name} text", weights=side.attention, rows=side.tokens, columns=side.tokens)
        for name, side in (("first", a), ("second", b))
        if side.attention is not None
    ]


def _moved(tokens: Sequence[str], others: Sequence[str]) -> Float[Array, "1 T"]:
    """1 where the other text has something else at this place."""
    moved = [place >= len(others) or token != others[place] for place, token in enumerate(tokens)]
    return np.array([moved], dtype=np.float32)


def _lines(compared: Sequence[tuple[str, Compared]]) -> Lines:
    series = [
        Line(name=name, x=list(range(len(found.layers))), y=found.distances, dots=True) for name, found in compared
    ]
    return Lines(
        title="how far apart the two texts are",
        series=series,
        x_name="layer, the vectors that go in first",
        y_name="distance / mean length",
    )


def _layers(compared: Compared) -> Table:
    rows = list(zip(compared.layers, compared.cosines, compared.distances, strict=True))
    return Table(columns=("after", "cosine", "distance / mean length"), rows=rows, note=OF_LAYERS)


def _mean(states: Float[Tensor, "B T d"]) -> Vector:
    return numbers_of(states[0].mean(0))
