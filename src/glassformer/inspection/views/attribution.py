"""Attribution, or saliency: which words decided. Each is shaded by how much it spoke for the answer, in two ways."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.config.errors import silent
from glassformer.families.base import Family, Loaded
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.inspection.attribution import (
    Matrix,
    Shares,
    agreement,
    gradient_times_input,
    leave_one_out,
    occlusion_in_words,
    score_in_words,
    translation_gradients,
)
from glassformer.inspection.capture import has_layers
from glassformer.inspection.views.logit_lens import next_of, scores_tokens
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view
from glassformer.models.modules import Seq2Seq
from glassformer.rendering.panels import Gallery, Grid, Panel, Table, Tokens
from glassformer.rendering.takeaways import leaders, listed, three
from glassformer.rendering.view import View
from glassformer.tasks.answers import Classes
from glassformer.text.display import bare, quoted

WAYS = ("gradient × input", "leave-one-out")
STRONGEST = 12
"""Tokens in the table."""
NAMED = 3
"""Tokens that are named for and against."""
AGREE = 0.7
"""The rank correlation from which on the two ways have the same order."""
ROUNDING = 1e-3
"""Two ways that differ by no more than this share of the largest are one: a small share of a large score is rounded."""
ONE_AND_THE_SAME = (
    "The two ways are one and the same here: the score is a sum, to which each part adds its share; leaving a part out "
    "takes that share away, and the others keep theirs."
)

NOT_ALONE = "Here the gradient is a poor guide to what happens without a token, and neither should be trusted alone."


@dataclass(frozen=True)
class Explained:
    """The output that is explained."""

    index: int | None
    """Its place among the outputs; None: the only one, a number."""
    answer: str
    probability: float | None = None
    against: str = ""
    """The other of two classes that share one score."""


def _has_answer(loaded: Loaded) -> bool:
    """Whether a run has one answer to an example, whose score can be explained."""
    family = loaded.family
    answers = family.labels_examples or (scores_tokens(loaded) and has_layers(loaded.model))
    return family.is_trained and family.text_loss and answers


@register_view(
    "attribution",
    options=DECODING,
    quick=True,
    needs=_has_answer,
)
def attribution(request: LookRequest) -> View:
    example, model = request.example, request.model
    how = occlusion_in_words(model)
    if isinstance(model, Seq2Seq):
        assert example.answer_ids is not None
        of_source, of_written = translation_gradients(model, example.inputs, example.answer_ids)
        return translation_attribution_view(
            example.tokens,
            example.answers or [],
            of_source,
            leave_one_out(model, example.inputs, example.answer_ids, stay=request.marks),
            answer=example.output,
            written=example.written or [],
            prefix=of_written,
            how=how,
        )
    output = explained_output(request.loaded.family, request.loaded, request)
    view = attribution_view(
        example.parts,
        gradient_times_input(model, example.inputs, output.index),
        leave_one_out(model, example.inputs, output.index, stay=request.marks),
        answer=output.answer,
        probability=output.probability,
        score=score_in_words(model, output.index, output.answer, against=output.against),
        how=how,
        grid=example.square,
    )
    caption = example.text if example.square is None else Path(example.text).name
    images = [] if example.pixels is None else [Gallery(images=[example.pixels], captions=[caption])]
    return replace(view, panels=[*images, *view.panels])


@singledispatch
def explained_output(family: Family, loaded: Any, request: LookRequest) -> Explained:
    """What is explained of an example: the token that a model expects next, the class or number that it says."""
    if family.labels_examples:
        return Explained(None, "its score")
    likeliest = next_of(request.model, request.example.inputs, most=1, never=request.never)
    return Explained(likeliest.ids[0], request.tokenizer.shown(likeliest.ids[0]), float(likeliest.probabilities[0]))


@explained_output.register
def _(family: LabellingFamily, loaded: LoadedPredictor, request: LookRequest) -> Explained:
    prediction, answers = loaded.predict(request.text, say=silent), loaded.answers
    if prediction.labels is not None and prediction.probabilities is not None:  # the likeliest is explained
        name = max(prediction.probabilities, key=prediction.probabilities.__getitem__)
        return Explained(list(prediction.probabilities).index(name), name, prediction.probabilities[name])
    if prediction.label is None or not isinstance(answers, Classes):
        return Explained(None, f"{prediction.value:.4g}")
    index = answers.names.index(prediction.label)
    against = answers.names[1 - index] if answers.outputs == 1 else ""
    return Explained(index, prediction.label, prediction.probability, against)


def attribution_view(
    tokens: Sequence[str],
    gradient: Shares,
    left_out: Shares,
    *,
    answer: str,
    probability: float | None = None,
    score: str = "",
    how: str = "",
    grid: tuple[int, int] | None = None,
) -> View:
    """How much each token spoke for an answer. `score` and `how`: what is explained, and what leaving out means.

    `grid`: the tokens are an image's patches, so many down and across.
    """
    return View(
        _title("What decided", answer, probability),
        _panels(tokens, gradient, left_out, how, grid),
        _note(f"What is explained is {score}." if score else "", tokens, gradient, left_out),
    )


def translation_attribution_view(
    source: Sequence[str],
    output: Sequence[str],
    gradients: Matrix,
    left_out: Shares,
    *,
    answer: str,
    probability: float | None = None,
    written: Sequence[str] = (),
    prefix: Matrix | None = None,
    how: str = "",
) -> View:
    """What each token of the source gave to each of the output.

    `prefix`: what each of the tokens written before gave (`written`, START first).
    """
    panels: list[Panel] = [
        _from_each("from the source to each token of the output", gradients, output, source, "source")
    ]
    if prefix is not None:
        panels.append(_from_each("from what was written before", prefix, output, written, "written before"))
    whole = gradients.sum(0)
    panels += _panels(source, whole, left_out, how)
    explained = "What is explained is the log-probability of the output: of each token, and of all of it together."
    note = _note(explained, source, whole, left_out)
    return View(_title("What decided the translation", answer, probability), panels, note)


def _from_each(title: str, values: Matrix, output: Sequence[str], inputs: Sequence[str], name: str) -> Grid:
    """What every token that was given spoke for each token of the output."""
    first = leaders(values) if (values > 0).any() else []
    given = [f"{quoted(output[at // len(inputs)])} comes most from {quoted(inputs[at % len(inputs)])}" for at in first]
    return Grid(
        title=f"{title}: gradient × input",
        takeaway=f"{given[0]} ({_signed(float(values.max()))})" if len(first) == 1 else "",
        values=values,
        rows=output,
        columns=inputs,
        row_name="output",
        column_name=name,
        signed=True,
        formula="Σ ∂ log p(token) / ∂x ⊙ x",
    )


def _panels(
    tokens: Sequence[str], gradient: Shares, left_out: Shares, how: str, grid: tuple[int, int] | None = None
) -> list[Panel]:
    """Each way with a scale of its own: the gradient sees what a small change would do, leaving out what is lost.

    Then the tokens with the largest gradient × input, whatever its sign.
    """
    ways = list(zip(WAYS, (gradient, left_out), ("", f"leave-one-out: {how}" if how else ""), strict=True))
    panels: list[Panel]
    if grid is None:
        panels = [
            Tokens(title=name, takeaway=_strongest(list(map(quoted, tokens)), values), tokens=tokens,
                   values=np.nan_to_num(values)[None], signed=True, note=note)
            for name, values, note in ways
        ]  # fmt: skip
    else:
        places = [f"The cell in row {row}, column {column}" for row, column in np.ndindex(*grid)]
        rows, columns = ([str(place) for place in range(count)] for count in grid)
        panels = [
            Grid(title=name, takeaway=_strongest(places, values), values=np.nan_to_num(values).reshape(grid),
                 rows=rows, columns=columns, signed=True, note=note)
            for name, values, note in ways
        ]  # fmt: skip
    order = np.argsort(-np.abs(gradient), kind="stable")[:STRONGEST].tolist()
    strongest = [
        (tokens[at], at, *(float(way[at]) if np.isfinite(way[at]) else None for way in (gradient, left_out)))
        for at in order
    ]
    ahead, counts = [leaders(np.abs(way)) for way in (gradient, left_out)], Counter(tokens)
    named = [f"{quoted(token)}{f' at {at}' if counts[token] > 1 else ''}" for at, token in enumerate(tokens)]
    first = [listed([named[at] for at in some]) for some in ahead]
    same = f"Both ways name {first[0]} first"
    if len(ahead[0]) == 1 and gradient[ahead[0][0]] * left_out[ahead[0][0]] < 0:
        same += ", with opposite signs"
    if ahead[0] != ahead[1]:
        same = f"First by the gradient is {first[0]}, by leaving out {first[1]}"
    takeaway = same if np.nan_to_num(gradient).any() and np.nan_to_num(left_out).any() else ""
    return [
        *panels,
        Table(title="the strongest", takeaway=takeaway, columns=("token", "place", *WAYS), rows=strongest),
    ]


def _strongest(names: Sequence[str], values: Matrix | Shares) -> str:
    """Which speaks loudest, and for or against."""
    flat = np.nan_to_num(np.asarray(values, np.float64)).ravel()
    first = leaders(np.abs(flat))
    if not flat.any():
        return "Nothing speaks for it or against it"
    if len(first) > 1:
        return f"{listed([names[at] for at in first])} speak as loud as one another ({three(abs(flat[first[0]]))})"
    return f"{names[first[0]]} speaks most {'for' if flat[first[0]] > 0 else 'against'} it ({_signed(flat[first[0]])})"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{three(value)}"


def _note(explained: str, tokens: Sequence[str], gradient: Shares, left_out: Shares) -> str:
    return " ".join(
        filter(None, (explained, _for_and_against(tokens, gradient), _agreement(tokens, gradient, left_out)))
    )


def _for_and_against(tokens: Sequence[str], gradient: Shares) -> str:
    order = np.argsort(-gradient, kind="stable").tolist()
    clauses = []
    for name, places, sign in (("for", order, 1), ("against", order[::-1], -1)):
        named = [f"{quoted(tokens[at])} ({_signed(gradient[at])})" for at in places[:NAMED] if sign * gradient[at] > 0]
        if named:
            clauses.append(
                f"most {name} it speak {', '.join(named)}" if len(named) > 1 else f"{name} it speaks {named[0]}"
            )
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _agreement(tokens: Sequence[str], gradient: Shares, left_out: Shares) -> str:
    """Whether the two ways have the same signs, and the same order."""
    found = agreement(gradient, left_out)
    if found is None:
        return ""
    apart = np.nanmax(np.abs(gradient - left_out))
    if apart <= ROUNDING * np.abs(gradient).max():
        return ONE_AND_THE_SAME
    in_order = found.order >= AGREE
    by_order = f"rank correlation {found.order:.2f}".replace("-", "−")
    order = f"the order of strength is {'much the same' if in_order else 'another'} ({by_order})"
    if not found.both:
        return f"The two ways disagree: no token counts in both. {NOT_ALONE}"
    if not found.opposed:
        signs = f"all {len(found.both)} tokens that count in both have the same sign"
        if len(found.both) == 1:
            signs = "the one token that counts in both has the same sign"
        return (
            f"The two ways agree{'' if in_order else ' in signs, not in order'}: {signs}, {_joint(in_order)} {order}."
        )
    opposed = ", ".join(quoted(tokens[at]) for at in found.opposed[:NAMED])
    more = f" and {len(found.opposed) - NAMED} more" if len(found.opposed) > NAMED else ""
    signs = (
        f"{len(found.opposed)} of the {len(found.both)} tokens that count in both have opposite signs ({opposed}{more})"
    )
    if len(found.both) == 1:
        signs = f"the one token that counts in both has opposite signs ({opposed})"
    disagree = "agree in order, not in signs" if in_order else "disagree in signs and in order"
    return f"The two ways {disagree}: {signs}, {_joint(not in_order)} {order}. {NOT_ALONE}"


def _joint(alike: bool) -> str:
    return "and" if alike else "but"


def _title(what: str, answer: str, probability: float | None) -> str:
    return f"{what}: {bare(answer)}" + ("" if probability is None else f" ({100 * probability:.1f} %)")
