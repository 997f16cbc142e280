"""Number by number: every step of a model for a short text, with a chosen layer, head and token."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.capabilities import capability
from glassformer.bricks.convolution import ConvolutionStack
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.feed_forward import ACTIVATION_MODULES, ACTIVATIONS, Bias, MultilayerPerceptron
from glassformer.bricks.pooling import KnownPool
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.encoders.base import Encoder
from glassformer.encoders.convolutional import CnnEncoder, IdentityEncoder, WindowEncoder
from glassformer.encoders.recurrent import RecurrentDecoder, RecurrentEncoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.capture import capture, layers_of
from glassformer.inspection.numbers.encoders import (
    cnn_panels,
    convolutions_in,
    decoder_panels,
    image_panels,
    recurrent_panels,
    transformer_panels,
    window_panels,
)
from glassformer.inspection.numbers.steps import (
    SHOWN_NUMBERS,
    Activations,
    Source,
    Step,
    Term,
    Vector,
    activate,
    activation_name,
    added,
    answer_name,
    array,
    check_index,
    check_length,
    combine,
    grid,
    linear,
    lines,
    number,
    products,
    score_panels,
    term,
    worked,
)
from glassformer.inspection.numbers.training import has_written_out_loss
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view, wording
from glassformer.models.capabilities import PoolsTokens
from glassformer.models.inputs import ColumnTokens, CutsImages, ImageTokens
from glassformer.models.modules import BagPredictor, LanguageModel, Predictor, Seq2Seq
from glassformer.models.own import OwnLanguageModel
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.takeaways import LIKELIEST, leading
from glassformer.rendering.view import View
from glassformer.text.display import bare, quoted

NOTE = "Every number is the model's own; beside it the formula, and one cell worked out."


def _word_formula(embed: WordVectors) -> str:
    fit = "" if embed.fit is None else ", led to the model's width by a linear map"
    return f"x = row w of a table, for word w{fit}{'' if embed.scale == 1.0 else f', times {number(embed.scale)}'}"


COLUMN_FORMULA = "x = z · v + b for a number z, each column its own v and b; for a category its own vector"
EMBEDDINGS: dict[type[nn.Module], Callable[[Any], str]] = {
    WordVectors: _word_formula,
    OneHot: lambda embed: "x = 1 at the word's place, else 0",
    ColumnTokens: lambda embed: COLUMN_FORMULA,
    ImageTokens: lambda embed: "x = y of every filter, at each cell",
}


Row = list[str | float | int | None]

POOL_FORMULAS: Mapping[str, Mapping[str, str]] = wording("pool formulas")
"""Formulas of pools by name; braces stand for numbers that are computed from all tokens."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """One example: the inputs of a model, its captured tensors, and the position to work out."""

    inputs: Sequence[Tensor | None]
    acts: Activations
    """Captured tensors, with the last input token chosen."""
    written: Sequence[str]
    """Output tokens of a translator; empty for other models."""
    position: int | None
    """Token to work out; None for the last."""
    outputs: Sequence[str]
    """Names of the outputs."""

    def at_position(self, path: str, tokens: Sequence[str]) -> Activations:
        at = len(tokens) - 1 if self.position is None else check_index("position", self.position, len(tokens))
        return replace(self.acts, path=path, tokens=tokens, at=at)


@torch.no_grad()
def walk(
    model: nn.Module,
    inputs: Sequence[Tensor | None],
    tokens: Sequence[str],
    *,
    layer: int = 0,
    head: int = 0,
    position: int | None = None,
    written: Sequence[str] = (),
    outputs: Sequence[str] = (),
    shown: int = SHOWN_NUMBERS,
) -> View:
    """Show every step of a model in evaluation mode for `inputs`, a batch of one example.

    - `position`: token to work out, in a translator one of `written`; None for the last
    - `outputs`: names of the outputs
    - `shown`: maximum number of values shown of a vector
    """
    if not is_known(model):
        model_panels(model, None)
    if _convolutions(model) is None:
        check_length(tokens, written)
    with capture(model) as seen:
        model(*inputs)
    acts = Activations(seen=seen, path="", tokens=tokens, at=len(tokens) - 1, layer=layer, head=head, shown=shown)
    example = Example(inputs=inputs, acts=acts, written=written, position=position, outputs=outputs)
    return View("Number by number", model_panels(model, example), NOTE)


@register_view(
    "numbers",
    options=("layer", "head", "position", *DECODING),
    needs=lambda loaded: is_known(loaded.model) and has_written_out_loss(loaded),
)
def walk_through(request: LookRequest) -> View:
    """Show every formula with its numbers."""
    example = request.example
    return walk(
        request.model,
        example.inputs,
        example.tokens,
        layer=request.layer or 0,
        head=request.head or 0,
        position=request.position,
        written=example.written or (),
        outputs=request.loaded.family.output_names(request.loaded),
    )


# --- models ---


@singledispatch
def model_panels(model: nn.Module, example: Any) -> list[Panel]:
    """Return the panels of every step of a model; raise `Misuse` for models of users."""
    raise Misuse(f"number by number knows the models of this package, and not {type(model).__name__}")


model_panels.register(OwnLanguageModel, model_panels.dispatch(object))


def is_known(model: nn.Module) -> bool:
    """Return whether `model_panels` supports the class of a model."""
    return model_panels.dispatch(type(model)) is not model_panels.dispatch(object)


@model_panels.register
def language_model_panels(model: LanguageModel, example: Example) -> list[Panel]:
    acts = example.at_position("encoder", example.acts.tokens)
    panels = _encoder_panels(model.embed, "embed", model.encoder, acts)
    return [*panels, *_next_panels(model.head, acts, example.outputs)]


def _encoder_panels(embed: nn.Module, path: str, encoder: Encoder, acts: Activations) -> list[Panel]:
    return [vectors_panel(embed, replace(acts, path=path)), *encoder_panels(encoder, acts)]


@model_panels.register
def translator_panels(model: Seq2Seq, example: Example) -> list[Panel]:
    """Return the panels of the source, at its last token, then those of the target."""
    of_source = replace(example.acts, path="encoder")
    of_source = replace(of_source, layer=min(of_source.layer, layer_count(model.encoder, of_source) - 1))
    source = Source(Memory(of_source.tensor("output"), example.inputs[1]), of_source.tokens)
    of_target = replace(example.at_position("decoder", example.written), source=source)
    reading = _encoder_panels(model.embed_source, "embed_source", model.encoder, of_source)
    writing = _encoder_panels(model.embed_target, "embed_target", model.decoder, of_target)
    writing += _next_panels(model.head, of_target, example.outputs)
    return [
        *(replace(panel, title=f"Source · {panel.title}") for panel in reading),
        *(replace(panel, title=f"Target · {panel.title}") for panel in writing),
    ]


@model_panels.register
def predictor_panels(model: Predictor, example: Example) -> list[Panel]:
    panels: list[Panel] = []
    seen = example.acts.seen
    if _convolutions(model) is None:
        acts = example.at_position("encoder", example.acts.tokens)
    else:  # The chosen position is a cell of the first convolution, not a token of the encoder.
        cells = [f"cell {cell}" for cell in range(seen["encoder.input"].shape[1])]
        acts = replace(example, position=None).at_position("encoder", cells)
    if (image := capability(model.embed, CutsImages)) is not None:
        assert example.inputs[0] is not None
        panels += image_panels(image.cut, example.inputs[0], example.position)
    mask = model.vectors(*(tensor for tensor in example.inputs if tensor is not None))[1]
    real = np.ones(len(acts.tokens), dtype=bool) if mask is None else mask[0].cpu().numpy()
    return [
        *panels,
        *_encoder_panels(model.embed, "embed", model.encoder, acts),
        *pool_panels(model.pool, replace(acts, path="pool"), real),
        *head_panels(model.head, seen["pool.output"], example.outputs, acts.beside(["s"]), "s"),
        answer_panel(array(seen["logits"][0]), example.outputs, acts),
    ]


@model_panels.register
def bag_predictor_panels(model: BagPredictor, example: Example) -> list[Panel]:
    ids, mask = (*example.inputs, None)[:2]
    assert ids is not None
    return [
        *bag_panels(model.bag, ids, mask, example.acts),
        *head_panels(model.head, model.bag(ids, mask), example.outputs, example.acts.beside(["u"]), "u"),
        answer_panel(array(example.acts.seen["logits"][0]), example.outputs, example.acts),
    ]


def vectors_panel(embed: nn.Module, acts: Activations) -> Panel:
    """Return the panel of the vectors before the first layer."""
    formula = EMBEDDINGS.get(type(embed), lambda embed: "x")(embed)
    return acts.panel(Step("Vectors", acts["vectors"], formula))


def _next_panels(head: nn.Linear, acts: Activations, outputs: Sequence[str]) -> list[Panel]:
    """Return the panels of the scores of the token that follows the chosen one."""
    x, scores = acts.tensor("output")[:, acts.at], array(acts.seen["logits"][0, acts.at])
    return [
        *head_panels(head, x, outputs, acts.beside([acts.tokens[acts.at]]), "x"),
        answer_panel(scores, outputs, acts, f"Probabilities: what follows {acts.token}"),
    ]


# --- encoders ---


def encoder_panels(encoder: Encoder, acts: Activations) -> list[Panel]:
    """Return the panels of the chosen layer of an encoder, and its output unless the layer includes it."""
    count = layer_count(encoder, acts)
    check_index("layer", acts.layer, count)
    note = f"Layers 0 to {count - 1}; shown is layer {acts.layer}." if count > 1 else ""
    out = acts.panel(Step(f"What the {acts.path} gives", acts["output"], "x, after all layers", note=note))
    panels, with_output = layer_panels(encoder, acts)
    return [*panels, *([] if with_output else [out])]


Layer = tuple[Iterable[Panel], bool]
"""The panels of a layer, and whether they include the output of the encoder."""


@singledispatch
def layer_panels(encoder: nn.Module, acts: Activations) -> Layer:
    return [Words(text=f"The steps of {type(encoder).__name__} are its own; what it gives follows.")], False


def _is_last(encoder: Encoder, acts: Activations) -> bool:
    return acts.layer == layer_count(encoder, acts) - 1


@layer_panels.register
def transformer_layer_panels(encoder: TransformerEncoder, acts: Activations) -> Layer:
    return transformer_panels(encoder, acts), _is_last(encoder, acts)


@layer_panels.register
def cnn_layer_panels(encoder: CnnEncoder, acts: Activations) -> Layer:
    return cnn_panels(encoder, acts), _is_last(encoder, acts)


@layer_panels.register
def window_layer_panels(encoder: WindowEncoder, acts: Activations) -> Layer:
    return window_panels(encoder, acts), _is_last(encoder, acts)


@layer_panels.register
def identity_layer_panels(encoder: IdentityEncoder, acts: Activations) -> Layer:
    return (), _is_last(encoder, acts)


@layer_panels.register
def recurrent_layer_panels(encoder: RecurrentEncoder, acts: Activations) -> Layer:
    return recurrent_panels(encoder, acts), False  # The panels only show the step at one token.


@layer_panels.register
def decoder_layer_panels(encoder: RecurrentDecoder, acts: Activations) -> Layer:
    return decoder_panels(encoder, acts), encoder.attention is not None


def layer_count(encoder: Encoder, acts: Activations) -> int:
    """Return the number of layers of an encoder."""
    return len(layers_of(acts.seen, encoder, acts.path)) - 1


# --- pooling, the head, scores and probabilities; the bag of words ---


def pool_panels(pool: nn.Module, acts: Activations, real: Bool[Array, "T"]) -> Iterator[Panel]:
    """Yield the panels of pooling; `real` marks the tokens that are not padding."""
    x = acts["input"][real]
    tokens = [token for token, there in zip(acts.tokens, real, strict=True) if there]
    first = [number(value) for value in x[:, 0]]
    symbol, how = "s, the pool of all x", None
    known = capability(pool, KnownPool)
    kind = "" if known is None else known.kind
    if kind == "attention":
        query, weights = array(pool.get_parameter("query")), acts["weights"][real]
        scores, best = x @ query, int(np.argmax(weights))
        looking = replace(acts.beside(["w"]), title="Pool")
        score = Term("w · x_t, w learned", products(query, x[best]))
        yield from score_panels(looking, acts.beside(tokens, best), scores[None], weights[None], score)
        symbol, how = "s", Term("Σ α_t x_t", products(weights, x[:, 0]))
    elif kind in POOL_FORMULAS:
        facts = {"sum": added(first), "count": len(first), "list": ", ".join(first)}
        symbol, how = "s", Term(**{part: text.format(**facts) for part, text in POOL_FORMULAS[kind].items()})
    yield acts.beside(()).panel(Step("Pool: one vector for all", {"s": acts["output"]}, symbol, how))


def bag_panels(
    bag: BagOfWords, ids: Int[Tensor, "1 T"], mask: Bool[Tensor, "1 T"] | None, acts: Activations
) -> list[Panel]:
    """Return the counts and weights of the words or n-grams of a text, and the weighted sum of their rows."""
    features, real = bag.features(ids, mask)
    weights = array(bag.weights(features, real)[0])
    first: dict[int, int] = {}
    """Position of the first occurrence of each feature, by its row in the table."""
    for place in torch.nonzero(real[0]).flatten().tolist():
        first.setdefault(int(features[0, place]), place)
    rows, places = list(first), list(first.values())
    counts = np.array([int((features[0][real[0]] == row).sum()) for row in rows], dtype=np.float64)
    spans, between = bag.spans(ids[0]), "" if bag.words else " "
    names = [between.join(bare(token) for token in acts.tokens[slice(*spans[place])]) for place in places]
    idf, table, x = array(bag.idf[rows]), array(bag.table.weight[rows]), weights[places] * counts
    columns: dict[str, Sequence[str | float]] = {"word": names, "count": [int(count) for count in counts]}
    formula = "x = count"
    if bag.weighting != "counts":
        columns["idf"] = idf.tolist()
        largest = int(np.argmax(x))
        squares = added([f"{number(value)}²" for value in counts * idf])
        how = f"{int(counts[largest])}·{number(idf[largest])} / √({squares})"
        formula = lines(
            "x = count · idf / √(Σ (count · idf)²), idf = ln((1 + n) / (1 + df)) + 1: n texts, df with the word",
            worked(f"x({names[largest]})", how, float(x[largest])),
        )
    columns["x"] = x.tolist()
    listed = [list(row) for row in zip(*columns.values(), strict=True)]
    total = Step("Their sum", {"u": array(bag(ids, mask)[0])}, "u", Term("W x", products(x, table[:, 0])))
    return [
        Table(title="The bag of words", columns=list(columns), rows=listed, note=formula),
        acts.beside(names).panel(Step("What each word adds", x[:, None] * table, "x · its row of W")),
        acts.beside(()).panel(total),
    ]


def head_panels(
    head: nn.Module, x: Float[Tensor, "1 d"], names: Sequence[str], acts: Activations, letter: str = "s"
) -> Iterator[Panel]:
    """Yield the panels of every layer of a head, from a vector to scores; `letter` denotes the vector in formulas."""
    layers = _layers_of(head)
    for place, (title, layer) in enumerate(layers):
        out = layer(x)
        given, made = array(x), array(out)
        if isinstance(layer, nn.Linear) and place == len(layers) - 1:
            yield scores_panel(layer, given[0], made[0], names, acts, letter)
        else:
            yield acts.panel(_layer_step(title, layer, given, made, letter))
        x, letter = out, "a" if title in ACTIVATIONS else "y"


def _layer_step(
    title: str, layer: Callable[[Tensor], Tensor], x: Float[Array, "1 d"], out: Float[Array, "1 e"], letter: str
) -> Step:
    first = term(letter, x[0, 0])
    if isinstance(layer, nn.Linear):
        return Step(f"Head: {title}", out, "y", linear(f"W {letter}", layer, x[0]))
    if isinstance(layer, Bias):
        return Step(f"Head: {title}", out, "y", combine("{x} + {b}", x=first, b=term("b", float(layer.bias[0]))))
    if title in ACTIVATIONS:
        return Step(f"Head: {title}", out, "a", activate(title, first))
    return Step(f"Head: {title}", out, f"what it makes of {letter}")


def scores_panel(
    layer: nn.Linear, x: Vector, scores: Vector, names: Sequence[str], acts: Activations, letter: str
) -> Panel:
    """Return the score of each answer; if there are too many to show, the highest ones in descending order."""
    count = len(scores)
    many = count > acts.shown
    order = np.argsort(-scores, kind="stable")[: acts.shown] if many else np.arange(count)
    called = [answer_name(names, int(at), count) for at in order]
    first = int(order[0])
    score = linear(f"W {letter}", layer, x, row=first)
    return grid(
        "Head: scores",
        scores[None, order],
        acts.tokens,
        formula=f"y = {score.letters}",
        note=f"The {len(order)} highest of {count} scores." if many else "",
        worked=worked(f"y({bare(called[0])})", score.numbers, float(scores[first])),
        columns=called,
        shown=acts.shown,
    )


def _layers_of(head: nn.Module) -> list[tuple[str, Callable[[Tensor], Tensor]]]:
    """Return the layers and activation functions of a head in order, each with its name.

    Dropout is left out: it does nothing in evaluation mode.
    """
    if isinstance(head, nn.Sequential):
        return [pair for part in head for pair in _layers_of(part)]
    if isinstance(head, nn.Dropout | nn.Identity):
        return []
    if isinstance(head, MultilayerPerceptron):
        bend = (activation_name(head.activation), head.activation)
        return [*(pair for layer in head.hidden for pair in (("hidden layer", layer), bend)), ("scores", head.output)]
    titles: dict[type[nn.Module], str] = {
        Bias: "bias",
        nn.Linear: "scores",
        **{kind: name for name, kind in ACTIVATION_MODULES.items()},
    }
    return [(titles.get(type(head), "its layer"), head)]


def answer_panel(scores: Vector, names: Sequence[str], acts: Activations, title: str = "Probabilities") -> Panel:
    """Return the probabilities of scores.

    A single score is a logit of the second class if there are two names. Otherwise it is a predicted number.
    """
    if len(scores) == 1 and len(names) != 2:
        return acts.panel(Step("The answer", {"y": scores}, "y, in spreads above the mean"))
    if len(scores) == 1:
        p = float(1 / (1 + np.exp(-scores[0])))
        rows: list[Row] = [[names[1], float(scores[0]), p], [names[0], None, 1 - p]]
        formula, more = "p = σ(y) = 1 / (1 + e^−y), for the other class 1 − p", ""
        how = f"σ({number(scores[0])})"
    else:
        probabilities = array(torch.softmax(torch.from_numpy(scores), -1))
        order = np.argsort(-probabilities, kind="stable")[: acts.shown]
        rows = [[names[at] if names else int(at), float(scores[at]), float(probabilities[at])] for at in order]
        p = float(probabilities[order[0]])
        formula, more = "p = e^y / Σ e^y", f"The {len(order)} likeliest of {len(scores)}."
        how = f"e^{number(scores[order[0]])} / {number(float(np.exp(np.logaddexp.reduce(scores))))}"
    return Table(
        title=title,
        takeaway=leading([quoted(str(row[0])) for row in rows], [float(row[2] or 0) for row in rows], LIKELIEST),
        columns=["answer", "score", "probability"],
        rows=rows,
        bars=["probability"],
        note=lines(more, formula, worked(f"p({bare(str(rows[0][0]))})", how, p)),
    )


def _convolutions(model: nn.Module) -> ConvolutionStack | None:
    """Return the convolutions that cut the images of a model; None if it reads no images or cuts patches."""
    reader = capability(model, PoolsTokens)
    image = None if reader is None else capability(getattr(model, "embed", None), CutsImages)
    return None if image is None else convolutions_in(image.cut)
