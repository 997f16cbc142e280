"""Which colour a model has."""

from collections.abc import Iterable


def model_colours(names: Iterable[str]) -> dict[str, int]:
    """A colour for each model, as its place among those of series: the same wherever a page draws the model."""
    return {name: place for place, name in enumerate(dict.fromkeys(names))}
