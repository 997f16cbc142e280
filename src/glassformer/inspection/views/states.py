"""States and gates of recurrent layers over time, and the vectors that convolutions give."""

from glassformer.inspection.states import has_states, states_of, states_view
from glassformer.inspection.views.registry import WRITTEN, register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.view import View


@register_view("states", options=WRITTEN, quick=True, needs=lambda loaded: has_states(loaded.model))
def states(request: LookRequest) -> View:
    """The states of the layers that read; of a translator, those of both sides."""
    example = request.example
    by_side = states_of(request.model, example.inputs)
    if not example.written:
        return states_view(example.tokens, by_side["encoder"])
    sides = [("Source", example.tokens, "encoder"), ("Target", example.written, "decoder")]
    views = [states_view(tokens, by_side[where], side=name) for name, tokens, where in sides]
    return View("States", [panel for view in views for panel in view.panels], " ".join(view.note for view in views))
