"""A Transformer number by number: every style, every number the model's own, every sentence computed again."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.bricks.embedding import WordVectors
from glassformer.bricks.norm import NoNorm
from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.capture import Seen, capture
from glassformer.inspection.numbers import steps
from glassformer.inspection.numbers.walk import walk
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel
from glassformer.rendering.panels import Grid, Table
from helpers.arithmetic import check_sentences, grid_of, holds, worked_lines, written_in_full  # noqa: F401
from helpers.cases import PAIRS, Flags, build, label
from helpers.support import ACTIVATIONS_WRITTEN_OUT, ready, softmax, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, translator

T, VOCAB, AT = 5, 11, 3
NAMES = ["<s>", " the", " cat", " sat", "."]
IDS = tokens(1, T, vocab=VOCAB, seed=4)

full = pytest.mark.usefixtures("written_in_full")


def test_of_a_model_of_hand_size_every_number_is_shown() -> None:
    model = build_language_model(resolve({}, {"size": "hand", "model.context": 9}).model, vocab=7)
    view = walk(model, (torch.tensor([[1, 4, 5, 3]]),), list("abcd"))
    grids = [panel for panel in view.panels if isinstance(panel, Grid)]
    assert len(grids) > 10
    assert not any("The first" in panel.note for panel in grids)


def model_of(flags: Flags, *, causal: bool) -> LanguageModel:
    encoder = build(flags, causal=causal)
    embed = WordVectors(vocab=VOCAB, width=encoder.width)
    return ready(LanguageModel(embed=embed, encoder=encoder, vocab=VOCAB, context=23, tied=False))


@torch.no_grad()
def seen_of(model: Any, *inputs: Tensor | None) -> Seen:
    with capture(model) as seen:
        model(*inputs)
    return seen


@pytest.mark.sample(7)
@full
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "whole"])
@pytest.mark.parametrize("flags", PAIRS, ids=label)
def test_every_style(flags: Flags, causal: bool) -> None:
    model = model_of(flags, causal=causal)
    encoder = model.encoder
    assert isinstance(encoder, TransformerEncoder)
    layer = flags["layers"] - 1
    block = encoder.own_blocks()[layer]
    attend = block.attend
    head = attend.heads - 2
    view = walk(model, (IDS,), NAMES, layer=layer, head=head, position=AT, shown=1000)
    seen = seen_of(model, IDS)
    where = f"encoder.blocks.{layer}"
    pair = head * attend.kv_heads // attend.heads
    titles = [panel.title for panel in view.panels]

    def one(name: str) -> np.ndarray:
        return seen[f"{where}.{name}"][0].numpy()

    def last(what: str) -> str:
        """Queries and keys stand there before and after norm and turn."""
        return [title for title in titles if title.startswith(f"Attention, head {head}: {what}")][-1]

    holds(view, f"Into layer {layer}", one("input"))
    holds(view, last("queries"), one("attend.queries")[head])
    holds(view, last("keys"), one("attend.keys")[pair])
    holds(view, last("values"), one("attend.values")[pair])
    shared = grid_of(view, f"Attention, head {head}: keys").note
    assert ("Heads 3 to 5 share them." in shared) == (attend.kv_heads == 2)
    holds(view, f"Attention, head {head}: scores", one("attend.scores")[head])
    holds(view, f"Attention, head {head}: weights", one("attend.weights")[head])
    holds(view, f"Attention, head {head}: what the head found", one("attend.mixed")[head])
    holds(view, "Attention: all heads side by side", one("attend.mixed").transpose(1, 0, 2).reshape(T, -1))
    assert ("Attention: projected" in titles) == (attend.output is not None)
    if attend.output is not None:
        holds(view, "Attention: projected", one("attend.output"))
    steps = [("attend", "Attention"), *([("feed", "Feed-forward")] if block.feed is not None else [])]
    for part, name in steps:
        _check_around(view, one, part, name, flags)
    if block.feed is not None:
        holds(view, "Feed-forward: hidden layer", one("feed.active"))
        assert ("Feed-forward: output" in titles) == (block.feed.output is not None)
        if block.feed.output is not None:
            holds(view, "Feed-forward: output", one("feed.output"))
    assert ("The norm before the first layer" in titles) == (layer == 0 and not isinstance(encoder.embed_norm, NoNorm))
    if "The norm before the first layer" in titles:
        holds(view, "The norm before the first layer", one("input"))
    assert ("The last norm" in titles) == (not isinstance(encoder.norm, NoNorm))
    if "The last norm" in titles:
        holds(view, "The last norm", seen["encoder.output"][0])
    hidden = np.isinf(grid_of(view, f"Attention, head {head}: scores").values)
    np.testing.assert_array_equal(hidden, np.triu(np.ones((T, T)), 1) > 0 if causal else np.zeros((T, T)))
    check_sentences(view, 5)


def _check_around(view: Any, one: Any, part: str, name: str, flags: Flags) -> None:
    titles = [panel.title for panel in view.panels]
    x, out = one(f"around_{part}.input"), one(f"{part}.output")
    total = x + out if flags["residual"] else out
    norms, pre = flags["norm"] != "none", flags["norm_order"] == "pre"
    assert (f"{name}: residual" in titles) == flags["residual"]
    assert (f"{name}: the norm before it" in titles) == (norms and pre)
    assert (f"{name}: the norm after it" in titles) == (norms and not pre)
    if flags["residual"]:
        holds(view, f"{name}: residual", total)
    if norms and pre:
        holds(view, f"{name}: the norm before it", one(f"{part}.input"))
    if norms and not pre:
        holds(view, f"{name}: the norm after it", one(f"around_{part}.output"))


@pytest.mark.parametrize("flags", PAIRS[::5], ids=label)
def test_queries_come_from_x_by_map_norm_and_turn(flags: Flags) -> None:
    model = model_of(flags, causal=True)
    assert isinstance(model.encoder, TransformerEncoder)
    attend = model.encoder.own_blocks()[0].attend
    view = walk(model, (IDS,), NAMES, head=1, shown=1000)
    x = seen_of(model, IDS)["encoder.blocks.0.attend.input"][0].numpy()
    width = attend.head_width
    mine = slice(width, 2 * width)
    weight = None if attend.query is None else attend.query.weight.detach().numpy()[mine]
    q = (np.tile(x, attend.heads) if attend.scores == "bilinear" else x)[:, mine] if weight is None else x @ weight.T
    if attend.query is not None and attend.query.bias is not None:
        q = q + attend.query.bias.detach().numpy()[mine]
    holds(view, "Attention, head 1: queries", q)
    if attend.query_norm is not None:
        q = q / np.sqrt((q**2).mean(-1, keepdims=True) + 1e-6) * attend.query_norm.weight.detach().numpy()
        holds(view, "Attention, head 1: queries, normed", q)
    if flags["positions"] == "rotary":
        half = width // 2
        angle = np.arange(T)[:, None] * 10_000.0 ** (-np.arange(half) * 2 / width)
        a, b = q[:, :half], q[:, half:]
        turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], 1)
        holds(view, "Attention, head 1: queries, turned by their position", turned)


@pytest.mark.parametrize("positions", ["sine", "sine-halves", "learned", "onehot", "rotary", "none"])
def test_places_are_added_before_the_first_layer(positions: str) -> None:
    flags = {**PAIRS[0], "positions": positions, "layers": 2, "scores": "query-key", "width": 14}
    model = model_of(flags, causal=True)
    view, seen = walk(model, (IDS,), NAMES, shown=1000), seen_of(model, IDS)
    holds(view, "Vectors", seen["embed.vectors"][0])
    titles = [panel.title for panel in view.panels]
    assert ("Places" in titles) == (positions not in ("rotary", "none"))
    if "Places" in titles:
        holds(view, "Places", seen["encoder.positions.vectors"])
        holds(view, "Words and places", seen["encoder.positions.output"][0])
    assert "Places" not in [panel.title for panel in walk(model, (IDS,), NAMES, layer=1).panels]


def test_a_layer_that_is_not_the_last_says_so_and_what_comes_out_stands_beside() -> None:
    model = model_of({**PAIRS[0], "layers": 2}, causal=True)
    view, seen = walk(model, (IDS,), NAMES, shown=1000), seen_of(model, IDS)
    holds(view, "What the encoder gives", seen["encoder.output"][0])
    assert "Layers 0 to 1; shown is layer 0." in grid_of(view, "What the encoder gives").note
    assert "The last norm" not in [panel.title for panel in view.panels]


def test_the_scores_of_what_follows() -> None:
    model = model_of(PAIRS[0], causal=True)
    logits = seen_of(model, IDS)["logits"][0, AT].numpy()
    names = [f"w{number}" for number in range(VOCAB)]
    view = walk(model, (IDS,), NAMES, position=AT, outputs=names, shown=4)
    order = np.argsort(-logits)[:4]
    scores, table = grid_of(view, "Head: scores"), view.panels[-1]
    np.testing.assert_allclose(scores.values, logits[None, order], atol=1e-6)
    assert list(scores.columns) == [f"w{number}" for number in order]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == [f"w{number}" for number in order]
    np.testing.assert_allclose([row[2] for row in table.rows], softmax(logits)[order], atol=1e-6)
    assert "4 likeliest of 11" in table.note
    assert table.title == "Probabilities: what follows sat"


@full
@pytest.mark.parametrize(
    ("encoder", "flags"),
    [
        *(("gru", {"style": style}) for style in ("classic", "gpt2", "llama")),
        *(("transformer", {"attention": "layerwise", "style": style}) for style in ("classic", "gpt2")),
    ],
)
def test_attention_to_the_source(encoder: str, flags: dict[str, str]) -> None:
    model = ready(translator(encoder, "transformer", decoder_layers=2, **flags))
    source, target = tokens(1, 4, vocab=SOURCE_VOCAB, seed=1), tokens(1, 3, vocab=TARGET_VOCAB, seed=2)
    inputs = (source, torch.ones(1, 4, dtype=torch.bool), target)
    view = walk(model, inputs, ["a", "b", "c", "d"], written=["<s>", "x", "y"], layer=1, head=3, shown=1000)
    seen = seen_of(model, *inputs)
    name, where = "Target · Attention to the source, head 3", "decoder.blocks.1.cross_attention"
    for what in ("queries", "keys", "values"):
        title = [panel.title for panel in view.panels if panel.title.startswith(f"{name}: {what}")][-1]
        cross = model.decoder.own_blocks()[1].cross_attention  # type: ignore[operator]
        at = 3 if what == "queries" else 3 * cross.kv_heads // cross.heads
        holds(view, title, seen[f"{where}.{what}"][0, at])
    holds(view, f"{name}: scores", seen[f"{where}.scores"][0, 3])
    holds(view, f"{name}: weights", seen[f"{where}.weights"][0, 3])
    weights = grid_of(view, f"{name}: weights")
    assert (weights.values.shape, list(weights.rows), list(weights.columns)) == (
        (3, 4),
        ["<s>", "x", "y"],
        ["a", "b", "c", "d"],
    )
    holds(view, "Target · Attention to the source: projected", seen[f"{where}.output"][0])
    if encoder == "gru":
        holds(view, "Source · What the encoder gives", seen["encoder.output"][0])
    check_sentences(view, 20)


def test_of_a_shallower_source_the_last_layer() -> None:
    model = ready(translator("gru", "transformer", layers=1, decoder_layers=2))
    view = walk(model, (IDS, None, IDS), NAMES, written=NAMES, layer=1)
    titles = [panel.title for panel in view.panels]
    assert "Source · Layer 0: the new state" in titles
    assert "Target · Into layer 1" in titles


# --- how it is written ---


def test_wide_vectors_are_cut_and_say_so() -> None:
    model = model_of(PAIRS[0], causal=True)
    view = walk(model, (IDS,), NAMES, shown=3)
    grids = [panel for panel in view.panels if isinstance(panel, Grid)]
    assert all(panel.numbers and panel.title for panel in grids)
    first = grid_of(view, "Vectors")
    width = model.encoder.width
    assert first.values.shape == (T, 3)
    assert list(first.columns) == ["0", "1", "2"]
    assert f"The first 3 of {width} numbers" in first.note
    assert "The first" not in grid_of(walk(model, (IDS,), NAMES, shown=width), "Vectors").note


def test_long_sums_are_shortened_in_the_middle() -> None:
    a, b = np.arange(1.0, 8.0), np.array([1.0, -1, 1, 1, 1, 1, -0.5])
    assert steps.products(a, b) == "1·1 + 2·−1 + 3·1 + … + 7·−0.5"
    assert steps.products(a[:6], b[:6]) == "1·1 + 2·−1 + 3·1 + 4·1 + 5·1 + 6·1"
    assert steps.added(["1", "−2"]) == "1 − 2"
    assert steps.affine("W x", a[:2], -b[:2], -0.25).numbers == "1·−1 + 2·1 − 0.25"


@pytest.mark.parametrize(("value", "text"), [
    (0.123456, "0.1235"), (-2.0, "−2"), (0.0000123456, "0.00001235"), (123456.0, "123500"), (0.0, "0"), (-1e-12, "0"),
    (-np.inf, "−∞"), (np.inf, "∞"),
])  # fmt: skip
def test_numbers_are_written_without_exponents(value: float, text: str) -> None:
    assert steps.number(value) == text


def test_a_worked_score_is_that_of_the_token_looked_at_most() -> None:
    model = model_of(PAIRS[0], causal=True)
    view = walk(model, (IDS,), NAMES, position=2)
    panel = grid_of(view, "Attention, head 0: weights")
    (name, _, result), *_ = worked_lines(panel)
    best = int(np.argmax(panel.values[2]))
    assert name == f"α(cat → {NAMES[best].strip()})"
    assert result == pytest.approx(panel.values[2, best], abs=1e-3)


def test_looking_changes_nothing() -> None:
    model = model_of(PAIRS[0], causal=True).train()
    model.head.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    walk(model, (IDS,), NAMES)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_hooks for module in model.modules())


def test_what_cannot_be_walked_through_is_refused_in_one_line() -> None:
    model = model_of({**PAIRS[0], "layers": 2}, causal=True)
    long = tokens(1, 17, vocab=VOCAB)
    with pytest.raises(Misuse, match="at most 16 tokens, patches or columns, and there are 17"):
        walk(model, (long,), ["a"] * 17)
    walk(model, (long[:, :16],), ["a"] * 16)
    for wrong, words in [({"layer": 2}, "--layer 2 .* 0 to 1"), ({"head": 6}, "--head 6 .* 0 to 5"),
                         ({"position": 5}, "--position 5 .* 0 to 4"), ({"position": -1}, "--position -1")]:  # fmt: skip
        with pytest.raises(Misuse, match=words):
            walk(model, (IDS,), NAMES, **wrong)
    with pytest.raises(Misuse, match="not Linear"):
        walk(torch.nn.Linear(2, 2), (IDS,), NAMES)
    model = ready(translator("gru", "gru"))
    with pytest.raises(Misuse, match="at most 16 tokens, patches or columns, and there are 18"):
        walk(model, (IDS, None, tokens(1, 18, vocab=TARGET_VOCAB)), NAMES, written=["a"] * 18)


def test_activations_are_written_as_they_are() -> None:
    for name in ACTIVATIONS_WRITTEN_OUT:
        flags = {**PAIRS[0], "activation": name, "feed_forward": True, "feed_layers": 2}
        note = grid_of(walk(model_of(flags, causal=True), (IDS,), NAMES), "Feed-forward: hidden layer")
        word = {"swiglu": "silu", "relu2": "relu", "sigmoid": "σ"}.get(name, name)
        assert f"a = {word}(W₁" in note.formula
        assert ("W₃" in note.formula) == (name == "swiglu")
        assert (")²" in note.formula) == (name == "relu2")
