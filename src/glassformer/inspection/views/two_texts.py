"""Two texts side by side, such as the same words in another order, in one or two runs.

The view reports whether a model can distinguish the texts at all, and whether its answers differ. Without positions,
attention cannot distinguish the order of words: every sum has the same terms.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from glassformer.bricks.capabilities import capability
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.config.messages import silent
from glassformer.families.base import Family, Loaded
from glassformer.families.embedding import EmbeddingFamily, LoadedEmbedder
from glassformer.families.evaluate import encode_example
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.families.language import LanguageFamily, LoadedLanguageModel
from glassformer.families.requests import Example, ModelInput
from glassformer.inspection.attention import SOURCE_ATTENTION, attention_of, causal_stacks, clearest, sharpness
from glassformer.inspection.capture import capture, layers_of, numbers_of
from glassformer.inspection.views.head_roles import heads_panel
from glassformer.inspection.views.logit_lens import next_of
from glassformer.inspection.views.registry import LookRequest, leader, register_view, sentence
from glassformer.inspection.views.word_vectors import cosines
from glassformer.models.capabilities import HasDecoder, LayerOutputs, PoolsTokens
from glassformer.rendering.panels import Lines, Panel, Rows, Table, Tokens
from glassformer.rendering.takeaways import three
from glassformer.rendering.view import View
from glassformer.text.display import quoted
from glassformer.text.escaping import on_one_line, printable

Vector = Float[Array, "d"]

ROUNDING = 1e-5
"""Scores that differ by at most this share of the largest one count as equal: rounding depends on the order of sums."""
MIN_DIFFERENCE = 0.05
"""Minimum noticeable difference of probabilities and cosines, and of numbers relative to their size."""
SHOWN_TOKENS = 5
"""Number of likeliest next tokens that are shown."""
DISTANCE = "distance / mean length"
OF_RUNS = ("run", "first text", "second text", "largest difference of scores", "could tell apart", "tells apart")
"""Columns of the table of runs."""
OF_LAYERS = "of the mean over the tokens' vectors after each layer; pooled: of what the head reads"


@register_view("versus", options=("versus", "second_run", "beam"), needs=lambda loaded: loaded.family.text_loss)
def versus(request: LookRequest) -> View:
    if request.versus is None:
        raise Misuse('the view versus needs a second text: look RUN "A" --versus "B"')
    texts = request.text, request.versus
    runs = [loaded for loaded in (request.loaded, request.second_run) if loaded is not None]
    names = [str(loaded.run.path) for loaded in runs] if len(runs) > 1 else [""]
    return versus_view([
        Pair(_side(request, loaded, *texts), _side(request, loaded, *texts[::-1]), name)
        for name, loaded in zip(names, runs, strict=True)
    ])  # fmt: skip


@dataclass(frozen=True)
class Output:
    """The answer of a model to a text."""

    summary: str
    """The answer in a few words."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Probabilities of labels or next tokens; empty for other answers."""
    cosine: float | None = None
    """Cosine of the vectors of both texts in an embedding model; None for other models."""
    numeric: bool = False
    """Whether the answer is a number."""


@dataclass(frozen=True)
class Side:
    """One text with the answer, scores, vectors and attention of a model."""

    text: str
    tokens: Sequence[str]
    output: Output
    scores: Vector
    """Scores before any softmax."""
    layers: Sequence[tuple[str, Vector]]
    """Mean of the tokens' vectors after every layer; the last entry is the input of the head if there is a pool."""
    attention: Float[Array, "L h T T"] | None = None
    causal: bool = False
    """Whether no token attends to a later one."""
    ids: Sequence[int] = ()
    """Ids of the tokens that are words; the other tokens are columns or patches."""


@dataclass(frozen=True)
class Difference:
    """Differences between two sides."""

    largest: float
    """Largest difference between their scores."""
    layers: Sequence[str]
    cosines: Sequence[float]
    """Cosine of both vectors after each layer."""
    distances: Sequence[float]
    """Distance between both vectors after each layer, as a share of their mean length."""
    can: bool
    """Whether the model can distinguish the texts: its scores differ by more than rounding errors."""
    does: bool
    """Whether its answers differ noticeably."""


@torch.inference_mode()
def side_of(
    model: nn.Module, inputs: Sequence[Any], text: str, tokens: Sequence[str], output: Output, ids: Sequence[int] = ()
) -> Side:
    """Return the first example of a batch as a side.

    The scores of a language model are those of the next token, in a translator those of the first output token.
    """
    layered, decoder = capability(model, LayerOutputs), capability(model, HasDecoder)
    with capture(model, ("encoder.*", "*.vectors")) as seen:
        scores = model(*inputs)
    if scores.dim() == 3:
        scores = scores[:, -1 if decoder is None else 0]
    layers: list[tuple[str, Vector]] = []
    if layered is not None:
        named = layers_of(seen, layered.encoder, "encoder")
        layers = [(name, numbers_of(states[0].mean(0))) for name, states in named]
    if (reader := capability(model, PoolsTokens)) is not None:
        layers.append(("pooled", numbers_of(reader.features(*inputs)[0])))
    stacks = attention_of(model, inputs)
    stack = next((name for name in SOURCE_ATTENTION if name in stacks), "")
    causal = stack in causal_stacks(model)
    return Side(text, tokens, output, numbers_of(scores[0]), layers, stacks.get(stack), causal, ids)


def compare_sides(a: Side, b: Side) -> Difference:
    """Return the differences between a model's scores, vectors and answers of both texts."""
    pairs = [np.stack([x, y]).astype(np.float64) for (_, x), (_, y) in zip(a.layers, b.layers, strict=True)]
    lengths = [max(np.linalg.norm(pair, axis=1).mean(), np.finfo(float).tiny) for pair in pairs]
    largest, size = (float(np.abs(values).max()) for values in (a.scores.astype(np.float64) - b.scores, a.scores))
    can = largest > ROUNDING * max(1.0, size, float(np.abs(b.scores).max()))
    return Difference(
        largest=largest,
        layers=[name for name, _ in a.layers],
        cosines=[float(cosines(pair)[0, 1]) for pair in pairs],
        distances=[float(np.linalg.norm(x - y) / length) for (x, y), length in zip(pairs, lengths, strict=True)],
        can=can,
        does=can and _answers_differ(a.output, b.output, largest >= MIN_DIFFERENCE * size),
    )


def _answers_differ(first: Output, second: Output, scores_differ: bool) -> bool:
    """Return whether two answers differ noticeably; without comparable answers, return `scores_differ`."""
    if first.cosine is not None:
        return 1 - first.cosine >= MIN_DIFFERENCE
    if names := {*first.probabilities, *second.probabilities}:
        of_first, of_second = ([output.probabilities.get(name, 0.0) for name in names] for output in (first, second))
        return bool(np.abs(np.subtract(of_first, of_second)).max() >= MIN_DIFFERENCE)
    if not first.numeric and (first.summary or second.summary):
        return first.summary != second.summary
    return scores_differ


def _side(request: LookRequest, loaded: Loaded, text: Example, other: Example) -> Side:
    example = encode_example(loaded, text, beam=request.search.beam)
    output = output_of(loaded.family, loaded, example, text, other)
    return side_of(loaded.model, example.inputs, text=str(text), tokens=example.tokens, output=output, ids=example.ids)


# --- the answer of a run, by family ---


@singledispatch
def output_of(family: Family, loaded: Any, example: ModelInput, text: Example, other: Example) -> Output:
    """Return the answer of a run to a text; `other` is the text to compare it with.

    The answer of a translator is its translation.
    """
    return Output(example.output)


@output_of.register
def next_token_output(
    family: LanguageFamily, loaded: LoadedLanguageModel, example: ModelInput, text: Example, other: Example
) -> Output:
    never = loaded.tokenizer.never(loaded.model.head.out_features)
    likeliest = next_of(loaded.model, example.inputs, most=SHOWN_TOKENS, never=never)
    tokens = [loaded.tokenizer.shown(id) for id in likeliest.ids]
    probabilities = dict(zip(tokens, likeliest.probabilities, strict=True))
    return Output(f"{quoted(tokens[0])} ({likeliest.probabilities[0]:.3f})", probabilities)


@output_of.register
def prediction_output(
    family: LabellingFamily, loaded: LoadedPredictor, example: ModelInput, text: Example, other: Example
) -> Output:
    prediction = loaded.predict(text, say=silent)
    if prediction.labels is not None:
        summary = "; ".join(prediction.labels) or "(none)"
    elif prediction.label is None:
        return Output(f"{prediction.value:.6g}", numeric=True)
    else:
        summary = f"{prediction.label} ({prediction.probability:.3f})"
    return Output(summary, prediction.probabilities or {})


@output_of.register
def similarity_output(
    family: EmbeddingFamily, loaded: LoadedEmbedder, example: ModelInput, text: Example, other: Example
) -> Output:
    first, second = (embedded.vector for embedded in loaded.embed([str(text), str(other)]))
    cosine = float(first @ second) / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-12)
    return Output(f"cosine {cosine:.3f} to the other text", cosine=cosine)


# --- the views ---


@dataclass(frozen=True)
class Pair:
    """Both texts in one run."""

    first: Side
    second: Side
    run: str = ""
    """Path of the run; empty if there is only one."""

    @cached_property
    def difference(self) -> Difference:
        return compare_sides(self.first, self.second)

    @property
    def prefix(self) -> str:
        """The prefix of the titles of its panels."""
        return f"{self.run}: " if self.run else ""


def versus_view(pairs: Sequence[Pair]) -> View:
    """Return the answers of each run to both texts, their distance after every layer, and the attention in each."""
    panels: list[Panel] = [_answers(pairs[0]) if len(pairs) == 1 else _runs(pairs)]
    for pair in pairs:
        panels += [*_tokens(pair), *_layers(pair), *_attention(pair)]
    note = " ".join([_texts(pairs[0]), *(f"{pair.prefix}{verdict(pair)}" for pair in pairs)])
    return View("Two texts, one model" if len(pairs) == 1 else "Two texts, several models", panels, note)


def verdict(pair: Pair) -> str:
    """Return a sentence about whether the model can distinguish the texts, and whether its answers differ."""
    by = three(pair.difference.largest)
    if not pair.difference.can:
        return sentence("equal", by=by)
    first, second = (on_one_line(side.output.summary) or "–" for side in (pair.first, pair.second))
    wording = "tells apart" if pair.difference.does else "could tell apart"
    return sentence(wording, by=by, first=first, second=second)


def _texts(pair: Pair) -> str:
    """Return a sentence with both texts, which says if they have the same words in a run that reads only words."""
    a, b = pair.first, pair.second
    only_words = all(side.ids and len(side.ids) == len(side.tokens) for side in (a, b))
    relation = "same words" if only_words and Counter(a.ids) == Counter(b.ids) else "beside"
    return sentence(relation, first=on_one_line(a.text), second=on_one_line(b.text))


def _answers(pair: Pair) -> Table:
    """Return a table of the model's answers to both texts, the likeliest first."""
    a, b = pair.first.output, pair.second.output
    if a.cosine is not None:
        return Table(title="how alike the two vectors are", columns=("cosine",), rows=[(a.cosine,)])
    title, columns = "what the model says", ("answer", "first text", "second text")
    if not a.probabilities and not b.probabilities:
        return Table(title=title, columns=columns[1:], rows=[(a.summary, b.summary)])
    names = dict.fromkeys([*a.probabilities, *b.probabilities])
    pairs = [(printable(on_one_line(name)), a.probabilities.get(name), b.probabilities.get(name)) for name in names]
    rows = sorted(pairs, key=lambda row: [-1.0 if share is None else share for share in row[1:]], reverse=True)
    told = "Its answers differ" if pair.difference.does else "Its answers hardly differ"
    return Table(title=title, takeaway=told, columns=columns, rows=rows, bars=columns[1:])


def _runs(pairs: Sequence[Pair]) -> Table:
    """Return a table of the answers of each run to both texts."""
    rows: Rows = []
    for pair in pairs:
        can, does = ("yes" if answer else "no" for answer in (pair.difference.can, pair.difference.does))
        summaries = pair.first.output.summary, pair.second.output.summary
        rows.append([pair.run, *summaries, pair.difference.largest, can, does])
    told = f"{sum(pair.difference.does for pair in pairs)} of {len(pairs)} runs tell them apart"
    return Table(title="What each run says", takeaway=told, columns=OF_RUNS, rows=rows)


def _tokens(pair: Pair) -> list[Panel]:
    """Return both texts as panels; tokens that differ from the other text are marked by 1.

    Texts without words have no panel.
    """
    panels: list[Panel] = []
    for name, side, other in (("first", pair.first, pair.second), ("second", pair.second, pair.first)):
        if not side.ids:
            continue
        tokens = zip_longest(side.tokens, other.tokens[: len(side.tokens)])
        moved = np.array([[token != at_place for token, at_place in tokens]], dtype=np.float32)
        title, takeaway = f"{pair.prefix}the {name} text", f"Different tokens: {moved.sum():.0f} of {moved.size}"
        panels.append(Tokens(title=title, takeaway=takeaway, tokens=side.tokens, values=moved))
    return panels


def _attention(pair: Pair) -> list[Panel]:
    """Return the attention in both texts; the head that is sharpest on average is shown first."""
    sides = [("first", pair.first, pair.first.attention), ("second", pair.second, pair.second.attention)]
    shown = [(name, side, weights) for name, side, weights in sides if weights is not None]
    if not shown:
        return []
    choice = clearest(np.mean([sharpness(weights, causal=side.causal) for _, side, weights in shown], 0))
    titles = [f"{pair.prefix}attention in the {name} text" for name, _, _ in shown]
    return [
        heads_panel(title, weights, (side.tokens, side.tokens), choice, causal=side.causal)
        for title, (_, side, weights) in zip(titles, shown, strict=True)
    ]


def _layers(pair: Pair) -> list[Panel]:
    """Return a chart of the distance and the cosine of the texts after each layer."""
    apart = pair.difference
    if not apart.layers:
        return []
    takeaway = "They are the same after every layer"
    if any(apart.distances):
        takeaway = leader("furthest apart", apart.layers, apart.distances)
    series, title = [(DISTANCE, apart.distances), ("cosine", apart.cosines)], f"{pair.prefix}layer by layer"
    return [Lines.by_layer(apart.layers, series, title=title, takeaway=takeaway, note=OF_LAYERS)]
