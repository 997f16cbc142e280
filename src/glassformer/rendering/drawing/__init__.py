"""Pictures of views: `draw` makes a figure of one, `save` writes it to a file."""

from glassformer.rendering.drawing.picture import draw, save

__all__ = ["draw", "save"]
