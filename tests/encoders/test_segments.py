"""Documents in one window, read apart: each as if it stood alone."""

import pytest
import torch

from glassformer.config.encoders import ENCODERS
from glassformer.config.model_section import POSITIONS
from glassformer.config.resolve import resolve
from glassformer.data.packing.windows import segments_of
from glassformer.encoders.registry import Place, build_encoder
from glassformer.encoders.transformer import positions_within
from glassformer.models.build import build_language_model, build_masked_model
from helpers.cases import build, small
from helpers.running import tiny
from helpers.support import differs, numbers, ready, same, tokens

LENGTHS = ((3, 1, 5), (2, 6, 1))
SEGMENTS = torch.tensor([[number for number, length in enumerate(row) for _ in range(length)] for row in LENGTHS])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_document_in_a_window_is_as_it_is_alone(positions: str, causal: bool) -> None:
    settings = resolve({}, {**tiny(), "model.positions": positions, "model.kv_heads": 1}).model
    encoder = ready(build_encoder(settings, Place(input_width=settings.width, causal=causal)))
    x = numbers(2, 9, settings.width)
    together = encoder(x, segments=SEGMENTS)
    assert differs(together, encoder(x))
    for row, lengths in enumerate(LENGTHS):
        pieces = [encoder(piece[None])[0] for piece in x[row].split(list(lengths))]
        same(together[row], torch.cat(pieces))


def test_padding_stays_nothing_among_documents() -> None:
    settings = resolve({}, tiny()).model
    encoder = ready(build_encoder(settings, Place(input_width=settings.width, causal=False)))
    x, mask = numbers(2, 9, settings.width), torch.arange(9) < torch.tensor([[7], [9]])
    loud = torch.where(mask.unsqueeze(-1), x, 100.0)
    one, other = (encoder(one, mask, segments=SEGMENTS) for one in (x, loud))
    same(one[mask], other[mask])
    same(one[0, 4:7], encoder(x[:1, 4:7])[0])


@pytest.mark.parametrize("build_model", [build_language_model, build_masked_model])
def test_models_hand_documents_on(build_model: object) -> None:
    assert callable(build_model)
    model = ready(build_model(resolve({}, tiny()).model, vocab=11))
    ids = tokens(2, 9, vocab=11)
    same(model.features(ids, segments=SEGMENTS)[0, 4:], model.features(ids[:1, 4:])[0])


@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in ("transformer", "bag", "linear", "mlp")])
def test_encoders_that_cannot_keep_documents_apart_say_so(name: str) -> None:
    encoder = build(small(encoder=name), causal=True)
    with pytest.raises(ValueError, match="apart"):
        encoder(numbers(2, 9, encoder.width), segments=SEGMENTS)


def test_positions_begin_again_in_each_document() -> None:
    assert positions_within(SEGMENTS).tolist() == [[0, 1, 2, 0, 0, 1, 2, 3, 4], [0, 1, 0, 1, 2, 3, 4, 5, 0]]


def test_start_begins_a_document_or_else_what_follows_end() -> None:
    ids = torch.tensor([[5, 2, 1, 6, 2, 1, 7], [1, 5, 6, 7, 2, 1, 2]])
    assert segments_of(ids, 1, 2).tolist() == [[0, 0, 1, 1, 1, 2, 2], [1, 1, 1, 1, 1, 2, 2]]
    assert segments_of(ids, None, 2).tolist() == [[0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1, 1]]
    assert segments_of(ids, None, None).tolist() == [[0] * 7, [0] * 7]
