"""The logit lens: what a model would say if it stopped after each of its layers, and what it says at the end."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from glassformer.config.arrays import Array
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.layers import INPUT, OUTPUT, passed
from glassformer.inspection.lens import lens_of, next_of
from glassformer.inspection.views.registry import DECODING, register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.models.token_model import Seq2Seq, TokenModel
from glassformer.rendering.panels import Guesses, Line, Lines, Panel, Table
from glassformer.rendering.view import View


def scores_tokens(loaded: Loaded) -> bool:
    """Whether the model's head scores tokens, so that a lens can be held before it."""
    return isinstance(loaded.model, TokenModel | Seq2Seq)


@register_view("logit-lens", options=DECODING, quick=True, needs=scores_tokens, aliases=("lens",))
def logit_lens(request: LookRequest) -> View:
    example = request.example
    seen = lens_of(request.model, example.inputs, answers=example.follows, never=request.never)
    return lens_view(
        example.written or example.tokens,
        seen.layers,
        seen.words(request.tokenizer.shown),
        seen.probabilities,
        example.answers,
        chances=seen.chances,
        entropy=seen.entropy,
        at=example.stand is not None,
    )


def guesses_panel(loaded: Loaded, example: ModelInput) -> Guesses:
    """What comes next, or stands at each place, layer by layer."""
    seen = lens_of(loaded.model, example.inputs, answers=example.follows)
    return Guesses(
        title=f"What it would {'say next' if example.stand is None else 'guess'}, layer by layer",
        tokens=example.written or example.tokens,
        layers=seen.layers,
        guesses=seen.words(loaded.output_tokenizer.shown),
        probabilities=seen.probabilities,
        answers=example.answers,
        at=example.stand is not None,
    )


@register_view("next", quick=True, needs=lambda loaded: loaded.family.predicts_next)
def next_tokens(request: LookRequest) -> View:
    likeliest = next_of(request.model, request.example.inputs, never=request.never)
    tokens = [request.tokenizer.shown(id) for id in likeliest.ids]
    return next_view(tokens, likeliest.probabilities, entropy=likeliest.entropy)


def lens_view(
    tokens: Sequence[str],
    layers: Sequence[str],
    guesses: Sequence[Sequence[Sequence[str]]],
    probabilities: Float[Array, "L T k"],
    answers: Sequence[str] | None = None,
    *,
    chances: Float[Array, "L T"] | None = None,
    entropy: Float[Array, "L T"] | None = None,
    title: str = "What it would say after each layer",
    at: bool = False,
) -> View:
    """The guesses, and layer by layer the probability of the right token (`chances`, NaN: unknown) and the entropy.

    `at`: the tokens themselves are guessed, not what follows them.
    """
    right = "the token that stands there" if at else "the token that did follow"
    panels: list[Panel] = [
        Guesses(tokens=tokens, layers=layers, guesses=guesses, probabilities=probabilities, answers=answers, at=at)
    ]
    x, note = passed(layers), ""
    if chances is not None and not np.isnan(chances).all():
        mean = np.nanmean(chances, 1).tolist()
        known = int((~np.isnan(chances[-1])).sum())
        line = Line(name=right, x=x, y=mean, dots=True)
        panels.append(
            Lines(
                title="Probability of the right token",
                series=[line],
                x_name="layers passed",
                y_name="probability",
                note=f"mean over {known} {'token' if known == 1 else 'tokens'}",
            )
        )
        note = (
            f"{right.capitalize()} has a probability of {mean[0]:.3f} {_where(layers[0])} and of "
            f"{mean[-1]:.3f} {_where(layers[-1])}, on average."
        )
    if entropy is not None:
        line = Line(name="entropy", x=x, y=entropy.mean(1).tolist(), dots=True)
        panels.append(
            Lines(title="How undecided it is", series=[line], x_name="layers passed", y_name="entropy (nats)")
        )
    return View(title, panels, note)


def next_view(
    words: Sequence[str],
    probabilities: Float[Array, "k"],
    *,
    entropy: float | None = None,
    title: str = "What comes next",
) -> View:
    """The likeliest next tokens, likeliest first."""
    rows = [(word, float(chance)) for word, chance in zip(words, probabilities, strict=True)]
    shown = Table(columns=("next token", "probability"), rows=rows, bars=("probability",))
    note = f"These {len(rows)} have {float(np.sum(probabilities)):.0%} of the probability together."
    if entropy is not None:
        note += f" The choice is as open as one among {math.exp(entropy):,.1f} tokens that are equally likely."
    return View(title, [shown], note)


def _where(layer: str) -> str:
    return f"at the {layer}" if layer in (INPUT, OUTPUT) else f"after {layer}"
