"""Capture: logits stay as they are, bit for bit; what is recorded is what was computed; nothing stays behind."""

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
import torch
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.recurrent import Recurrent
from glassformer.config.model_section import POOLS
from glassformer.config.resolve import resolve
from glassformer.inspection.attention import attention_of, sizes_of, without
from glassformer.inspection.capture import Seen, capture, layers_of
from glassformer.models.build import build_predictor
from glassformer.models.inputs import Shape
from helpers.cases import CAUSAL, WHOLE, WITH_MEMORY, Flags, build, label
from helpers.support import differs, numbers, randomise, same, tokens
from helpers.translators import TRANSLATORS, translator
from helpers.translators import label as label_of_pair
from helpers.watching import MASK, VOCAB, B, S, T, check_attention, language_model, no_hooks, watched

MEMORY_MASK = torch.arange(S) < torch.tensor([S, 2, 5])[:, None]

KINDS = [
    ("image", "cnn", Shape(image=(1, 8, 8))),
    ("image", "transformer", Shape(image=(1, 8, 8))),
    ("image", "mlp", Shape(image=(1, 8, 8))),
    ("table", "linear", Shape(numbers=3, categories=(4,))),
    ("table", "transformer", Shape(numbers=3, categories=(4,))),
    ("mixed", "transformer", Shape(vocab=VOCAB, numbers=3, categories=(4,), image=(1, 8, 8))),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("flags", "causal"),
    [(flags, True) for flags in CAUSAL] + [(flags, False) for flags in WHOLE],
    ids=lambda value: label(value) if isinstance(value, dict) else ("causal" if value else "whole"),
)
@pytest.mark.parametrize("mask", [None, MASK], ids=["whole rows", "padded"])
def test_every_encoder(flags: Flags, causal: bool, mask: Tensor | None) -> None:
    encoder = build(flags, causal=causal)
    x = numbers(B, T, encoder.width)
    seen = watched(encoder, x, mask)
    check_attention(encoder, seen)
    layers = layers_of(seen, encoder, "")
    assert [name for name, _ in layers] == ["embedding", *(f"layer {number}" for number in range(len(layers) - 1))]
    assert all(vectors.shape[:2] == (B, T) for _, vectors in layers)
    if "blocks.0.input" in seen:
        same(layers[0][1], seen["blocks.0.input"])
    last = layers[-1][1]
    same(encoder.norm(last, mask) if hasattr(encoder, "norm") else last, encoder(x, mask))
    for path, module in encoder.named_modules():
        if isinstance(module, Recurrent):
            check_recurrent(module, seen, path, x, mask)


def check_recurrent(layers: Recurrent, seen: Seen, path: str, x: Tensor, mask: Tensor | None) -> None:
    """The written-out steps lead where torch's fused ones do."""
    top, ways = layers.cell.num_layers - 1, 2 if layers.cell.bidirectional else 1
    states = [seen[f"{path}.{top}{'.back' if way else ''}.states"] for way in range(ways)]
    same(torch.cat(states, -1), seen[f"{path}.output"])
    if isinstance(layers.cell, nn.LSTM):
        gates = {letter: seen[f"{path}.0.gates.{letter}"] for letter in "ifgo"}
        cells = seen[f"{path}.0.cells"]
        before = torch.cat([layers.init_state(B)[1][0].unsqueeze(1), cells[:, :-1]], 1)
        real = slice(None) if mask is None else mask
        same((gates["f"] * before + gates["i"] * gates["g"])[real], cells[real])
    if isinstance(layers.cell, nn.GRU):
        assert seen[f"{path}.0.gates.z"].shape == seen[f"{path}.0.states"].shape


@pytest.mark.parametrize("flags", WITH_MEMORY, ids=label)
def test_every_encoder_with_a_memory(flags: Flags) -> None:
    encoder = build(flags, causal=True, memory_width=flags.get("width"))
    memory = Memory(numbers(B, S, encoder.width, seed=1), MEMORY_MASK)
    seen = watched(encoder, numbers(B, T, encoder.width), memory=memory)
    check_attention(encoder, seen)
    crossed = [name for name in seen if name.endswith("cross_attention.weights") or name == "attention.weights"]
    for name in crossed:
        weights = seen[name]
        assert weights.shape[0] == B
        assert weights.shape[-2:] == (T, S)
        hidden = ~MEMORY_MASK[:, None, None] if weights.dim() == 4 else ~MEMORY_MASK[:, None]
        assert (weights[hidden.expand_as(weights)] == 0).all()
    assert bool(crossed) == (flags.get("attention", "additive") != "none" or flags["encoder"] == "transformer")


@pytest.mark.sample(5)
@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("flags", TRANSLATORS, ids=label_of_pair)
def test_every_translator(flags: Flags) -> None:
    model = randomise(translator(**flags)).eval()
    vocab = model.head.out_features
    source, target = tokens(B, S, vocab=vocab), tokens(B, T, vocab=vocab, seed=1)
    seen = watched(model, source, MEMORY_MASK, target, MASK)
    assert seen["embed_source.vectors"].shape[:2] == (B, S)
    assert seen["embed_target.vectors"].shape[:2] == (B, T)
    for name, weights in attention_of(model, (source[:1], None, target[:1], None)).items():
        rows, columns = {"source": (S, S), "target": (T, T), "cross": (T, S)}[name]
        assert weights.shape == (*sizes_of(model)[name], rows, columns)
        assert weights.sum(-1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("pool", [pool for pool in POOLS if pool != "flatten"])
def test_every_pool(pool: str) -> None:
    settings = resolve({}, {"task": "classification", "model.encoder": "lstm", "model.width": 8}).model
    model = randomise(build_predictor(replace(settings, pool=pool), outputs=3, vocab=VOCAB)).eval()
    seen = watched(model, tokens(B, T, vocab=VOCAB), MASK)
    assert seen["pool.output"].shape == (B, 8)
    if pool == "attention":
        weights = seen["pool.weights"]
        same(weights.sum(-1), torch.ones(B), 1e-6)
        assert (weights[~MASK] == 0).all()


@pytest.mark.parametrize(("kind", "encoder", "shape"), KINDS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_kind_of_example(kind: str, encoder: str, shape: Shape) -> None:
    flags = {"task": "classification", "data.kind": kind, "model.encoder": encoder}
    model = randomise(build_predictor(resolve({}, flags).model, outputs=3, shape=shape)).eval()
    inputs: list[Tensor] = []
    if shape.vocab:
        inputs += [tokens(B, T, vocab=VOCAB), MASK]
    if shape.columns:
        inputs += [numbers(B, shape.numbers).float(), tokens(B, 1, vocab=4)]
    if shape.image:
        inputs += [numbers(B, *shape.image).float()]
    seen = watched(model, *inputs)
    assert seen["embed.vectors"].shape[0] == B
    if shape.image and encoder != "mlp":
        cut = "embed.image.cut.output" if kind == "mixed" else "embed.cut.output"
        assert seen[cut].dim() == 3


def test_the_names_of_a_transformer() -> None:
    model = language_model(heads=2, positions="learned")
    seen = watched(model, tokens(1, T, vocab=VOCAB))
    block = "encoder.blocks.1"
    shapes = {
        "embed.vectors": (1, T, 16),
        "encoder.positions.vectors": (T, 16),
        f"{block}.input": (1, T, 16),
        f"{block}.attend.queries": (1, 2, T, 8),
        f"{block}.attend.weights": (1, 2, T, T),
        f"{block}.attend.mixed": (1, 2, T, 8),
        f"{block}.around_attend.normed": (1, T, 16),
        f"{block}.feed.active": (1, T, model.encoder.blocks[1].feed.input.out_features),
        f"{block}.output": (1, T, 16),
        "logits": (1, T, VOCAB),
    }
    assert {name: tuple(seen[name].shape) for name in shapes} == shapes
    assert f"{block}.attend.weights  1×2×{T}×{T}" in repr(seen).splitlines()
    same(seen["embed.vectors"] + seen["encoder.positions.vectors"], seen["encoder.positions.output"])
    same(seen["encoder.blocks.0.output"], seen["encoder.blocks.1.input"])
    names = list(seen)
    assert names.index("embed.vectors") < names.index(f"{block}.attend.queries") < names.index("logits")


@pytest.mark.parametrize("positions", ["sine", "sine-halves", "onehot"])
def test_what_is_added_for_positions(positions: str) -> None:
    model = language_model(positions=positions, heads=2)
    seen = watched(model, tokens(1, T, vocab=VOCAB))
    x, added = seen["embed.vectors"], seen["encoder.positions.vectors"]
    own = x if positions != "onehot" else x @ model.encoder.positions.join.weight[:, :16].T
    same(own + added, seen["encoder.positions.output"], 1e-5)


def test_hooks_are_gone_after_an_error() -> None:
    model = language_model("lstm")
    with pytest.raises(IndexError), capture(model):
        model(torch.tensor([[VOCAB]]))
    assert no_hooks(model)


def test_an_error_inside_does_not_confuse_the_next_call() -> None:
    model = language_model(heads=2)
    ids = tokens(1, T, vocab=VOCAB)
    with capture(model) as seen:
        with pytest.raises(RuntimeError):
            model.encoder(torch.zeros(1, 3, 7))
        model(ids)
    assert seen["encoder.blocks.0.output"].shape == (1, T, 16)


def test_the_last_call_counts() -> None:
    model = language_model("gru")
    with capture(model) as seen:
        model(tokens(1, T, vocab=VOCAB))
        model(tokens(1, 3, vocab=VOCAB, seed=1))
    assert seen["encoder.layers.0.states"].shape == (1, 3, 16)
    assert seen["logits"].shape == (1, 3, VOCAB)


def test_a_cache_is_seen_whole() -> None:
    """One token after the other, each looks at all before it, as in one pass."""
    model = language_model(heads=2)
    ids = tokens(1, T, vocab=VOCAB)
    whole = watched(model, ids)["encoder.blocks.1.attend.weights"]
    state = model.init_state(1, T)
    with torch.inference_mode(), capture(model) as seen:
        for place in range(T):
            model.extend(ids[:, place : place + 1], state)
            row = seen["encoder.blocks.1.attend.weights"]
            same(row[:, :, 0], whole[:, :, place, : place + 1], 1e-5)


def test_gradients_flow_through_what_is_seen() -> None:
    model = language_model(heads=2)
    with capture(model, ["embed.vectors", "*.weights"]) as seen:
        model(tokens(1, T, vocab=VOCAB)).sum().backward()
    weights = seen["encoder.blocks.0.attend.weights"]
    assert weights.requires_grad
    with torch.inference_mode(), capture(model) as quiet:
        model(tokens(1, T, vocab=VOCAB))
    assert not quiet["encoder.blocks.0.attend.weights"].requires_grad


@pytest.mark.slow
@pytest.mark.parametrize("pair", [TRANSLATORS[0], {"encoder": "transformer", "decoder": "transformer"}], ids=str)
def test_patterns_record_what_they_match(pair: Flags) -> None:
    model, inputs = translator(**pair), (tokens(1, S, vocab=VOCAB), None, tokens(1, T, vocab=VOCAB))
    with torch.inference_mode(), capture(model) as whole:
        model(*inputs)
    patterns = [*whole, "*", "*.weights", "dec?der.*", "[de]*.output", "decoder.*cross_attention.*", "none"]
    for pattern in patterns:
        with torch.inference_mode(), capture(model, [pattern]) as seen:
            model(*inputs)
        assert set(seen) == {name for name in whole if fnmatchcase(name, pattern)}
        assert all(torch.equal(seen[name], whole[name]) for name in seen)


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_a_head_switched_off_gives_nothing(kv_heads: int) -> None:
    model = language_model(heads=4, kv_heads=kv_heads)
    ids = tokens(1, T, vocab=VOCAB)
    before = model(ids)
    with without(model, [("self", 1, 2)]), capture(model) as seen:
        after = model(ids)
    mixed = seen["encoder.blocks.1.attend.mixed"]
    assert (mixed[:, 2] == 0).all()
    assert (mixed[:, [0, 1, 3]] != 0).any()
    assert differs(before, after)
    assert no_hooks(model)
    assert torch.equal(model(ids), before)
    with without(model, [("self", layer, head) for layer in range(2) for head in range(4)]):
        nothing = model(ids)
    for block in model.encoder.blocks:
        assert block.attend.output.bias is None
        block.attend.output.weight.data.zero_()
    assert differs(nothing, before)
    same(nothing, model(ids))


def test_a_recurrent_decoders_attention_switched_off() -> None:
    model = randomise(translator("lstm", "lstm")).eval()
    inputs = (tokens(1, S, vocab=11), None, tokens(1, T, vocab=11), None)
    assert sizes_of(model) == {"cross": (1, 1)}
    with without(model, [("cross", 0, 0)]):
        after = model(*inputs)
    assert differs(after, model(*inputs))


def test_stacks() -> None:
    assert set(sizes_of(randomise(translator()))) == {"source", "target", "cross"}
    assert sizes_of(language_model(heads=2)) == {"self": (2, 2)}
    assert sizes_of(language_model("lstm")) == {}
