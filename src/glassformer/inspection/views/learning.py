"""Learning of a run: attention, logit lens and outputs of its model at the checkpoints kept during training."""

import copy
from dataclasses import replace
from functools import singledispatch
from typing import Any

from glassformer.config.messages import silent
from glassformer.config.progress import may_stop
from glassformer.families.base import Family, Loaded
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.families.language import LanguageFamily, LoadedLanguageModel
from glassformer.families.masked import LoadedMasked, MaskedFamily
from glassformer.families.requests import Example, ModelInput
from glassformer.families.translation import LoadedTranslator, TranslationFamily
from glassformer.inspection.views.attention import attention_panels, clearest_heads
from glassformer.inspection.views.logit_lens import guesses_panel, scores_tokens
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view
from glassformer.models.weights import put_weights
from glassformer.rendering.panels import Frames, Panel, Rows, Table, Words
from glassformer.rendering.takeaways import LIKELIEST, leading, three
from glassformer.rendering.view import View
from glassformer.runs import history
from glassformer.text.display import quoted

NOTHING_KEPT = "kept no moments of its training: train with --keep-checkpoints"
SAMPLE_TOKENS = 60
"""Number of tokens that a language model generates at each checkpoint."""


@register_view(
    "learning", options=DECODING, needs=lambda loaded: bool(history.steps_of(loaded.run)), otherwise=NOTHING_KEPT
)
def learning(request: LookRequest) -> View:
    """Show an example at every kept checkpoint: attention, the guesses of the logit lens, and the output."""
    loaded, text, example = request.loaded, request.text, request.example
    moment: Loaded = replace(loaded, model=copy.deepcopy(loaded.model))
    frames = []
    heads = clearest_heads(loaded.model, example)  # All checkpoints show the head that is sharpest in the end.
    steps = history.steps_of(loaded.run)
    for step in steps:
        may_stop()
        put_weights(moment.model, history.weights_at(loaded.run, step), f"{loaded.run.path}, update {step:,}")
        guesses = [guesses_panel(moment, example)] if scores_tokens(moment) else []
        outputs = output_panels(moment.family, moment, text, example)
        frames.append([*attention_panels(moment.model, example, choices=heads), *guesses, *outputs])
    moments = Frames(name="updates", labels=[f"{step:,}" for step in steps], frames=frames)
    return View(f"{loaded.run.path.name} as it learned", [moments])


@singledispatch
def output_panels(family: Family, moment: Any, text: Any, example: ModelInput) -> list[Panel]:
    """Return the model's output for the example as panels; sampling has the same seed at every checkpoint."""
    return []


@output_panels.register
def continuation_panels(
    family: LanguageFamily, moment: LoadedLanguageModel, text: str, example: ModelInput
) -> list[Panel]:
    return [
        Words(title="How it goes on", text=text + moment.generate(text, tokens=SAMPLE_TOKENS, temperature=0.8, seed=0))
    ]


@output_panels.register
def guess_panels(family: MaskedFamily, moment: LoadedMasked, text: str, example: ModelInput) -> list[Panel]:
    if moment.tokenizer.mask not in example.ids:
        return []
    places = enumerate(moment.fill(text, say=silent).places, 1)
    rows: Rows = [[number, guess.token, guess.probability] for number, place in places for guess in place]
    return [Table(title="What it guesses", columns=["MASK", "token", "probability"], rows=rows, bars=["probability"])]


@output_panels.register
def translation_panels(
    family: TranslationFamily, moment: LoadedTranslator, text: str, example: ModelInput
) -> list[Panel]:
    return [Words(title="How it translates", text=moment.translate(text, say=silent).text)]


@output_panels.register
def prediction_panels(
    family: LabellingFamily, moment: LoadedPredictor, text: Example, example: ModelInput
) -> list[Panel]:
    prediction = moment.predict(text, say=silent)
    if prediction.probabilities is None:
        number = f"It says {three(prediction.value or 0.0)}"
        return [Table(title="What it says", takeaway=number, columns=["number"], rows=[[prediction.value]])]
    rows = list(prediction.probabilities.items())
    said = leading([quoted(name) for name, _ in rows], [chance for _, chance in rows], LIKELIEST)
    columns = ["class", "probability"]
    return [Table(title="What it says", takeaway=said, columns=columns, rows=rows, bars=columns[1:])]
