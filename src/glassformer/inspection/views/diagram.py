"""The model as a picture of its bricks."""

from glassformer.inspection.diagram import diagram_of
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view
from glassformer.models.build import parameter_count
from glassformer.rendering.view import View

OPENED = "Each box says what it adds to the parameters; the wider, the wider its vectors (on a logarithmic scale)."


@register_view("diagram", options=DECODING, texts="any", quick=True)
def diagram(request: LookRequest) -> View:
    """With a text, what it becomes in every brick; without one, the weights."""
    example = request.example if request.texts else None
    if example is None:
        panel = diagram_of(request.model)
    else:
        panel = diagram_of(request.model, example.inputs, example.tokens, example.written)
    return View(f"The model: {parameter_count(request.model):,} parameters", [panel], OPENED)
