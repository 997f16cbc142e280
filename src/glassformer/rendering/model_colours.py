"""One colour for each model, on every page and picture."""

from collections.abc import Sequence

OF_MODELS = ("transformer", "lstm", "cnn", "rnn", "gru", "average", "bag", "window", "mlp", "linear")
"""The models that have a colour of their own, which is the one at this place."""
SPARE = (10, 11, *range(10))
"""Colours of others, in this order. The page has twelve (`--c0` to `--c11`), and so have pictures."""


def model_colours(models: Sequence[str]) -> list[int]:
    """The colour of each, by the model it is; where that is unknown, or comes again, one that is free."""
    colours: list[int] = []
    for model in models:
        wanted = [OF_MODELS.index(model)] if model in OF_MODELS else []
        colours.append(next((colour for colour in (*wanted, *SPARE) if colour not in colours), len(colours)))
    return colours
