"""What a Transformer is told of the order of its tokens."""

from glassformer.inspection.positions import placed, position_vectors, positions_view
from glassformer.inspection.views.registry import register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.view import View

MOST = 64
"""Positions that are shown."""


@register_view("positions", texts="none", needs=lambda loaded: placed(loaded.model) is not None)
def positions(request: LookRequest) -> View:
    encoder = placed(request.model)
    assert encoder is not None
    encodings = position_vectors(encoder, min(MOST, encoder.limit or MOST))
    return positions_view(encodings.kind, encodings.vectors)
