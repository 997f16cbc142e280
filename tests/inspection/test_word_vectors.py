"""A word is found by its characters whatever the tokens are, and its vectors are the means over these."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glassformer as gf
from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.config.sections import TokenizerSettings
from glassformer.encoders.registry import BUILDERS
from glassformer.inspection.capture import capture, layers_of
from glassformer.inspection.views.word_vectors import cosines, find_word, places_of, word_vectors, word_view
from glassformer.models.build import build_language_model, build_predictor
from glassformer.rendering.panels import Frames, Grid, Lines, Points, Words
from glassformer.text.tokenizer import Tokenizer
from helpers.cases import Flags, label, small
from helpers.support import ready, same, tokens
from helpers.translators import SOURCE_VOCAB, translator

TEXT = "Bank! The bank's banker sat on a BANK of the river bank."
STORY = [TEXT, "naïve 漢字とかな banks", "a small river"] * 3
VOCAB, T = 13, 7


def tokenizer_of(kind: str, **settings: Any) -> Tokenizer:
    return Tokenizer.train(STORY, TokenizerSettings(kind=kind, **settings))


KINDS = {
    "word": tokenizer_of("word"),
    "lower": tokenizer_of("word", lowercase=True),
    "char": tokenizer_of("char"),
    "bpe": tokenizer_of("bpe", vocab_size=300),
    "bytes": tokenizer_of("bpe", vocab_size=260),
}


# --- finding ---


def test_places_of_a_word() -> None:
    assert places_of("bank", TEXT) == [(0, 4), (10, 14), (33, 37), (51, 55)]
    assert places_of("river bank", TEXT) == [(45, 55)]
    assert places_of("ban", TEXT) == []
    assert places_of("a.b", "a.b axb a.bc") == [(0, 3)]


def test_a_script_without_blanks() -> None:
    assert places_of("字", "漢字とかな字") == [(1, 2), (5, 6)]
    assert places_of("漢字", "漢字 漢字と") == [(0, 2)]  # where it is a word of its own, that is meant
    assert places_of("1", "10 21") == []


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_of_a_word(kind: str) -> None:
    tokenizer = KINDS[kind]
    ids = tokenizer.encode(TEXT)
    spans = find_word("bank", TEXT, tokenizer)
    said = [tokenizer.decode(ids[start:end]).strip().lower() for start, end in spans]
    assert said == ["bank", "bank's" if kind in ("word", "lower") else "bank", "bank", "bank"]
    sizes = [end - start for start, end in spans]
    assert sizes == [1] * 4 if kind in ("word", "lower") else max(sizes) > 1
    assert kind != "char" or sizes == [4] * 4


def test_bytes_of_one_character() -> None:
    tokenizer = KINDS["bytes"]
    (span,) = find_word("naïve", "so naïve", tokenizer)
    ids = tokenizer.encode("so naïve")
    assert tokenizer.decode(ids[slice(*span)]).strip() == "naïve"
    assert span[1] == len(ids)


def test_what_the_model_reads() -> None:
    tokenizer = KINDS["char"]
    assert tokenizer.start is not None
    ids = tokenizer.encode(TEXT)
    spans = find_word("bank", TEXT, tokenizer)
    moved = [(start + 1, end + 1) for start, end in spans]
    assert find_word("bank", TEXT, tokenizer, [tokenizer.start, *ids, tokenizer.end]) == moved
    assert find_word("bank", TEXT, tokenizer, ids) == spans
    assert find_word("bank", TEXT, tokenizer, [tokenizer.start, *ids[:36], tokenizer.end]) == moved[:2]
    assert find_word("bank", TEXT, tokenizer, [tokenizer.start, *ids[:37]]) == moved[:3]


@pytest.mark.parametrize(
    ("word", "text", "said"),
    [
        ("sofa", "a small river", "the sentence 'a small river' does not hold the word 'sofa'"),
        ("river", "x" * 99, f"'{'x' * 59}…' does not hold"),
        (" ", "a small river", "no word to look for"),
        ("zebra", "a small\nzebra", "'zebra' is unknown to this model: it reads <unk> in 'a small zebra'"),
    ],
)
def test_words_that_are_not_there(word: str, text: str, said: str) -> None:
    with pytest.raises(Misuse) as caught:
        find_word(word, text, KINDS["word"])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_words_that_are_cut_off() -> None:
    ids = KINDS["word"].encode("a small river")[:2]
    with pytest.raises(Misuse, match="'river' stands beyond the 2 tokens that are read of 'a small river'"):
        find_word("river", "a small river", KINDS["word"], ids)


# --- vectors ---

WORDS = tokens(1, T, vocab=VOCAB)
SPANS = [(0, 2), (3, 4), (4, 7)]


def settings_of(flags: Flags, **more: Any) -> Any:
    return resolve({}, {**more, **{f"model.{key}": value for key, value in flags.items()}}).model


def expected(model: nn.Module, encoder: Any, inputs: Any) -> tuple[list[str], np.ndarray]:
    with torch.inference_mode(), capture(model) as seen:
        model(*inputs)
        layers = [(name, x) for name, x in layers_of(seen, encoder, "encoder") if x.shape[-1] == encoder.width]
        found = [[x[0, start:end].sum(0) / (end - start) for _, x in layers] for start, end in SPANS]
    return [name for name, _ in layers], np.array([[one.numpy() for one in row] for row in found])


@pytest.mark.parametrize("flags", [*map(small, BUILDERS), small("lstm", bidirectional=True)], ids=label)
def test_vectors_of_a_reader(flags: Flags) -> None:
    model: Any = ready(build_predictor(settings_of(flags, task="classification"), outputs=3, vocab=VOCAB))
    for inputs in ((WORDS,), (WORDS, torch.ones(1, T, dtype=torch.bool))):
        names, vectors = word_vectors(model, inputs, SPANS)
        wanted_names, wanted = expected(model, model.encoder, inputs)
        assert names == wanted_names
        assert vectors.shape == (3, len(names), model.encoder.width)
        same(torch.from_numpy(vectors), wanted, 1e-5)


@pytest.mark.parametrize("name", ["transformer", "lstm", "cnn"])
def test_vectors_of_a_language_model(name: str) -> None:
    model = ready(build_language_model(settings_of(small(name)), vocab=VOCAB))
    names, vectors = word_vectors(model, (WORDS,), SPANS)
    assert names == ["embedding", "layer 0", "layer 1"]
    same(torch.from_numpy(vectors), expected(model, model.encoder, (WORDS,))[1], 1e-5)


def test_one_hot_vectors_are_left_out() -> None:
    flags = small("lstm", embed="onehot")
    model = build_language_model(settings_of(flags), vocab=VOCAB).eval()
    assert word_vectors(model, (WORDS,), SPANS)[0] == ["layer 0", "layer 1"]


@pytest.mark.parametrize("encoder", ["transformer", "gru"])
def test_vectors_of_a_translator_are_its_encoders(encoder: str) -> None:
    model = ready(translator(encoder, "transformer"))
    source, target = tokens(1, T, vocab=SOURCE_VOCAB, seed=1), torch.tensor([[1, 2]])
    _, wanted = expected(model, model.encoder, (source, None, target))
    for inputs in ((source, None, target), (source,)):
        same(torch.from_numpy(word_vectors(model, inputs, SPANS)[1]), wanted, 1e-5)


def test_models_without_a_context() -> None:
    bag = build_predictor(resolve({}, {"task": "classification", "model.encoder": "bag"}).model, outputs=3, vocab=VOCAB)
    with pytest.raises(Misuse, match="a bag of words has one vector for a word, whatever stands around it"):
        word_vectors(bag, (WORDS,), SPANS)
    with pytest.raises(Misuse, match="Linear is a model of one's own"):
        word_vectors(nn.Linear(2, 3), (WORDS,), SPANS)


# --- view ---

SENTENCES = ["the bank of the river is a long way off", "a bank lends", "the bank of the river is a long way off"]
VECTORS = np.array([[[1, 0], [1, 0]], [[1, 0], [0, 2]], [[1, 0], [3, 3]]], float)


def test_a_view_of_a_word() -> None:
    view = word_view("bank", SENTENCES, VECTORS, ["embedding", "layer 0"])
    frames, lines = view.panels
    assert isinstance(frames, Frames)
    assert (frames.name, frames.labels) == ("after", ["embedding", "layer 0"])
    [same] = frames.frames[0]
    assert isinstance(same, Words)
    assert same.text.startswith("All 3 are the same vector here")
    for layer, (grid, points) in enumerate(frames.frames[1:], 1):
        assert isinstance(grid, Grid)
        np.testing.assert_array_equal(grid.values, cosines(VECTORS[:, layer]))
        assert grid.signed
        assert grid.high == 1
        assert isinstance(points, Points)
        assert points.points.shape == (3, 2)
        assert grid.rows == grid.columns == points.labels
    first, second, third = frames.frames[1][0].rows  # type: ignore[attr-defined]
    assert first == third == "the bank of the river…"
    assert second == "a bank lends"
    assert isinstance(lines, Lines)
    half = np.sqrt(0.5)
    assert lines.series[0].x == [0, 1]
    np.testing.assert_allclose(lines.series[0].y, [1, (0 + half + half) / 3])


def test_two_vectors_have_no_map() -> None:
    """Two points lie on a line: the second axis of a map would show 0 % of the spread."""
    for anchors in (None, ANCHORS):
        view = word_view("bank", SENTENCES[:2], VECTORS[:2], ["embedding", "layer 0"], anchors)
        (frames,) = (panel for panel in view.panels if isinstance(panel, Frames))
        assert [[type(panel) for panel in frame] for frame in frames.frames] == [[Words], [Grid]]


def test_maps_do_not_flip_from_layer_to_layer() -> None:
    chance = np.random.default_rng(0)
    start = chance.normal(size=(5, 1, 6))
    vectors = start + np.cumsum(chance.normal(scale=0.05, size=(5, 9, 6)), 1)
    vectors[:, 1::2] *= -1
    frames: Any = word_view("a", ["a"] * 5, vectors, [f"layer {n}" for n in range(9)]).panels[0]
    places = [frame[1].points for frame in frames.frames]
    for before, after in itertools.pairwise(places):
        assert ((before * after).sum(0) > 0).all()


def test_labels_of_a_word_that_comes_twice() -> None:
    text = "one bank stands here while there is another bank beyond the hill"
    frames: Any = word_view("bank", [text, text, "no"], VECTORS, ["embedding", "layer 0"]).panels[0]
    assert frames.frames[1][0].rows == ["one bank stands here w…", "…re is another bank beyond the hi…", "no"]


def test_labels_without_blanks() -> None:
    text = "か" * 20 + "漢" + "な" * 20
    frames: Any = word_view("漢", [text, "漢", "x"], VECTORS, ["embedding", "layer 0"]).panels[0]
    assert frames.frames[1][0].rows == [f"…{'か' * 14}漢{'な' * 14}…", "漢", "x"]


def test_one_place_is_too_few() -> None:
    with pytest.raises(Misuse, match="'bank' stands in one place only"):
        word_view("bank", SENTENCES[:1], VECTORS[:1], ["embedding", "layer 0"])


# --- towards other words ---

ANCHORS = {"river": np.array([[0, 1], [2, 0]], float), "money": np.array([[1, 1], [0, 5]], float)}


def test_cosines_with_anchors() -> None:
    view = word_view("bank", SENTENCES, VECTORS, ["embedding", "layer 0"], ANCHORS)
    *charts, frames, _ = view.panels
    assert isinstance(frames, Frames)
    half = np.sqrt(0.5)
    for chart, expected in zip(charts, [[1, 0], [0, 1], [half, half]], strict=True):
        assert isinstance(chart, Lines)
        assert [line.name for line in chart.series] == ["river", "money"]
        np.testing.assert_allclose([line.y[0] for line in chart.series], [0, half])
        np.testing.assert_allclose([line.y[1] for line in chart.series], expected, atol=1e-12)
    assert [chart.takeaway for chart in charts] == [
        "“river” is the nearest (1) after layer 0",
        "“money” is the nearest (1) after layer 0",
        "All 2 are equally near (0.707) after layer 0",
    ]


def test_one_place_is_enough_for_anchors() -> None:
    view = word_view("bank", SENTENCES[:1], VECTORS[:1], ["embedding", "layer 0"], ANCHORS)
    assert len(view.panels) == 1


@pytest.mark.slow
def test_bank_moves_towards_river_or_account(tmp_path: Path) -> None:
    settings = {"text": "text", "label": "sense", "model": "transformer", "size": "nano", "steps": 60}
    run = gf.train("senses:rows=2000,verbs=1", out=tmp_path / "run", seed=0, **settings).run
    texts = ["we saw the boat , then the reeds . the bank", "we saw the loan , then the cashier . the bank"]
    view = gf.look(run, *texts, word="bank", anchors="river,account")
    charts = [panel for panel in view.panels if isinstance(panel, Lines) and len(panel.series) == 2]
    (river, not_account), (not_river, account) = ([line.y for line in chart.series] for chart in charts)
    for near, far in ((river, not_account), (account, not_river)):
        assert near[-1] > 0.8 > near[0]
        assert far[-1] < 0.4
