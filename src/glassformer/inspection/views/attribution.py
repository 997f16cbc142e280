"""Attribution: how much each token supports an answer, by two methods that need not agree.

Gradient × input is Σ ∂score/∂x ⊙ x over the vector x of a token at the input of the encoder. Leave-one-out is the score
of the whole example minus the score without the token. Both have the unit of the score.

In a bag of words, every token has a share of the sums, and both methods attribute this share. They are equal with a
linear head. With counts of single words, removing the token from the text lowers the score by exactly this amount. With
TF-IDF it would also change the weights of the other words, because the text becomes shorter. Leave-one-out keeps these
weights.

Leave-one-out removes words. It sets a number to its mean, a category to an unknown value, and the pixels of a patch to
the mean colour: all of these are 0 for the model.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.capabilities import capability, parts_with
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.config.messages import silent
from glassformer.config.progress import may_stop
from glassformer.encoders.base import Encoder
from glassformer.families.base import Family, Loaded
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.inspection.capture import numbers_of
from glassformer.inspection.views.logit_lens import has_lens, next_of
from glassformer.inspection.views.registry import DECODING, LookRequest, leader, register_view, sentence
from glassformer.models.capabilities import CountsTokens, HasDecoder, PredictsNext
from glassformer.models.inputs import Cell, ReadsCells
from glassformer.rendering.panels import Gallery, Grid, Panel, Table, Tokens
from glassformer.rendering.takeaways import listed, three
from glassformer.rendering.view import View
from glassformer.text.display import bare, quoted

Inputs = tuple[Any, ...]
"""Positional arguments of a model."""

BATCH_EXAMPLES = 64
"""Maximum number of variants of an example in a batch."""
Which = int | Sequence[int] | None
"""The output to explain: a class, the next token, or one token after each of the last ones; None for regression."""
Shares = Float[Array, "T"]
Matrix = Float[Array, "T S"]

METHODS = ("gradient × input", "leave-one-out")
MAX_ROWS = 12
"""Maximum number of tokens in the table."""
ROUNDING = 1e-3
"""The methods count as identical if they differ by at most this share of the largest value, to allow for rounding."""


def score_of(scores: Tensor, which: Which) -> Float[Tensor, "B"]:
    """Return the explained score of each example from the scores of a model.

    - Class: its score minus the mean score of the other classes. If two classes share one output, the output is the
      score of class 1 and its negative that of class 0.
    - Tokens: the sum of their log-probabilities; the last one follows the last token of the input.
    - Regression: the predicted number.
    """
    if scores.dim() == 3:
        ids = torch.tensor(_tokens(which), device=scores.device)
        logs = scores[:, -len(ids) :].log_softmax(-1)
        return logs.gather(-1, ids.expand(len(logs), -1).unsqueeze(-1)).sum((1, 2))
    if scores.shape[1] == 1:
        return -scores[:, 0] if which == 0 else scores[:, 0]
    assert isinstance(which, int)
    others = (scores.sum(1) - scores[:, which]) / (scores.shape[1] - 1)
    return scores[:, which] - others


def gradient_times_input(model: nn.Module, inputs: Inputs, which: Which) -> Shares:
    """Return gradient × input for each vector that the encoder reads of the first example.

    A model that reads a table row as a single vector has a value per column; one that reads an image as a single vector
    has a value per pixel.
    """
    with _gradients():
        if (bag := capability(model, CountsTokens)) is not None:
            states = bag.token_states(*_fresh(inputs))[0].detach()
            features = bag.pool(states).requires_grad_()
            (slope,) = torch.autograd.grad(score_of(bag.head(features), which)[0], features)
            return numbers_of((slope.unsqueeze(1) * states)[0].sum(-1))
        with _cut_loose(_place(model)) as vectors:
            score = score_of(model(*_fresh(inputs)), which)[0]
        (slope,) = torch.autograd.grad(score, vectors)
        embed, products = _cell_reader(model), (slope * vectors[0])[0]
        return numbers_of(products.sum(-1) if embed is None else embed.sum_by_cell(products, *inputs))


def translation_gradients(model: nn.Module, inputs: Inputs, answers: Sequence[int]) -> tuple[Matrix, Matrix]:
    """Return gradient × input of each answer's log-probability, for the source tokens (T×S) and output tokens (T×T)."""
    (_, encoder), (_, decoder) = parts_with(model, Encoder)
    with _gradients(), _cut_loose(encoder) as source, _cut_loose(decoder) as target:
        logs = model(*_fresh(inputs))[0].log_softmax(-1)
        read = [*source, *target]
        rows = [
            torch.autograd.grad(logs[place, answer], read, retain_graph=True) for place, answer in enumerate(answers)
        ]
        source_shares, written_shares = (
            torch.stack([(row[side] * x)[0].sum(-1) for row in rows]) for side, x in enumerate(read)
        )
        return numbers_of(source_shares), numbers_of(written_shares)


@torch.inference_mode()
def leave_one_out(model: nn.Module, inputs: Inputs, which: Which, *, stay: Collection[int] = ()) -> Shares:
    """Return how much the score drops without each part of the first example; NaN for parts that are not left out.

    The parts are those of `gradient_times_input`. Words are removed unless their ids are in `stay` (START, END).
    Columns and patches are set to 0, their mean.
    """
    if (bag := capability(model, CountsTokens)) is not None:
        states = bag.token_states(*inputs)[0][:1]
        features = bag.pool(states)
        lost = score_of(bag.head(features), which) - score_of(bag.head(features - states[0]), which)
        return numbers_of(lost.masked_fill(staying(inputs[0], stay), torch.nan))
    whole = score_of(model(*inputs), which)[0]
    out = whole.new_full((parts_of(model, inputs),), torch.nan)
    last = None
    if capability(model, PredictsNext) is not None:  # Only tokens before the explained ones are left out.
        before = len(out) - len(_tokens(which))
        last = before + 1 if before > 0 else 0
    for places, changed in without_each(model, inputs, stay=stay, last=last):
        out[places] = whole - score_of(model(*changed), which)
    return numbers_of(out)


MIN_COUNTED_SHARE = 0.05
"""A token counts in a method if the magnitude of its share is at least this fraction of the method's largest one."""


@dataclass(frozen=True)
class Agreement:
    """Comparison of the two methods over the parts that were left out."""

    both: list[int]
    """Tokens that count in both methods."""
    opposed: list[int]
    """Tokens of `both` that support the answer in one method and oppose it in the other."""
    order: float
    """Rank correlation of the magnitudes; 1 if both methods rank the tokens in the same order."""


def agreement(gradient: Shares, left_out: Shares) -> Agreement | None:
    """Return how far the methods agree in signs and order; None for fewer than three tokens or constant values."""
    known = np.flatnonzero(np.isfinite(left_out))
    pairs = np.stack([gradient, left_out])[:, known].astype(np.float64)
    if pairs.shape[1] < 3 or (pairs.std(1) <= 1e-12 * np.abs(pairs).max(1)).any():
        return None
    sizes = np.abs(pairs)
    counts = (sizes >= MIN_COUNTED_SHARE * sizes.max(1, keepdims=True)).all(0)
    opposed = counts & (pairs[0] * pairs[1] < 0)
    a, b = (ranks - ranks.mean() for ranks in map(_ranks, sizes))
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return Agreement(known[counts].tolist(), known[opposed].tolist(), float(a @ b) / spread if spread else 0.0)


def _ranks(values: Float[Array, "N"]) -> Float[Array, "N"]:
    """Return the rank of each value; equal values have the mean of their ranks."""
    return (values[:, None] > values).sum(1) + ((values[:, None] == values).sum(1) - 1) / 2


def _place(model: nn.Module) -> nn.Module:
    """Return the encoder that reads the word vectors, or the embedding table of a user's own model."""
    for _, encoder in parts_with(model, Encoder):
        return encoder
    table = next((module for module in model.modules() if isinstance(module, nn.Embedding)), None)
    if table is None:
        raise Misuse(f"{type(model).__name__} has no encoder and no nn.Embedding: there are no vectors to look at")
    return table


@contextmanager
def _gradients() -> Iterator[None]:
    """Enable gradients of a model in evaluation mode; cuDNN is off because its recurrent layers need training mode."""
    with torch.inference_mode(False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        yield


@contextmanager
def _cut_loose(place: nn.Module) -> Iterator[list[Tensor]]:
    """Replace the vectors that a module reads by leaf tensors with gradients, and yield the list that holds them.

    For an embedding table these are the vectors that it returns.
    """
    leaves: list[Tensor] = []

    def loose(x: Tensor) -> Tensor:
        leaves[:] = [x.detach().requires_grad_()]
        return leaves[0]

    if capability(place, Encoder) is not None:
        hook = place.register_forward_pre_hook(lambda _, inputs: (loose(inputs[0]), *inputs[1:]))
    else:
        hook = place.register_forward_hook(lambda _, inputs, vectors: loose(vectors))
    with hook:
        yield leaves


def _fresh(inputs: Inputs) -> Inputs:
    """Return copies of the inputs: tensors from inference mode cannot be saved for a backward pass."""
    return tuple(part.clone() if isinstance(part, Tensor) else part for part in inputs)


def _tokens(which: Which) -> list[int]:
    assert which is not None
    return [which] if isinstance(which, int) else list(which)


# --- occlusion: an example without each of its parts (words, columns, patches) in turn ---


def parts_of(model: nn.Module, inputs: Inputs) -> int:
    """Return the number of parts of an example: columns, patches and words."""
    return len(_cells(model, inputs)) + (inputs[0].shape[1] if _reads_words(model) else 0)


def _cell_reader(model: nn.Module) -> ReadsCells | None:
    """Return the embedding of a model if it reads columns or patches."""
    return next((embed for _, embed in parts_with(model, ReadsCells)), None)


def _reads_words(model: nn.Module) -> bool:
    embed = _cell_reader(model)
    return embed is None or embed.text_inputs > 0


def _cells(model: nn.Module, inputs: Inputs) -> list[Cell]:
    """Return the columns and patches of an example; leaving one out sets it to 0."""
    embed = _cell_reader(model)
    return [] if embed is None else embed.cells(*inputs)


def without_each(
    model: nn.Module, inputs: Inputs, *, stay: Collection[int] = (), last: int | None = None
) -> Iterator[tuple[list[int], Inputs]]:
    """Yield batches of variants of the first example, each without one part, and the indices of these parts.

    Words whose ids are in `stay`, words from position `last` on, and padding are not removed.
    """
    variants = _variants(model, inputs, stay, last)
    for _, alike in groupby(variants, key=lambda variant: variant[1][0].shape):
        while batch := list(islice(alike, BATCH_EXAMPLES)):
            may_stop()
            numbers, changed = zip(*batch, strict=True)
            columns = zip(*changed, strict=True)
            yield list(numbers), tuple(torch.cat(part) if isinstance(part[0], Tensor) else None for part in columns)


def staying(tokens: Tensor, stay: Collection[int]) -> Tensor:
    """Return a mask of the tokens of the first example whose ids are in `stay`."""
    return torch.isin(tokens[0], torch.tensor(list(stay), dtype=tokens.dtype, device=tokens.device))


def _variants(
    model: nn.Module, inputs: Inputs, stay: Collection[int], last: int | None
) -> Iterator[tuple[int, Inputs]]:
    inputs = tuple(part[:1] if isinstance(part, Tensor) else part for part in inputs)
    cells = _cells(model, inputs)
    for number, (at, cell) in enumerate(cells):
        changed = inputs[at].clone()
        changed[cell] = 0
        yield number, (*inputs[:at], changed, *inputs[at + 1 :])
    if not _reads_words(model):
        return
    tokens, mask = inputs[0], inputs[1] if len(inputs) > 1 else None
    fixed = staying(tokens, stay)
    for place in range(tokens.shape[1] if last is None else last):
        if not fixed[place] and (mask is None or mask[0, place]):
            yield len(cells) + place, _removed(inputs, place)


def _removed(inputs: Inputs, place: int) -> Inputs:
    """Return the inputs without one token; a text of a single token becomes padding."""
    tokens, mask, *more = (*inputs, None) if len(inputs) == 1 else inputs
    if tokens.shape[1] == 1:
        return tokens, torch.zeros_like(tokens, dtype=torch.bool), *more
    others = [other for other in range(tokens.shape[1]) if other != place]
    shorter = (tokens[:, others], None if mask is None else mask[:, others], *more)
    return shorter[: len(inputs)]


@dataclass(frozen=True)
class Explained:
    """The output to explain."""

    index: int | None
    """Index of the output; None for a translation or a single number."""
    answer: str
    score: str
    """Description of the score."""
    probability: float | None = None


def _has_answer(loaded: Loaded) -> bool:
    """Return whether a run has one answer per example and its score can be explained."""
    family = loaded.family
    answers = family.labels_examples or has_lens(loaded)
    return family.is_trained and family.text_loss and answers


@register_view("attribution", options=DECODING, quick=True, needs=_has_answer)
def attribution(request: LookRequest) -> View:
    example, model = request.example, request.model
    panels: list[Panel] = []
    which: Which
    if capability(model, HasDecoder) is not None:
        assert example.answer_ids is not None
        output = Explained(None, example.output, sentence("score: token", answer=quoted(example.output)))
        of_source, of_written = translation_gradients(model, example.inputs, example.answer_ids)
        gradient, which = of_source.sum(0), example.answer_ids
        answers, written = example.answers or [], example.written or []
        panels = [
            from_each("from the source", of_source, answers, example.tokens, "source"),
            from_each("from the output so far", of_written, answers, written, "output so far"),
        ]
    else:
        output = explained_output(request.loaded.family, request.loaded, request)
        gradient, which = gradient_times_input(model, example.inputs, output.index), output.index
        caption = example.text if example.square is None else Path(example.text).name
        panels = [] if example.pixels is None else [Gallery(images=[example.pixels], captions=[caption])]
    left_out = leave_one_out(model, example.inputs, which, stay=request.marks)
    view = attribution_view(example.parts, gradient, left_out, output, example.square)
    return replace(view, panels=[*panels, *view.panels])


@singledispatch
def explained_output(family: Family, loaded: Any, request: LookRequest) -> Explained:
    """Return the output to explain: the likeliest next token, or the predicted class or number."""
    if family.labels_examples:
        return Explained(None, "its score", sentence("score: number"))
    likeliest = next_of(request.model, request.example.inputs, most=1, never=request.never)
    answer = request.tokenizer.shown(likeliest.ids[0])
    score = sentence("score: token", answer=quoted(answer))
    return Explained(likeliest.ids[0], answer, score, float(likeliest.probabilities[0]))


@explained_output.register
def explained_prediction(family: LabellingFamily, loaded: LoadedPredictor, request: LookRequest) -> Explained:
    prediction, answers = loaded.predict(request.text, say=silent), loaded.answers
    if prediction.probabilities is None:
        return Explained(None, f"{prediction.value:.4g}", sentence("score: number"))
    names = list(prediction.probabilities)
    index = names.index(max(names, key=prediction.probabilities.__getitem__))
    name = names[index]
    score = sentence("score: class", answer=quoted(name))
    if answers.outputs < len(names):
        score = sentence("score: of two", answer=quoted(name), other=quoted(names[1 - index]))
    return Explained(index, name, score, prediction.probabilities[name])


def attribution_view(
    tokens: Sequence[str], gradient: Shares, left_out: Shares, output: Explained, grid: tuple[int, int] | None = None
) -> View:
    """Return how much each token supports or opposes an answer, and a table of the strongest tokens.

    Each method has its own scale. `grid` holds the numbers of rows and columns if the tokens are parts of an image.
    """
    values = (gradient, left_out)
    rows = [
        (tokens[at], at, *(float(way[at]) if np.isfinite(way[at]) else None for way in values))
        for at in np.argsort(-np.abs(gradient), kind="stable")[:MAX_ROWS].tolist()
    ]
    agree = _agreement(tokens, gradient, left_out)
    chance = "" if output.probability is None else f" ({100 * output.probability:.1f} %)"
    panels: list[Panel] = [
        _way(METHODS[0], gradient, "", tokens, grid),
        _way(METHODS[1], left_out, sentence("left out"), tokens, grid),
        Table(title="the strongest", takeaway=agree, columns=("token", "place", *METHODS), rows=rows),
    ]
    return View(f"What decided: {bare(output.answer)}{chance}", panels, sentence("explained", score=output.score))


def from_each(title: str, values: Matrix, output: Sequence[str], inputs: Sequence[str], name: str) -> Grid:
    """Return a grid of how much each input token supports each output token."""
    pairs = [sentence("comes most from", output=quoted(one), input=quoted(other)) for one in output for other in inputs]
    return Grid(
        title=f"{title}: gradient × input",
        takeaway=leader("one pair", pairs, values) if (values > 0).any() else "",
        values=values,
        rows=output,
        columns=inputs,
        row_name="output",
        column_name=name,
        signed=True,
        formula="Σ ∂ log p(token) / ∂x ⊙ x",
    )


def _way(title: str, shares: Shares, note: str, tokens: Sequence[str], grid: tuple[int, int] | None) -> Panel:
    """Return the shares of one method over the tokens of a text or the cells of an image."""
    shown = np.nan_to_num(shares)
    if grid is None:
        takeaway = _strongest(list(map(quoted, tokens)), shown)
        return Tokens(title=title, takeaway=takeaway, tokens=tokens, values=shown[None], signed=True, note=note)
    takeaway = _strongest([f"The cell in row {row}, column {column}" for row, column in np.ndindex(*grid)], shown)
    rows, columns = (list(map(str, range(count))) for count in grid)
    values = shown.reshape(grid)
    return Grid(title=title, takeaway=takeaway, values=values, rows=rows, columns=columns, signed=True, note=note)


def _strongest(names: Sequence[str], shares: Shares) -> str:
    """Return a sentence about the part with the largest share, which supports or opposes the answer."""
    if not shares.any():
        return "No token supports or opposes it"
    largest = float(shares[np.abs(shares).argmax()])
    side = "supports" if largest > 0 else "opposes"
    share = f"{'+' if largest > 0 else ''}{three(largest)}"
    return leader("largest share", names, np.abs(shares), side=side, share=share)


def _agreement(tokens: Sequence[str], gradient: Shares, left_out: Shares) -> str:
    """Return a sentence about the agreement of the methods; empty if there are too few tokens."""
    both = agreement(gradient, left_out)
    if both is None:
        return ""
    if np.nanmax(np.abs(gradient - left_out)) <= ROUNDING * np.abs(gradient).max():
        return sentence("ways: identical")
    names = listed([quoted(tokens[at]) for at in both.opposed]) or "no token"
    return sentence("ways", names=names, both=len(both.both), order=f"{both.order:.2f}".replace("-", "−"))
