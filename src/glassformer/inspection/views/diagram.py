"""The model as a picture of its bricks."""

from collections import Counter
from dataclasses import replace

from glassformer.inspection.diagram import diagram_of
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view
from glassformer.models.build import parameter_count
from glassformer.rendering.panels import Diagram
from glassformer.rendering.takeaways import leaders, listed
from glassformer.rendering.view import View

KINDS = {"head": "the head", "embedding": "the embedding", "pool": "the pool", "other": "all else"}
OPENED = "Each box says what it adds to the parameters; the wider, the wider its vectors (on a logarithmic scale)."


def _heaviest(panel: Diagram) -> str:
    """Which kind of brick holds most of the parameters."""
    weights = Counter[str]()
    for brick in panel.bricks:
        weights[brick.kind] += brick.parameters
    total = sum(weights.values())
    first = leaders(list(weights.values())) if total else []
    if not first:
        return "Nothing in it is learned"
    kinds = list(weights)
    share = f"{weights[kinds[first[0]]] / total:.0%}"
    names = listed([KINDS.get(kinds[at], kinds[at]) for at in first])
    held = "hold as much as one another" if len(first) > 1 else "holds most parameters"
    return f"{names[:1].upper()}{names[1:]} {held}: {share}" if len(kinds) > 1 else f"All parameters are in {names}"


@register_view("diagram", options=DECODING, texts="any", quick=True)
def diagram(request: LookRequest) -> View:
    """With a text, what it becomes in every brick; without one, the weights."""
    example = request.example if request.texts else None
    if example is None:
        panel = diagram_of(request.model)
    else:
        panel = diagram_of(request.model, example.inputs, example.tokens, example.written)
    panel = replace(panel, title="Bricks", takeaway=_heaviest(panel))
    return View(f"The model: {parameter_count(request.model):,} parameters", [panel], OPENED)
