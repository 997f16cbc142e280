"""The logit lens: what a model would say if it stopped after each of its layers, and what it says at the end."""

from glassformer.families.base import Loaded
from glassformer.families.model_input import ModelInput
from glassformer.inspection.lens import lens_of, lens_view, next_of, next_view
from glassformer.inspection.views.registry import WRITTEN, register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.token_model import TokenModel
from glassformer.rendering.panels import Guesses
from glassformer.rendering.view import View


def scores_tokens(loaded: Loaded) -> bool:
    """Whether the model's head scores tokens, so that a lens can be held before it."""
    return isinstance(loaded.model, TokenModel | Seq2Seq)


@register_view("logit-lens", options=WRITTEN, quick=True, needs=scores_tokens, aliases=("lens",))
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
