"""The vectors of a model, layer by layer."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from glassformer.encoders.base import Encoder
from glassformer.inspection.capture import capture, layers_of
from glassformer.models.reader import Predictor
from glassformer.models.token_model import Seq2Seq, TokenModel

INPUT, OUTPUT = "input", "output"


def vectors_by_layer(
    model: TokenModel | Seq2Seq | Predictor, where: str, inputs: Sequence[Any]
) -> list[tuple[str, Float[Tensor, "B T _"]]]:
    """The vectors before the first layer of the encoder that stands there, after each layer, and its output."""
    encoder = model.get_submodule(where)
    assert isinstance(encoder, Encoder)
    names = ["output", *(name for names in encoder.layer_outputs() for name in names)]
    with capture(model, [f"{where}.{name}" for name in names]) as seen:
        if isinstance(model, Seq2Seq) and where == "encoder":
            model.encode(*inputs[:2])
        else:
            model.features(*inputs)
    return [*layers_of(seen, encoder, where), (OUTPUT, seen[f"{where}.output"])]


def passed(layers: Sequence[str]) -> list[float]:
    """How many layers lie behind each of these: none at the input."""
    first = 0 if layers[0] == INPUT else 1
    return [float(number) for number in range(first, first + len(layers))]
