"""Attribution, or saliency: which words decided. Each is shaded by how much it spoke for the answer, in two ways."""

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
from glassformer.inspection.views.logit_lens import next_of, scores_tokens
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view
from glassformer.models.modules import Seq2Seq
from glassformer.rendering.panels import Gallery, Grid, Panel, Table, Tokens
from glassformer.rendering.view import View
from glassformer.tasks.answers import Classes
from glassformer.text.display import bare, quoted

WAYS = ("gradient × input", "leave-one-out")
STRONGEST = 12
"""Tokens in the table."""
NAMED = 3
"""Tokens that are named for and against."""
AGREE, IN_PART = 0.8, 0.4
"""Correlations from which the two ways say the same, and roughly the same."""
ROUNDING = 1e-3
"""Two ways that differ by no more than this share of the largest are one: a small share of a large score is rounded."""
ONE_AND_THE_SAME = (
    "The two ways are one and the same here: the score is a sum, to which each part adds its share; leaving a part out "
    "takes that share away, and the others keep theirs."
)


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
    return family.is_trained and family.text_loss and (family.labels_examples or scores_tokens(loaded))


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
    return Grid(
        title=f"{title}: gradient × input",
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
            Tokens(title=name, tokens=tokens, values=np.nan_to_num(values)[None], signed=True, note=note)
            for name, values, note in ways
        ]
    else:
        rows, columns = ([str(place) for place in range(count)] for count in grid)
        panels = [
            Grid(title=name, values=np.nan_to_num(values).reshape(grid), rows=rows, columns=columns, signed=True,
                 note=note)
            for name, values, note in ways
        ]  # fmt: skip
    order = np.argsort(-np.abs(gradient), kind="stable")[:STRONGEST].tolist()
    strongest = [
        (tokens[at], at, *(float(way[at]) if np.isfinite(way[at]) else None for way in (gradient, left_out)))
        for at in order
    ]
    return [*panels, Table(title="the strongest", columns=("token", "place", *WAYS), rows=strongest)]


def _note(explained: str, tokens: Sequence[str], gradient: Shares, left_out: Shares) -> str:
    return " ".join(filter(None, (explained, _for_and_against(tokens, gradient), _agreement(gradient, left_out))))


def _for_and_against(tokens: Sequence[str], gradient: Shares) -> str:
    order = np.argsort(-gradient, kind="stable").tolist()
    clauses = []
    for name, places, sign in (("for", order, 1), ("against", order[::-1], -1)):
        named = [f"{quoted(tokens[at])} ({gradient[at]:+.3g})" for at in places[:NAMED] if sign * gradient[at] > 0]
        if named:
            clauses.append(
                f"most {name} it speak {', '.join(named)}" if len(named) > 1 else f"{name} it speaks {named[0]}"
            )
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _agreement(gradient: Shares, left_out: Shares) -> str:
    correlation = agreement(gradient, left_out)
    if correlation is None:
        return ""
    apart = np.nanmax(np.abs(gradient - left_out))
    if apart <= ROUNDING * np.abs(gradient).max():
        return ONE_AND_THE_SAME
    if correlation >= IN_PART:
        return f"The two ways agree{'' if correlation >= AGREE else ' in part'} (correlation {correlation:.2f})."
    return (
        f"The two ways disagree (correlation {correlation:.2f}): here the gradient is a poor guide to what happens "
        "without a token, and neither should be trusted alone."
    )


def _title(what: str, answer: str, probability: float | None) -> str:
    return f"{what}: {bare(answer)}" + ("" if probability is None else f" ({100 * probability:.1f} %)")
