"""Watch a run learn: what its model looked at, expected and said at the moments of its training that were kept."""

import copy
from dataclasses import replace
from typing import Any

from torch import nn

from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.embedding import LoadedEmbedder
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.masked import LoadedMasked
from glassformer.families.model_input import Example, ModelInput
from glassformer.families.translation import LoadedTranslator
from glassformer.inspection.attention import attention_of
from glassformer.inspection.attention_views import attention_view, patches_view
from glassformer.inspection.learning_view import learning_view
from glassformer.inspection.lens import lens_of
from glassformer.models.weights import put_weights
from glassformer.rendering.panels import Guesses, Panel, Rows, Table, Words
from glassformer.rendering.view import View
from glassformer.runs import history

SAMPLE = 60
"""Tokens that a language model writes at each moment."""


def learning(loaded: Loaded, text: Example, example: ModelInput) -> View:
    """The same example at every moment that was kept: attention, the lens's guesses, and what the model says."""
    steps = history.steps_of(loaded.run)
    if not steps:
        raise Misuse(f"{loaded.run.path} kept no moments of its training: train with --keep-checkpoints")
    moment: Loaded = replace(loaded, model=copy.deepcopy(loaded.model))
    frames = []
    for step in steps:
        source = f"{loaded.run.path}, update {step:,}"
        put_weights(moment.model, history.weights_at(loaded.run, step), source)
        frames.append(_panels(moment, text, example))
    return learning_view(loaded.run.path.name, steps, frames)


def _panels(moment: Loaded, text: Example, example: ModelInput) -> list[Panel]:
    guesses = [] if isinstance(moment, LoadedPredictor | LoadedEmbedder) else [_guesses(moment, example)]
    if example.stand is not None and "" not in (example.answers or ()):  # a text without MASK
        return [*attention_panels(moment.model, example), *guesses]
    return [*attention_panels(moment.model, example), *guesses, _said(moment, text)]


def attention_panels(model: nn.Module, example: ModelInput, before: str = "") -> list[Panel]:
    """The weights of every stack of layers; of an image, from patch to patch. None where there is no attention.

    `before`: what their titles begin with.
    """
    stacks = attention_of(model, example.inputs)
    if stacks and example.pixels is not None and example.grid is not None and example.square is not None:
        view = patches_view(example.pixels, stacks["self"], example.grid)
        return [replace(panel, title=f"{before}{view.title}") for panel in view.panels]
    view = attention_view(stacks, example.sides)
    return [replace(panel, title=f"{before}{panel.title}") for panel in view.panels]


def _guesses(moment: Any, example: ModelInput) -> Guesses:
    """What comes next, or stands at each place, layer by layer."""
    tokenizer = moment.target_tokenizer if isinstance(moment, LoadedTranslator) else moment.tokenizer
    seen = lens_of(moment.model, example.inputs, answers=example.follows)
    return Guesses(
        title=f"What it would {'say next' if example.stand is None else 'guess'}, layer by layer",
        tokens=example.written or example.tokens,
        layers=seen.layers,
        guesses=seen.words(tokenizer.shown),
        probabilities=seen.probabilities,
        answers=example.answers,
        at=example.stand is not None,
    )


def _said(moment: Loaded, text: Example) -> Panel:
    """What the model makes of the example; a text that is written on has the same seed at every moment."""
    if isinstance(moment, LoadedPredictor):
        said = moment.predict(text)
        if said.probabilities is None:
            return Table(title="What it says", columns=["number"], rows=[[said.value]])
        rows = list(said.probabilities.items())
        return Table(title="What it says", columns=["class", "probability"], rows=rows, bars=["probability"])
    assert not isinstance(moment, LoadedEmbedder)  # which was not trained here
    text = str(text)
    if isinstance(moment, LoadedMasked):
        found = enumerate(moment.fill(text).places, 1)
        places: Rows = [[number, one.token, one.probability] for number, place in found for one in place]
        return Table(
            title="What it guesses", columns=["MASK", "token", "probability"], rows=places, bars=["probability"]
        )
    if isinstance(moment, LoadedTranslator):
        return Words(title="How it translates", text=moment.translate(text).text)
    assert isinstance(moment, LoadedLanguageModel)
    return Words(title="How it goes on", text=text + moment.generate(text, tokens=SAMPLE, temperature=0.8, seed=0))
