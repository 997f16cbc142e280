"""Sequence-to-sequence models of every encoder and decoder."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks.losses import vocabulary_loss
from glassformer.bricks.pooling import pool_ends, pool_last, pool_mean
from glassformer.config.errors import SettingError
from glassformer.config.model_section import Bag
from glassformer.encoders.recurrent import RecurrentDecoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.build import build_seq2seq, parameter_count
from glassformer.models.modules import Seq2Seq
from glassformer.models.weights import put_weights, take_weights
from helpers.support import copy_block, differs, numbers, randomise, ready, same, tokens
from helpers.translators import SMALL, SOURCE_VOCAB, TARGET_VOCAB, TRANSLATORS, Flags, label, settings_of, translator

B, S, T = 3, 5, 7
every_translator = pytest.mark.parametrize("flags", TRANSLATORS, ids=label)


def ragged(lengths: tuple[int, ...], longest: int) -> Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


SOURCE = tokens(B, S, vocab=TARGET_VOCAB, seed=1)
SOURCE_MASK = ragged((5, 2, 3), S)
TARGET = tokens(B, T, vocab=TARGET_VOCAB, seed=2)


@pytest.mark.sample(5)
@every_translator
def test_read_write_score(flags: Flags) -> None:
    model = ready(translator(**flags))
    memory = model.encode(SOURCE, SOURCE_MASK)
    same(memory.states, model.encoder(model.embed_source(SOURCE), SOURCE_MASK))
    assert memory.mask is SOURCE_MASK
    features = model.decoder(model.embed_target(TARGET), memory=memory)
    same(model.features(SOURCE, SOURCE_MASK, TARGET), features)
    scores = model(SOURCE, SOURCE_MASK, TARGET)
    assert scores.shape == (B, T, TARGET_VOCAB)
    same(scores, features.detach().numpy() @ model.head.weight.detach().numpy().T)


@pytest.mark.sample(5)
@every_translator
def test_pieces_equal_the_whole(flags: Flags) -> None:
    model = ready(translator(**flags))
    whole = model.features(SOURCE, SOURCE_MASK, TARGET)
    for pieces in [(1,) * T, (3, 1, 3)]:
        state = model.init_state(model.encode(SOURCE, SOURCE_MASK), T)
        same(torch.cat([model.extend(piece, state) for piece in TARGET.split(list(pieces), 1)], 1), whole)


@pytest.mark.sample(5)
@every_translator
def test_padding_on_either_side_changes_nothing(flags: Flags) -> None:
    model = ready(translator(**flags))
    target_lengths = (4, 7, 1)
    out = model(SOURCE, SOURCE_MASK, TARGET, ragged(target_lengths, T))
    unmasked = model(SOURCE, SOURCE_MASK, TARGET)
    for row, (source, target) in enumerate(zip((5, 2, 3), target_lengths, strict=True)):
        alone = model(SOURCE[row : row + 1, :source], None, TARGET[row : row + 1, :target])[0]
        same(out[row, :target], alone)
        same(unmasked[row, :target], alone)


@pytest.mark.sample(5)
@every_translator
def test_the_answer_cannot_be_read_and_the_source_can(flags: Flags) -> None:
    model = ready(translator(**flags))
    before = model(SOURCE, SOURCE_MASK, TARGET)
    other = TARGET.clone()
    other[:, 4] = (TARGET[:, 4] + 1) % TARGET_VOCAB
    after = model(SOURCE, SOURCE_MASK, other)
    assert torch.equal(before[:, :4], after[:, :4])
    assert differs(before[:, 4], after[:, 4])
    elsewhere = SOURCE.clone()
    elsewhere[0, 4] = (SOURCE[0, 4] + 1) % TARGET_VOCAB
    changed = model(elsewhere, SOURCE_MASK, TARGET) - before
    assert (changed[0].abs().amax(-1) > 1e-7).all()
    assert (changed[1:] == 0).all()


@pytest.mark.sample(5)
@every_translator
def test_every_weight_is_learned(flags: Flags) -> None:
    model = ready(translator(**flags))
    model(SOURCE, SOURCE_MASK, TARGET).pow(3).sum().backward()
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            assert weight.grad is not None, name
            assert (weight.grad != 0).any(), name


def overfit(model: Seq2Seq, steps: int, rate: float) -> float:
    """The loss per token after some updates on one batch: the source says which text this is, and all begin alike."""
    source = tokens(4, S, vocab=TARGET_VOCAB, seed=5)
    source[:, -1] = torch.arange(4)
    text = tokens(4, 6, vocab=TARGET_VOCAB, seed=6)
    text[:, 0] = 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        features = model.features(source, None, text[:, :-1])
        loss = vocabulary_loss(features.flatten(0, 1), model.head.weight, text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    return F.cross_entropy(model(source, None, text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()).item()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "decoder", "flags"),
    [
        ("transformer", "transformer", {}),
        ("transformer", "transformer", {"style": "classic"}),
        ("lstm", "transformer", {"bidirectional": True, "shared": True}),
        ("lstm", "lstm", {"attention": "none"}),
        ("gru", "lstm", {"bidirectional": True, "input_feeding": True}),
        ("gru", "gru", {"attention": "dot", "tied": False}),
        ("transformer", "gru", {"attention": "scaled", "input_feeding": True}),
        ("cnn", "rnn", {"attention": "bilinear"}),
    ],
    ids=str,
)
def test_one_batch_is_overfitted(encoder: str, decoder: str, flags: Flags) -> None:
    loss = overfit(translator(encoder, decoder, **{"width": 24, **flags}), steps=90, rate=2e-2)
    assert loss < 0.2, f"{loss} of {math.log(TARGET_VOCAB)}"


# What is shared


@pytest.mark.parametrize("decoder", ["transformer", "lstm"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_tables(decoder: str, tied: bool, shared: bool) -> None:
    model = translator("lstm", decoder, tied=tied, shared=shared)
    assert (model.embed_source.table is model.embed_target.table) == shared
    assert (model.head.weight is model.embed_target.table.weight) == tied
    tables = TARGET_VOCAB * (1 if tied else 2) + (0 if shared else SOURCE_VOCAB)
    inner = parameter_count(model.encoder) + parameter_count(model.decoder)
    assert parameter_count(model) == inner + tables * SMALL["width"]
    weights = take_weights(model)
    other = translator("lstm", decoder, tied=tied, shared=shared, seed=9)
    put_weights(other, {name: value.clone() for name, value in weights.items()}, "the file")
    source = SOURCE % TARGET_VOCAB
    assert torch.equal(model.eval()(source, None, TARGET), other.eval()(source, None, TARGET))


def test_the_same_seed_gives_the_same_weights() -> None:
    first, again, other = (translator("gru", "transformer", seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    translator("gru", "transformer")
    assert torch.equal(torch.rand(1), expected)


def test_layers_of_each_side() -> None:
    model = translator("transformer", "transformer", layers=3, decoder_layers=2)
    assert [len(side.blocks) for side in (model.encoder, model.decoder)] == [3, 2]
    assert not model.encoder.causal
    assert model.decoder.causal
    model = translator("lstm", "gru", layers=3, decoder_layers=2, bidirectional=True)
    assert [side.layers.cell.num_layers for side in (model.encoder, model.decoder)] == [3, 2]
    assert model.encoder.layers.cell.bidirectional
    assert not model.decoder.layers.cell.bidirectional


@pytest.mark.parametrize(
    ("encoder", "flags", "pool"),
    [
        ("lstm", {}, pool_last),
        ("rnn", {"bidirectional": True}, pool_ends),
        ("transformer", {}, pool_mean),
        ("cnn", {}, pool_mean),
    ],
)
def test_what_a_decoder_starts_from(encoder: str, flags: Flags, pool: Any) -> None:
    model = ready(translator(encoder, "gru", attention="none", **flags))
    memory = model.encode(SOURCE, SOURCE_MASK)
    same(model.decoder.summary(*memory), pool(*memory))


def test_one_hot() -> None:
    model = randomise(translator("gru", "lstm", embed="onehot")).eval()
    assert (model.embed_source.width, model.embed_target.width) == (SOURCE_VOCAB, TARGET_VOCAB)
    whole = model.features(SOURCE, SOURCE_MASK, TARGET)
    state = model.init_state(model.encode(SOURCE, SOURCE_MASK), T)
    same(torch.cat([model.extend(piece, state) for piece in TARGET.split(3, 1)], 1), whole, 1e-4)
    translator("average", "lstm", embed="onehot", attention="bilinear")


def test_dropout_of_words_is_each_sides_own() -> None:
    """A Transformer drops out after it has added positions."""
    model = translator("lstm", "transformer", dropout=0.3)
    assert (model.embed_source.dropout.p, model.embed_target.dropout.p) == (0.3, 0.0)


# How weights start


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_a_recurrent_decoder_starts_as_its_encoder_does(name: str) -> None:
    model = translator(name, name, width=64, layers=1, attention="additive", bias=True)
    assert isinstance(model.decoder, RecurrentDecoder)
    cell = model.decoder.layers.cell
    for gate in cell.weight_hh_l0.chunk({"rnn": 1, "gru": 3, "lstm": 4}[name]):
        same(gate.T @ gate, torch.eye(64), 1e-5)
    if name == "lstm":
        assert ((cell.bias_ih_l0 + cell.bias_hh_l0).chunk(4)[1] == 1).all()
    maps = [part for part in model.decoder.modules() if isinstance(part, nn.Linear)]
    assert len(maps) == (6 if name == "lstm" else 5)
    for part in maps:
        bound = math.sqrt(6 / (part.in_features + part.out_features))
        assert 0.9 * bound < part.weight.abs().max().item() <= bound
        assert part.bias is None or (part.bias == 0).all()


@pytest.mark.parametrize(
    ("encoder", "decoder", "source", "target"),
    [("gru", "gru", 8, 8), ("transformer", "gru", 50, 8), ("gru", "transformer", 8, 50)],
)
def test_word_vectors_start_as_their_side_does(encoder: str, decoder: str, source: int, target: int) -> None:
    """Normal, 1/√64 = 1/8 or 0.02 = 1/50."""
    model = translator(encoder, decoder, source_vocab=301, target_vocab=211, width=64, tied=False)
    assert model.embed_source.table.weight.std().item() == pytest.approx(1 / source, rel=0.1)
    for table in (model.embed_target.table.weight, model.head.weight):
        assert table.std().item() == pytest.approx(1 / target, rel=0.1)


def test_a_transformer_decoder_starts_as_the_identity() -> None:
    model = translator("transformer", "transformer", initialisation="zero")
    assert isinstance(model.decoder, TransformerEncoder)
    memory = model.encode(SOURCE)
    x = numbers(B, T, SMALL["width"], dtype=torch.float32)
    for block in model.decoder.blocks:
        assert torch.equal(block(x, memory=memory), x)


# What cannot be


def test_a_bag_cannot_be_read() -> None:
    with pytest.raises(SettingError, match="bag keeps no vector for each token"):
        build_seq2seq(Bag.complete({}), source_vocab=5, target_vocab=5)


def test_a_shared_table_needs_one_vocabulary() -> None:
    with pytest.raises(SettingError, match=r"model\.shared .* not 5 and 7"):
        build_seq2seq(settings_of(shared=True), source_vocab=5, target_vocab=7)


def test_one_hot_vectors_cannot_be_shared() -> None:
    settings = settings_of("gru", "gru", embed="onehot")
    object.__setattr__(settings, "shared", True)
    with pytest.raises(SettingError, match=r"model\.shared needs model\.embed vectors"):
        build_seq2seq(settings, source_vocab=5, target_vocab=5)


def test_one_hot_of_another_width_cannot_be_compared() -> None:
    with pytest.raises(SettingError, match=r"model\.attention dot needs equal widths, not model\.width 14 and the 13"):
        translator("average", "lstm", embed="onehot", attention="dot")
    with pytest.raises(SettingError, match="onehot is for encoders that take any width"):
        translator("lstm", "transformer", embed="onehot")


def test_a_width_that_the_decoder_cannot_use() -> None:
    with pytest.raises(SettingError, match=r"model\.heads 5 does not divide model\.width 14"):
        translator("lstm", "transformer", head_width=None)


# Against torch's own


def test_the_classic_transformer_is_torchs() -> None:
    """The architecture of 2017, up to the scores: √d times the word vectors, waves, post-norm, a tied head."""
    width, heads, hidden = 21, 3, 11
    model = ready(
        translator(style="classic", width=width, heads=heads, head_width=7, hidden=hidden, layers=2, decoder_layers=3)
    )
    sizes: dict[str, Any] = {
        "d_model": width, "nhead": heads, "dim_feedforward": hidden, "dropout": 0.0, "batch_first": True,
    }  # fmt: skip
    theirs = ready(
        nn.Transformer(
            **sizes,
            custom_encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(**sizes), 2, enable_nested_tensor=False),
            custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), 3),
        )
    )
    for side, their_side in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for block, layer in zip(side.blocks, their_side.layers, strict=True):
            copy_block(block, layer)

    def placed(ids: Tensor, table: Tensor) -> Tensor:
        t, j = torch.arange(ids.shape[1]).double().unsqueeze(1), torch.arange(width)
        angle = t / 10_000 ** ((j - j % 2) / width)
        return table[ids] * math.sqrt(width) + torch.where(j % 2 == 0, angle.sin(), angle.cos())

    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    out = theirs(
        placed(SOURCE, model.embed_source.table.weight),
        placed(TARGET, model.embed_target.table.weight),
        tgt_mask=future,
        src_key_padding_mask=~SOURCE_MASK,
        memory_key_padding_mask=~SOURCE_MASK,
    )
    same(model(SOURCE, SOURCE_MASK, TARGET), out @ model.embed_target.table.weight.T, 1e-5)


@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_layerwise_cross_attention_is_torchs(norm_order: str) -> None:
    """Torch's layers, decoder layer ℓ called with the output of encoder layer ℓ; after pre-norm, with its norm."""
    width, heads, hidden, layers = 21, 3, 11, 3
    model = ready(
        translator(
            style="classic",
            norm_order=norm_order,
            attention="layerwise",
            positions="none",
            embed_scale=False,
            width=width,
            heads=heads,
            head_width=7,
            hidden=hidden,
            layers=layers,
            decoder_layers=layers,
        )
    )
    pre = norm_order == "pre"
    sizes: dict[str, Any] = {
        "d_model": width, "nhead": heads, "dim_feedforward": hidden, "dropout": 0.0, "batch_first": True,
        "norm_first": pre,
    }  # fmt: skip
    encoder = [ready(nn.TransformerEncoderLayer(**sizes)) for _ in range(layers)]
    decoder = [ready(nn.TransformerDecoderLayer(**sizes)) for _ in range(layers)]
    for ours, theirs in ((model.encoder, encoder), (model.decoder, decoder)):
        for number, (block, layer) in enumerate(zip(ours.blocks, theirs, strict=True)):
            randomise(layer, seed=number)
            copy_block(block, layer)

    def last_norm(x: Tensor, side: nn.Module) -> Tensor:
        return F.layer_norm(x, (width,), side.norm.weight, side.norm.bias) if pre else x

    x, y = model.embed_source.table.weight[SOURCE], model.embed_target.table.weight[TARGET]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    memories = []
    for reads, writes in zip(encoder, decoder, strict=True):
        x = reads(x, src_key_padding_mask=~SOURCE_MASK)
        memories.append(last_norm(x, model.encoder))
        y = writes(y, memories[-1], tgt_mask=future, memory_key_padding_mask=~SOURCE_MASK)
    memory = model.encode(SOURCE, SOURCE_MASK)
    assert memory.states.shape == (B, S, layers * width)
    same(memory.states[SOURCE_MASK], torch.cat(memories, -1)[SOURCE_MASK], 1e-5)
    expected = last_norm(y, model.decoder) @ model.embed_target.table.weight.T
    same(model(SOURCE, SOURCE_MASK, TARGET), expected, 1e-5)
    state = model.init_state(memory, T)
    same(model.head(torch.cat([model.extend(piece, state) for piece in TARGET.split(3, 1)], 1)), expected, 1e-5)


def test_of_one_layer_layerwise_is_the_usual_translator() -> None:
    flags = {"layers": 1, "decoder_layers": 1}
    one, usual = ready(translator(attention="layerwise", **flags)), ready(translator(**flags))
    assert torch.equal(one(SOURCE, SOURCE_MASK, TARGET), usual(SOURCE, SOURCE_MASK, TARGET))
