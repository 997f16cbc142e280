"""States and gates of recurrent layers over time, and the vectors that convolutions give."""

import torch

from glassformer.bricks.recurrent import Recurrent
from glassformer.encoders.convolutional import CnnEncoder
from glassformer.families.base import Loaded
from glassformer.inspection.capture import capture
from glassformer.inspection.states import SEEN, states_of, states_view
from glassformer.inspection.views.registry import WRITTEN, register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.view import View


def _has_states(loaded: Loaded) -> bool:
    return any(isinstance(module, Recurrent | CnnEncoder) for module in loaded.model.modules())


@register_view("states", options=WRITTEN, quick=True, needs=_has_states)
def states(request: LookRequest) -> View:
    """The states of the layers that read; of a translator, those of both sides."""
    example = request.example
    with torch.inference_mode(), capture(request.model, SEEN) as seen:
        request.model(*example.inputs)
    if not example.written:
        return states_view(example.tokens, states_of(seen, "encoder"))
    sides = [("Source", example.tokens, "encoder"), ("Target", example.written, "decoder")]
    by_side = [(name, tokens, states_of(seen, where)) for name, tokens, where in sides]
    views = [states_view(tokens, layers, side=name) for name, tokens, layers in by_side if layers]
    return View("States", [panel for view in views for panel in view.panels], " ".join(view.note for view in views))
