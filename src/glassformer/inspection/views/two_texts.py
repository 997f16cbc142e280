"""Two texts side by side, as one run sees them or two: the same words in another order, say; whether a model can tell
them apart at all, and whether it does.

Without positions, attention sees a set of words: every sum in it has the same terms, whatever their order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse, silent
from glassformer.encoders.base import Encoder
from glassformer.families.base import Family, Loaded
from glassformer.families.embedding import EmbeddingFamily, LoadedEmbedder
from glassformer.families.evaluate import encode_example
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.families.language import LanguageFamily, LoadedLanguageModel
from glassformer.families.requests import Example, ModelInput
from glassformer.inspection.attention import SOURCE_ATTENTION, attention_of, causal_stacks, clearest, sharpness
from glassformer.inspection.capture import capture, layers_of, numbers_of
from glassformer.inspection.views.head_roles import head_takeaway
from glassformer.inspection.views.logit_lens import next_of
from glassformer.inspection.views.registry import LookRequest, leader, register_view, sentence
from glassformer.inspection.views.word_vectors import cosines
from glassformer.models.modules import BagPredictor, Predictor, Seq2Seq
from glassformer.rendering.panels import Heads, Lines, Panel, Rows, Table, Tokens, model_colours
from glassformer.rendering.takeaways import three
from glassformer.rendering.view import View
from glassformer.text.display import quoted
from glassformer.text.escaping import on_one_line, printable

Vector = Float[Array, "d"]

ROUNDING = 1e-5
"""Scores that differ by no more than this share of the largest are equal: sums in another order round differently."""
NOTICEABLE = 0.05
"""Answers that differ by less are as good as the same: probabilities and cosines, and a number as a share of itself."""
LIKELIEST = 5
"""Next tokens that are named."""
DISTANCE = "distance / mean length"
OF_RUNS = (
    "run",
    "says of the first",
    "of the second",
    "largest difference of scores",
    "could tell apart",
    "tells apart",
)
"""Columns of the table of runs."""
OF_LAYERS = "of the mean over the tokens' vectors after each layer; pooled: of what the head reads"


@register_view("versus", options=("versus", "second_run", "beam"), needs=lambda loaded: loaded.family.text_loss)
def versus(request: LookRequest) -> View:
    if request.versus is None:
        raise Misuse('the view versus needs a second text: look RUN "A" --versus "B"')
    texts = request.text, request.versus
    runs = [loaded for loaded in (request.loaded, request.second_run) if loaded is not None]
    sides = [
        (str(loaded.run.path), _side(request, loaded, *texts), _side(request, loaded, *texts[::-1])) for loaded in runs
    ]
    if len(sides) == 1:
        return versus_view(*sides[0][1:])
    return versus_runs_view(sides, [loaded.config.model.encoder for loaded in runs])


@dataclass(frozen=True)
class Output:
    """What a model says of a text."""

    summary: str
    """What it says in a few words."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """The probabilities of labels or next tokens; empty: it does not choose among few."""
    cosine: float | None = None
    """The cosine of this text's vector and the other's, where vectors are what a model is for."""
    numeric: bool = False
    """It says a number."""


@dataclass(frozen=True)
class Side:
    """One text, and what a model makes of it."""

    text: str
    tokens: Sequence[str]
    output: Output
    scores: Vector
    """The scores before any softmax."""
    layers: Sequence[tuple[str, Vector]]
    """After every layer, the mean of the tokens' vectors; at the end what the head reads."""
    attention: Float[Array, "L h T T"] | None = None
    causal: bool = False
    """No token looks at a later one."""
    ids: Sequence[int] = ()
    """The words among the tokens, which else are the names of columns or patches."""


@dataclass(frozen=True)
class Difference:
    """What differs between two sides."""

    largest: float
    """The largest difference between their scores."""
    rounding: float
    """A difference up to so much is none."""
    layers: Sequence[str]
    cosines: Sequence[float]
    distances: Sequence[float]
    """The distance between the two vectors after each layer, as a share of their mean length."""

    answers: bool
    """Whether the answers differ noticeably."""

    @property
    def can(self) -> bool:
        """Whether the model can tell the two apart in principle: something of them reaches its scores."""
        return self.largest > self.rounding

    @property
    def does(self) -> bool:
        """Whether it does: its answers differ noticeably."""
        return self.can and self.answers


@torch.inference_mode()
def side_of(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    text: str,
    tokens: Sequence[str],
    output: Output,
    ids: Sequence[int] = (),
) -> Side:
    """The first example. A language model's scores are those of the next token, a translator's of the first."""
    encoder = getattr(model, "encoder", None)
    with capture(model, ("encoder.*", "*.vectors")) as seen:
        scores = model(*inputs)
    if scores.dim() == 3:
        scores = scores[:, 0 if isinstance(model, Seq2Seq) else -1]
    layers: list[tuple[str, Vector]] = []
    if isinstance(encoder, Encoder):
        layers = [(name, numbers_of(states[0].mean(0))) for name, states in layers_of(seen, encoder, "encoder")]
    if isinstance(model, Predictor | BagPredictor):
        layers.append(("pooled", numbers_of(model.features(*inputs)[0])))
    stacks = attention_of(model, inputs)
    stack = next((name for name in SOURCE_ATTENTION if name in stacks), "")
    causal = stack in causal_stacks(model)
    return Side(text, tokens, output, numbers_of(scores[0]), layers, stacks.get(stack), causal, ids)


def compare_sides(a: Side, b: Side) -> Difference:
    """How far apart a model's scores and vectors of the two texts are."""
    pairs = [np.stack([x, y]).astype(np.float64) for (_, x), (_, y) in zip(a.layers, b.layers, strict=True)]
    lengths = [max(np.linalg.norm(pair, axis=1).mean(), np.finfo(float).tiny) for pair in pairs]
    return Difference(
        largest=float(np.abs(a.scores.astype(np.float64) - b.scores).max()),
        rounding=ROUNDING * max(1.0, float(np.abs(a.scores).max()), float(np.abs(b.scores).max())),
        layers=[name for name, _ in a.layers],
        cosines=[float(cosines(pair)[0, 1]) for pair in pairs],
        distances=[float(np.linalg.norm(x - y) / length) for (x, y), length in zip(pairs, lengths, strict=True)],
        answers=_answers_differ(a, b),
    )


def _answers_differ(a: Side, b: Side) -> bool:
    """Whether what is said of the two differs noticeably; where nothing is said, whether the scores do."""
    first, second = a.output, b.output
    if first.cosine is not None:
        return 1 - first.cosine >= NOTICEABLE
    if names := {*first.probabilities, *second.probabilities}:
        of_a, of_b = ([side.probabilities.get(name, 0.0) for name in names] for side in (first, second))
        return bool(np.abs(np.subtract(of_a, of_b)).max() >= NOTICEABLE)
    if not first.numeric and (first.summary or second.summary):
        return first.summary != second.summary
    return bool(np.abs(a.scores - b.scores).max() >= NOTICEABLE * np.abs(a.scores).max())


def _side(request: LookRequest, loaded: Loaded, text: Example, other: Example) -> Side:
    example = encode_example(loaded, text, beam=request.search.beam, say=request.say)
    output = output_of(loaded.family, loaded, example, text, other)
    return side_of(loaded.model, example.inputs, text=str(text), tokens=example.tokens, output=output, ids=example.ids)


# --- what a run says, by family ---


@singledispatch
def output_of(family: Family, loaded: Any, example: ModelInput, text: Example, other: Example) -> Output:
    """What a run says of a text, beside the other; a translator, what it writes."""
    return Output(example.output)


@output_of.register
def _(
    family: LanguageFamily, loaded: LoadedLanguageModel, example: ModelInput, text: Example, other: Example
) -> Output:
    never = loaded.tokenizer.never(loaded.model.head.out_features)
    likeliest = next_of(loaded.model, example.inputs, most=LIKELIEST, never=never)
    tokens = [loaded.tokenizer.shown(id) for id in likeliest.ids]
    probabilities = dict(zip(tokens, map(float, likeliest.probabilities), strict=True))
    return Output(f"{quoted(tokens[0])} ({likeliest.probabilities[0]:.3f})", probabilities)


@output_of.register
def _(family: LabellingFamily, loaded: LoadedPredictor, example: ModelInput, text: Example, other: Example) -> Output:
    prediction = loaded.predict(text, say=silent)
    if prediction.labels is not None:
        summary = "; ".join(prediction.labels) or "(none)"
    elif prediction.label is None:
        return Output(f"{prediction.value:.6g}", numeric=True)
    else:
        summary = f"{prediction.label} ({prediction.probability:.3f})"
    return Output(summary, prediction.probabilities or {})


@output_of.register
def _(family: EmbeddingFamily, loaded: LoadedEmbedder, example: ModelInput, text: Example, other: Example) -> Output:
    first, second = (embedded.vector for embedded in loaded.embed([str(text), str(other)]))
    cosine = float(first @ second) / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-12)
    return Output(f"a vector (cosine to the other {cosine:.3f})", cosine=cosine)


# --- the views ---


def versus_view(a: Side, b: Side, *, title: str = "Two texts, one model") -> View:
    """What the model says of both, how far apart they are after every layer, and where it looks in each."""
    difference = compare_sides(a, b)
    panels: list[Panel] = [_answers(a, b, difference), *_tokens(a, b)]
    if difference.layers:
        rows = list(zip(difference.layers, difference.cosines, difference.distances, strict=True))
        columns = ("after", "cosine", DISTANCE)
        panels += [
            _lines([("", difference)]),
            Table(title="Layer by layer", columns=columns, rows=rows, note=OF_LAYERS),
        ]
    return View(title, [*panels, *_attention(a, b)], f"{_texts(a, b)} {verdict(a, b, difference)}")


def versus_runs_view(
    runs: Sequence[tuple[str, Side, Side]], models: Sequence[str] = (), *, title: str = "Two texts, several models"
) -> View:
    """The same two texts as several runs see them: one trained with positions and one without, say.

    `models`: what each is, for its colour.
    """
    differences = [(name, compare_sides(a, b)) for name, a, b in runs]
    rows: Rows = []
    verdicts = []
    for (name, a, b), (_, difference) in zip(runs, differences, strict=True):
        tells = ("yes" if answer else "no" for answer in (difference.can, difference.does))
        rows.append([name, a.output.summary, b.output.summary, difference.largest, *tells])
        verdicts.append(f"{name}: {verdict(a, b, difference)}")
    told = f"{sum(difference.does for _, difference in differences)} of {len(runs)} runs tell them apart"
    panels: list[Panel] = [Table(title="What each run says", takeaway=told, columns=OF_RUNS, rows=rows)]
    same_tokens = len({(tuple(a.tokens), tuple(b.tokens)) for _, a, b in runs}) == 1
    for name, a, b in runs[:1] if same_tokens else runs:
        panels += _tokens(a, b, "" if same_tokens else f"{name}: ")
    if all(difference.layers for _, difference in differences):
        panels.append(_lines(differences, model_colours(models or ["transformer"] * len(runs))))
    for name, a, b in runs:
        panels += _attention(a, b, f"{name}: ")
    return View(title, panels, " ".join([_texts(*runs[0][1:]), *verdicts]))


def verdict(a: Side, b: Side, difference: Difference) -> str:
    """Whether the model can tell the two apart, and whether it does, in words."""
    by = three(difference.largest)
    if not difference.can:
        return sentence("equal but for rounding" if difference.largest else "equal", by=by)
    if a.output.cosine is not None:
        return sentence("cosine of both" if difference.does else "hardly apart", cosine=a.output.cosine)
    first, second = (on_one_line(side.output.summary) for side in (a, b))
    says = (
        f": it says {first} of both" if first == second else f": it says {first} of the first, {second} of the second"
    )
    tells = "tells apart" if difference.does else "could tell apart"
    return sentence(tells, by=by, says=says if first else "")


def _texts(a: Side, b: Side) -> str:
    """The two texts, compared by their words where these are all that is read."""
    only_words = all(side.ids and len(side.ids) == len(side.tokens) for side in (a, b))
    relation = "beside"
    if only_words and Counter(a.ids) == Counter(b.ids):
        relation = "same ids" if list(a.ids) == list(b.ids) else "same words"
    return sentence(relation, first=on_one_line(a.text), second=on_one_line(b.text))


def _answers(a: Side, b: Side, difference: Difference) -> Table:
    """What the model says of both texts, likeliest first, as the first has it."""
    told = "Its answers differ" if difference.does else "Its answers are as good as the same"
    told = told if difference.can else "It cannot tell the two apart"
    title, columns = "what the model says", ("answer", "first text", "second text")
    of_a, of_b = a.output.probabilities, b.output.probabilities
    if a.output.cosine is not None:
        title = "how alike the two vectors are"
        return Table(title=title, takeaway=told, columns=("cosine",), rows=[(a.output.cosine,)])
    if not of_a and not of_b:
        return Table(title=title, takeaway=told, columns=columns[1:], rows=[(a.output.summary, b.output.summary)])
    pairs = [(printable(on_one_line(name)), of_a.get(name), of_b.get(name)) for name in dict.fromkeys([*of_a, *of_b])]
    rows = sorted(pairs, key=lambda row: [-1.0 if share is None else share for share in row[1:]], reverse=True)
    return Table(title=title, takeaway=told, columns=columns, rows=rows, bars=columns[1:])


def _tokens(a: Side, b: Side, of: str = "") -> list[Panel]:
    """Both texts, where there are words in them; 1 where the other text has something else at this place."""
    panels: list[Panel] = []
    for name, side, other in (("first", a, b), ("second", b, a)):
        if not side.ids:
            continue
        pairs = zip_longest(side.tokens, other.tokens[: len(side.tokens)])
        moved = np.array([[token != at_place for token, at_place in pairs]], dtype=np.float32)
        takeaway = f"Different tokens: {moved.sum():.0f} of {moved.size}"
        note = "shaded: where the other text has another word"
        panels.append(
            Tokens(title=f"{of}the {name} text", takeaway=takeaway, tokens=side.tokens, values=moved, note=note)
        )
    return panels


def _attention(a: Side, b: Side, of: str = "") -> list[Panel]:
    """Both texts, and of both first the same head: the clearest."""
    shown = [(name, side, side.attention) for name, side in (("first", a), ("second", b)) if side.attention is not None]
    if not shown:
        return []
    sharp = [sharpness(weights, causal=side.causal) for _, side, weights in shown]
    layer, head = clearest(np.mean(sharp, 0))
    return [
        Heads(
            title=f"{of}attention in the {name} text",
            takeaway=head_takeaway(weights, side.tokens, side.tokens, (layer, head)),
            weights=weights,
            rows=side.tokens,
            columns=side.tokens,
            layer=layer,
            head=head,
            causal=side.causal,
        )
        for name, side, weights in shown
    ]


def _lines(differences: Sequence[tuple[str, Difference]], colours: Sequence[int] = (0,)) -> Lines:
    """`colours`: of each; runs with other layers than the others leave out what comes after their last."""
    same_layers = len({tuple(difference.layers) for _, difference in differences}) == 1
    layers = [difference.layers if same_layers else difference.layers[:-1] for _, difference in differences]
    distances = [
        (name, difference.distances[: len(names)])
        for (name, difference), names in zip(differences, layers, strict=True)
    ]
    places = [f"{name} · {layer}" if name else layer for name, one in differences for layer in one.layers]
    apart = [distance for _, one in differences for distance in one.distances]
    takeaway = leader("furthest apart", places, apart) if any(apart) else "They are the same after every layer"
    chart = Lines.by_layer(
        max(layers, key=len), distances, title="how far apart the two texts are", takeaway=takeaway, y_name=DISTANCE
    )
    coloured = [replace(line, colour=colour) for line, colour in zip(chart.series, colours, strict=True)]
    return replace(chart, series=coloured)
