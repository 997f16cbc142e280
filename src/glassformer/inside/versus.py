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
from glassformer.inside.attention import attention_of
from glassformer.inside.capture import capture, layers_of
from glassformer.inside.panels import Heads, Line, Lines, Panel, Table, Tokens
from glassformer.inside.view import View
from glassformer.models.reader import BagReader, Reader
from glassformer.models.seq2seq import Seq2Seq

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
    """Labels or next tokens with their probabilities, likeliest first; of a regressor one name and its number."""
    scores: Vector
    """Before any softmax."""
    layers: Sequence[tuple[str, Vector]]
    """After every layer, the mean of the tokens' vectors; at the end what the head reads."""
    attention: Float[Array, "L h T T"] | None = None

    @property
    def answer(self) -> str:
        """What it says, with the probability."""
        name, value = next(iter(self.answers.items()))
        return f"{name} ({value:.3f})" if len(self.answers) > 1 else f"{value:.6g}"


@dataclass(frozen=True)
class Compared:
    """Two sides against each other."""

    same_words: bool
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
    model: nn.Module, inputs: Sequence[Any], *, text: str, tokens: Sequence[str], answers: Mapping[str, float]
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
    if isinstance(model, Reader):
        layers.append(("pooled", _array(seen["pool.output"][0])))
    elif isinstance(model, BagReader):
        layers.append(("pooled", _array(model.features(*inputs)[0])))
    found = attention_of(model, inputs)
    weights = next((found[name] for name in OF_THE_TEXT if name in found), None)
    return Side(text, tokens, answers, _array(scores[0]), layers, weights)


def compare_sides(a: Side, b: Side) -> Compared:
    """How far apart a model's scores and vectors of the two texts are."""
    cosines, distances = [], []
    for (_, one), (_, other) in zip(a.layers, b.layers, strict=True):
        x, y = one.astype(np.float64), other.astype(np.float64)
        lengths = np.linalg.norm(x), np.linalg.norm(y)
        cosines.append(float(x @ y / max(lengths[0] * lengths[1], np.finfo(float).tiny)))
        distances.append(float(np.linalg.norm(x - y) / max(sum(lengths) / 2, np.finfo(float).tiny)))
    largest = max(1.0, float(np.abs(a.scores).max()), float(np.abs(b.scores).max()))
    return Compared(
        same_words=Counter(a.tokens) == Counter(b.tokens),
        difference=float(np.abs(a.scores.astype(np.float64) - b.scores).max()),
        rounding=ROUNDING * largest,
        layers=[name for name, _ in a.layers],
        cosines=cosines,
        distances=distances,
    )


def versus_view(a: Side, b: Side, *, title: str = "Two texts, one model") -> View:
    """What the model says of both, how far apart they are after every layer, and where it looks in each."""
    compared = compare_sides(a, b)
    sides = (("first", a, b), ("second", b, a))
    panels: list[Panel] = [_answers(a, b)]
    for name, side, other in sides:
        note = "shaded: where the other text has another word"
        panels.append(
            Tokens(title=f"the {name} text", tokens=side.tokens, values=_moved(side.tokens, other.tokens), note=note)
        )
    if compared.layers:
        panels += [_lines([("", compared)]), _layers(compared)]
    for name, side, _ in sides:
        if side.attention is not None:
            tokens, weights = side.tokens, side.attention
            panels.append(Heads(title=f"attention in the {name} text", weights=weights, rows=tokens, columns=tokens))
    return View(title, panels, f"{_texts(a, b)} {verdict(a, b)}")


def versus_runs_view(runs: Sequence[tuple[str, Side, Side]], *, title: str = "Two texts, several models") -> View:
    """The same two texts as several runs see them: one trained with positions and one without, say."""
    compared = [(name, compare_sides(a, b)) for name, a, b in runs]
    rows = [
        (name, a.answer, b.answer, found.difference, "yes" if found.apart else "no")
        for (name, a, b), (_, found) in zip(runs, compared, strict=True)
    ]
    columns = ("run", "says of the first", "of the second", "largest difference of scores", "tells them apart")
    panels: list[Panel] = [Table(columns=columns, rows=rows)]
    if all(found.layers for _, found in compared):
        panels.append(_lines(compared))
    said = [f"{name}: {verdict(a, b)}" for name, a, b in runs]
    return View(title, panels, " ".join([_texts(*runs[0][1:]), *said]))


def verdict(a: Side, b: Side) -> str:
    """Whether the model can tell the two apart, in words."""
    compared = compare_sides(a, b)
    by = f"largest difference of its scores: {compared.difference:.3g}"
    if not compared.apart:
        how = "but for rounding" if compared.difference else "to the last digit"
        return f"This model gives both the same answer {how} ({by}): it cannot tell them apart."
    says = f"{a.answer} of the first, {b.answer} of the second"
    return f"This model tells them apart ({by}): it says {says}."


def _texts(a: Side, b: Side) -> str:
    if list(a.tokens) == list(b.tokens):
        return f"'{a.text}' and '{b.text}' are the same to a model."
    same = Counter(a.tokens) == Counter(b.tokens)
    return f"'{a.text}' and '{b.text}' {'hold the same words, in another order' if same else 'hold different words'}."


def _answers(a: Side, b: Side) -> Table:
    names = list(dict.fromkeys([*a.answers, *b.answers]))
    rows = [(name, a.answers.get(name), b.answers.get(name)) for name in names]
    columns = ("answer", "first text", "second text")
    return Table(title="what the model says", columns=columns, rows=rows, bars=columns[1:] if len(names) > 1 else ())


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
    return _array(states[0].mean(0))


def _array(tensor: Tensor) -> Vector:
    return tensor.float().cpu().numpy()
