"""A run's model followed number by number: what it computes for an example, and one step of learning from it."""

from glassformer.config.presets import LABEL_SET
from glassformer.families.base import Loaded
from glassformer.inspection.capture import has_layers
from glassformer.inspection.numbers.training import training_step
from glassformer.inspection.numbers.walk import walk
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view
from glassformer.models.modules import BagPredictor, LanguageModel, Predictor, Seq2Seq
from glassformer.rendering.view import View

RATE = 0.1
"""The learning rate of a step of plain gradient descent on one example."""

OURS = (LanguageModel, Predictor, BagPredictor, Seq2Seq)
"""Models whose layers are known here; what a person's own is made of, only it knows."""


def _has_written_out_loss(loaded: Loaded) -> bool:
    return loaded.family.is_trained and loaded.family.label_kind != LABEL_SET


@register_view(
    "numbers",
    options=("layer", "head", "position", *DECODING),
    needs=lambda loaded: isinstance(loaded.model, OURS) and has_layers(loaded.model) and _has_written_out_loss(loaded),
)
def walk_through(request: LookRequest) -> View:
    """Every formula with its numbers."""
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


@register_view(
    "step",
    options=("position", "answer", *DECODING),
    needs=lambda loaded: loaded.family.text_loss and _has_written_out_loss(loaded),
)
def step(request: LookRequest) -> View:
    """Loss, gradient and update on one example; the run stays as it is."""
    example, loaded = request.example, request.loaded
    target, loss = loaded.family.training_target(loaded, example, request.answer)
    return training_step(
        request.model,
        example.inputs,
        target,
        loss=loss,
        tokens=() if loaded.family.labels_examples else example.written or example.tokens,
        words=example.tokens,
        outputs=loaded.family.output_names(loaded),
        position=request.position,
        lr=RATE,
        optimizer=loaded.config.training.optimizer,
    )
