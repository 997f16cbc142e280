"""A model has one colour, whatever stands beside it."""

from glassformer.rendering.drawing.sheet import SEVERAL
from glassformer.rendering.panels import COLOURED_MODELS, SPARE, model_colours


def test_a_model_has_one_colour_whatever_stands_beside_it() -> None:
    assert model_colours(["lstm", "bag"]) == model_colours(["bag", "lstm"])[::-1]
    assert model_colours(["transformer", "lstm"])[1:] == model_colours(["lstm"])


def test_no_two_have_the_same() -> None:
    models = ["lstm", "lstm", "mine", "other", *COLOURED_MODELS]
    assert len(set(model_colours(models[:8]))) == 8
    assert len(set(model_colours(models))) == len(models)
    assert sorted(SPARE) == list(range(len(SEVERAL)))
