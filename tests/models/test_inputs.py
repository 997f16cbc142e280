"""Readers of tables, images and mixed examples: the same bricks, and whatever comes in becomes vectors."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.bricks.convolution import Patches
from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import SettingError
from glassformer.config.presets import IMAGE, KINDS, MIXED, TABLE, TEXT
from glassformer.models.build import build_predictor, parameter_count, put_vectors
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, MixedTokens, Shape, words_of
from glassformer.models.modules import Predictor
from helpers.kinds import config_of
from helpers.support import differs, numbers, randomise, same, tokens

B, VOCAB, OUT = 5, 13, 3
SHAPES = {
    TEXT: Shape(vocab=VOCAB),
    TABLE: Shape(numbers=2, categories=(4, 3)),
    IMAGE: Shape(image=(3, 11, 7)),
    MIXED: Shape(vocab=VOCAB, numbers=2, categories=(4, 3), image=(3, 11, 7)),
}
WORDS = (tokens(B, 7, vocab=VOCAB), torch.arange(7) < torch.tensor([7, 4, 1, 2, 6])[:, None])
COLUMNS = (numbers(B, 2, dtype=torch.float32), torch.tensor([[1, 2], [3, 1], [0, 0], [2, 2], [1, 1]]))
PIXELS = (numbers(B, 3, 11, 7, dtype=torch.float32),)
INPUTS: dict[str, tuple[Tensor, ...]] = {
    TEXT: WORDS,
    TABLE: COLUMNS,
    IMAGE: PIXELS,
    MIXED: (*WORDS, *COLUMNS, *PIXELS),
}
EVERY = [(name, kind) for name, info in ENCODERS.items() for kind in KINDS if kind in info.reads and name != "bag"]
every_predictor = pytest.mark.parametrize(("name", "kind"), EVERY)
SMALL = {"width": 12, "layers": 2, "heads": 2, "context": 17, "kernel": 3, "head_hidden": 11}


def reader_of(name: str, kind: str, shape: Shape | None = None, seed: int = 0, **flags: Any) -> Predictor:
    config = config_of(kind, name)
    used = {f"model__{key}": value for key, value in SMALL.items() if config.idle(f"model.{key}") is None}
    config = config_of(kind, name, **{**used, **{f"model__{key}": value for key, value in flags.items()}})
    model = build_predictor(config.model, shape=shape or SHAPES[kind], outputs=OUT, seed=seed)
    assert isinstance(model, Predictor)
    return model


@every_predictor
def test_embed_encode_pool_answer(name: str, kind: str) -> None:
    model, inputs = randomise(reader_of(name, kind)).eval(), INPUTS[kind]
    scores = model(*inputs)
    assert scores.shape == (B, OUT)
    x, mask = model.vectors(*inputs)
    states = model.states(*inputs)
    assert states.shape[:2] == x.shape[:2]
    same(model.features(*inputs), model.pool(states, mask), 1e-5)
    same(scores, model.head(model.features(*inputs)), 1e-5)


@every_predictor
def test_company_changes_nothing(name: str, kind: str) -> None:
    model = randomise(reader_of(name, kind)).eval()
    scores = model(*INPUTS[kind])
    for row in range(B):
        same(scores[row : row + 1], model(*(tensor[row : row + 1] for tensor in INPUTS[kind])), 1e-4)


@every_predictor
def test_everything_that_is_there_is_read(name: str, kind: str) -> None:
    """A change in any of the inputs changes the answer."""
    model = randomise(reader_of(name, kind)).eval()
    scores = model(*INPUTS[kind])
    for place, tensor in enumerate(INPUTS[kind]):
        if tensor.dtype == torch.bool:
            continue
        for column in range(tensor.shape[1]) if kind == TABLE else (0,):
            other = tensor.clone()
            other[:, column] = (other[:, column] + 1) % 3 if tensor.dtype == torch.long else other[:, column] + 2.0
            changed = model(*INPUTS[kind][:place], other, *INPUTS[kind][place + 1 :])
            assert differs(changed, scores), (place, column)


@every_predictor
def test_every_weight_is_learned(name: str, kind: str) -> None:
    model = randomise(reader_of(name, kind)).train()
    model(*INPUTS[kind]).pow(3).sum().backward()
    for key, weight in model.named_parameters():
        assert weight.grad is not None, key
        assert (weight.grad != 0).any(), key


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [pair for pair in EVERY if pair[0] != "linear"])  # that cannot fit all
def test_one_batch_is_overfitted(name: str, kind: str) -> None:
    torch.manual_seed(0)
    unused = {"dropout": 0.0, "word_dropout": 0.0}
    config = config_of(kind, name)
    model = reader_of(name, kind, **{key: value for key, value in unused.items() if not config.idle(f"model.{key}")})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    true = torch.arange(B) % OUT
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(*INPUTS[kind]), true).backward()
        optimizer.step()
    assert F.cross_entropy(model.eval()(*INPUTS[kind]), true).item() < 0.2


@every_predictor
def test_the_first_answer_is_that_nothing_is_known(name: str, kind: str) -> None:
    scores = reader_of(name, kind).eval()(*INPUTS[kind])
    assert (scores.softmax(-1) - 1 / OUT).abs().max() < 0.15


@every_predictor
def test_the_same_seed_gives_the_same_weights(name: str, kind: str) -> None:
    first, again, other = (reader_of(name, kind, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(differs(first[key], other[key]) for key in first) == (name != "linear")  # that starts at 0


# What comes in, written out


def test_columns_as_tokens_written_out() -> None:
    embed = randomise(ColumnTokens(numbers=2, categories=(4, 3), width=6))
    x, mask = embed(*COLUMNS)
    weights = {key: value.numpy() for key, value in embed.state_dict().items()}
    assert mask is None
    assert embed.tokens == 4
    for row in range(B):
        for column in range(2):
            value = COLUMNS[0][row, column].item()
            same(x[row, column], value * weights["slopes.weight"][column] + weights["offsets.weight"][column], 1e-5)
        for column in range(2):
            same(x[row, 2 + column], weights[f"values.{column}.weight"][COLUMNS[1][row, column]], 1e-6)


def test_a_flat_row_written_out() -> None:
    x, _ = FlatColumns(numbers=2, categories=(4, 3))(*COLUMNS)
    assert x.shape == (B, 1, 2 + 3 + 2)
    same(x[0, 0], [*COLUMNS[0][0].tolist(), 1, 0, 0, 0, 1], 1e-6)
    same(x[2, 0, 2:], [0.0] * 5)  # both unknown


def test_an_unknown_value_adds_nothing() -> None:
    model = reader_of("transformer", TABLE)
    assert isinstance(model.embed, ColumnTokens)
    x, _ = model.embed(*COLUMNS)
    assert (x[2, 2:] == 0).all()
    model(*COLUMNS).sum().backward()
    assert (model.embed.values[0].weight.grad[0] == 0).all()


def test_flat_pixels() -> None:
    x, _ = FlatPixels(channels=3, height=11, width=7)(*PIXELS)
    assert torch.equal(x[:, 0], PIXELS[0].reshape(B, -1))


def test_a_linear_reader_is_a_linear_map() -> None:
    model = randomise(reader_of("linear", TABLE))
    flat = FlatColumns(numbers=2, categories=(4, 3))(*COLUMNS)[0][:, 0]
    same(model(*COLUMNS), flat @ model.head.output.weight.T + model.head.output.bias, 1e-5)
    assert parameter_count(model) == 7 * OUT + OUT
    assert parameter_count(reader_of("linear", IMAGE)) == 3 * 11 * 7 * OUT + OUT
    assert parameter_count(reader_of("mlp", TABLE)) == 7 * 11 + 11 + 11 * OUT + OUT


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if MIXED in info.reads])
def test_mixed_examples_are_joined_with_padding_at_the_end(name: str) -> None:
    model = randomise(reader_of(name, MIXED)).eval()
    embed = model.embed
    assert isinstance(embed, MixedTokens)
    x, mask = model.vectors(*INPUTS[MIXED])
    beside = 4 + 3 * 2  # columns, and patches of 4 × 4
    assert (embed.beside, embed.tokens) == (beside, None)
    assert mask is not None
    assert mask.sum(1).tolist() == [beside + length for length in (7, 4, 1, 2, 6)]
    assert all(row.tolist() == sorted(row.tolist(), reverse=True) for row in mask)
    columns, image, text = embed.kinds.weight
    same(x[:, :4], embed.columns(*COLUMNS)[0] + columns, 1e-5)
    same(x[:, 4:beside], embed.image(*PIXELS)[0] + image, 1e-5)
    same(x[:, beside:], embed.words(WORDS[0]) + text, 1e-5)
    loud = WORDS[0].masked_fill(~WORDS[1], VOCAB - 1)
    same(model(loud, *INPUTS[MIXED][1:]), model(*INPUTS[MIXED]), 1e-4)


@pytest.mark.parametrize(
    ("shape", "inputs"),
    [
        (Shape(vocab=VOCAB, numbers=2), (*WORDS, COLUMNS[0], COLUMNS[1][:, :0])),
        (Shape(vocab=VOCAB, image=(3, 11, 7)), (*WORDS, *PIXELS)),
        (Shape(categories=(4, 3), image=(3, 11, 7)), (COLUMNS[0][:, :0], COLUMNS[1], *PIXELS)),
    ],
)
def test_not_all_kinds_need_be_there(shape: Shape, inputs: tuple[Tensor, ...]) -> None:
    model = reader_of("transformer", MIXED, shape)
    assert isinstance(model.embed, MixedTokens)
    assert model(*inputs).shape == (B, OUT)
    assert (model.embed.tokens is None) == bool(shape.vocab)


def test_a_long_text_fits_beside_the_columns() -> None:
    model = reader_of("transformer", MIXED, context=9, positions="learned")
    words = tokens(B, 9, vocab=VOCAB)
    assert model(words, words >= 0, *COLUMNS, *PIXELS).shape == (B, OUT)


# Images


def test_convolutions_grow_wider_and_are_flattened() -> None:
    model = reader_of("cnn", IMAGE, layers=3, width=40)
    stack = model.embed.cut
    assert [layer.out_channels for layer in stack.convolutions] == [10, 20, 40]
    assert (stack.pooled, stack.cells) == ([True, False, False], 15)
    assert model.features(*PIXELS).shape == (B, stack.cells * 40)
    assert reader_of("cnn", IMAGE, pool="mean").features(*PIXELS).shape == (B, 12)


def test_stride_and_padding_of_convolutions() -> None:
    model = reader_of("cnn", IMAGE, layers=1, kernel=3, stride=2, padding=0)
    assert model.embed.cut.grid == (5, 3)
    assert model.features(*PIXELS).shape == (B, 15 * 12)
    with pytest.raises(SettingError, match=r"layer 1 reads 3×2, too small for a kernel of 3; more model\.padding"):
        reader_of("cnn", IMAGE, layers=2, kernel=3, stride=4, padding=0)


@pytest.mark.parametrize(("patch", "cells"), [(4, 6), (3, 12), (11, 1)])
def test_patches(patch: int, cells: int) -> None:
    model = reader_of("transformer", IMAGE, patch=patch)
    assert isinstance(model.embed.cut, Patches)
    assert model.states(*PIXELS).shape == (B, cells, 12)


def test_where_a_patch_lies_is_seen() -> None:
    moved = PIXELS[0].roll(4, -2)
    model = randomise(reader_of("transformer", IMAGE)).eval()
    assert differs(model(*PIXELS), model(moved))


# What cannot be


def test_texts_cannot_be_flattened() -> None:
    with pytest.raises(SettingError, match=r"model\.pool flatten needs as many vectors of every example"):
        reader_of("lstm", TEXT, pool="flatten")
    with pytest.raises(SettingError, match=r"model\.pool flatten"):
        reader_of("transformer", MIXED, pool="flatten")
    assert reader_of("transformer", TABLE, pool="flatten").features(*COLUMNS).shape == (B, 4 * 12)


def test_one_hot_words_stand_alone() -> None:
    with pytest.raises(SettingError, match=r"model\.embed onehot is for texts alone"):
        reader_of("lstm", MIXED, embed="onehot")


@pytest.mark.parametrize("frozen", [False, True])
def test_vectors_of_words_beside_columns(frozen: bool) -> None:
    flags = {"vectors": "some.txt", "vectors_frozen": True} if frozen else {}
    model = reader_of("lstm", MIXED, **flags)
    words = words_of(model.embed)
    assert words is not None
    put_vectors(model, np.array([2, 5]), np.ones((2, 12), np.float32))
    assert (words.table.weight[[2, 5]] == 1).all()
    assert words.table.weight.requires_grad != frozen
    assert words_of(reader_of("linear", TABLE).embed) is None
