"""What a translator looks at, against the formulas written out; looking changes nothing; pictures that can be read."""

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from torch import Tensor, nn

from glassformer.bricks.tap import Tap
from glassformer.config.errors import Misuse
from glassformer.encoders.recurrent_decoder import RecurrentDecoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.look.alignment import MOST_TOKENS, alignment_figure, alignment_weights, draw_alignment
from glassformer.models.seq2seq import Seq2Seq
from support import ready, same, softmax, tokens
from translators import SOURCE_VOCAB, TARGET_VOCAB, translator

S, T = 7, 5
SOURCE: list[int] = tokens(S, vocab=SOURCE_VOCAB, seed=1).tolist()
TARGET: list[int] = [1, *tokens(T - 1, vocab=TARGET_VOCAB, seed=2).tolist()]


def scores_of(model: Seq2Seq) -> Tensor:
    with torch.no_grad():
        return model(torch.tensor([SOURCE]), None, torch.tensor([TARGET]))


class Inputs:
    """What goes into a module while this is open: its arguments, once for each call."""

    def __init__(self, module: nn.Module) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._hook = module.register_forward_pre_hook(lambda _, given: self.calls.append(given))

    def __enter__(self) -> "Inputs":
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()


# --- weights ---


@pytest.mark.parametrize("feeding", [False, True], ids=["", "fed"])
@pytest.mark.parametrize("kind", ["dot", "scaled", "bilinear", "additive"])
def test_recurrent_weights_are_the_softmax_of_the_scores(kind: str, feeding: bool) -> None:
    model = ready(translator("lstm", "gru", attention=kind, input_feeding=feeding))
    assert isinstance(model.decoder, RecurrentDecoder)
    attention = model.decoder.attention
    assert attention is not None
    with Inputs(attention) as seen:
        scores_of(model)
    queries = np.concatenate([call[0][0].numpy() for call in seen.calls])
    memory = seen.calls[0][1][0].numpy()
    weight = {name: value.detach().numpy() for name, value in attention.named_parameters()}
    if kind == "additive":
        joint = (queries @ weight["of_query.weight"].T + weight["of_query.bias"])[:, None]
        scores = np.tanh(joint + memory @ weight["of_memory.weight"].T) @ weight["total.weight"][0]
    elif kind == "bilinear":
        scores = queries @ weight["bilinear.weight"].T @ memory.T
    else:
        scores = queries @ memory.T / (np.sqrt(14) if kind == "scaled" else 1)
    found = alignment_weights(model, SOURCE, TARGET)
    assert found.shape == (1, 1, T, S)
    np.testing.assert_allclose(found[0, 0], softmax(scores), atol=1e-6)
    assert found.max() - found.min() > 1e-3


@pytest.mark.parametrize("settings", [
    {},
    {"style": "classic"},
    {"scale": False},
    {"kv_heads": 1, "qk_norm": False},
    {"heads": 4, "kv_heads": 2},
], ids=str)  # fmt: skip
def test_transformer_weights_are_the_softmax_of_every_layer_and_head(settings: dict[str, Any]) -> None:
    heads = settings.get("heads", 5)
    model = ready(translator("gru", "transformer", decoder_layers=3, **settings))
    assert isinstance(model.decoder, TransformerEncoder)
    found = alignment_weights(model, SOURCE, TARGET)
    assert found.shape == (3, heads, T, S)
    with torch.no_grad():
        memory = model.remember(torch.tensor([SOURCE])).states
    for layer, block in enumerate(model.decoder.own_blocks()):
        look = block.recall
        assert look is not None
        with Inputs(look.queries) as queries, Inputs(look.keys) as keys:
            scores_of(model)
        assert look.key is not None
        raw = (memory @ look.key.weight.T + (0 if look.key.bias is None else look.key.bias))[0]
        key = raw.view(S, look.kv_heads, 6)
        key = key if look.key_norm is None else look.key_norm(key)
        same(keys.calls[0][0][0].transpose(0, 1), key.detach())  # the keys are those of the memory, without rotation
        for head in range(heads):
            query = queries.calls[0][0][0, head].numpy()
            shared = head // (heads // look.kv_heads)  # neighbours share a key
            scores = query @ key[:, shared].detach().numpy().T
            scores *= 1 if settings.get("scale") is False else 1 / np.sqrt(6)
            np.testing.assert_allclose(found[layer, head], softmax(scores), atol=1e-6)
    assert np.unique(found.round(5), axis=1).shape[1] == heads  # no two heads alike


MODELS: list[dict[str, Any]] = [
    {"encoder": "lstm", "decoder": "lstm", "attention": "additive"},
    {"encoder": "rnn", "decoder": "rnn", "attention": "dot", "input_feeding": True},
    {"encoder": "transformer", "decoder": "transformer", "decoder_layers": 2},
]


@pytest.mark.parametrize("flags", MODELS, ids=lambda flags: flags["decoder"])
def test_looking_changes_nothing(flags: dict[str, Any]) -> None:
    model = ready(translator(**flags))
    before = scores_of(model)
    taps = [module for module in model.modules() if isinstance(module, Tap)]
    found = alignment_weights(model, SOURCE, TARGET)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)
    assert torch.equal(scores_of(model), before)
    assert not any(tap._forward_hooks for tap in taps)
    np.testing.assert_array_equal(alignment_weights(model, SOURCE, TARGET), found)
    # and while one looks: what is written is what is always written
    heard: list[Tensor] = []
    with Inputs(model.head):
        hook = model.decoder.register_forward_hook(lambda _, inputs, output: heard.append(model.head(output)))
        alignment_weights(model, SOURCE, TARGET)
        hook.remove()
    assert torch.equal(heard[0], before)


@pytest.mark.parametrize("flags", MODELS, ids=lambda flags: flags["decoder"])
def test_an_error_leaves_no_hook_behind(flags: dict[str, Any]) -> None:
    model = ready(translator(**flags))
    with pytest.raises(IndexError):
        alignment_weights(model, SOURCE, [TARGET_VOCAB + 99])
    hooked = [module for module in model.modules() if isinstance(module, Tap) and module._forward_hooks]
    assert not hooked


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_a_bottleneck_has_nothing_to_look_at(kind: str) -> None:
    with pytest.raises(Misuse, match="no attention to look at") as caught:
        alignment_weights(ready(translator("lstm", kind, attention="none")), SOURCE, TARGET)
    assert "\n" not in str(caught.value)


# --- pictures ---


def weights_of(rows: int, columns: int) -> np.ndarray:
    return softmax(np.random.default_rng(0).normal(scale=3, size=(rows, columns))).astype(np.float32)


def overlapping(boxes: list[Any]) -> list[tuple[int, int]]:
    """Which of these texts stand on one another."""
    corners = [box.get_window_extent() for box in boxes]
    pairs = itertools.combinations(range(len(corners)), 2)
    return [(one, other) for one, other in pairs if corners[one].overlaps(corners[other])]


WORDS = ["le", "chat", "était", "assis", "sur", "un", "tapis", "extraordinairement", "bleu", "<end>"]
LATIN = WORDS * 4


def test_forty_tokens_a_side_do_not_overlap() -> None:
    figure = alignment_figure(LATIN, LATIN[::-1], weights_of(40, 40), title="a title")
    figure.canvas.draw()
    axes = figure.axes[0]
    width, height = figure.canvas.get_width_height()
    for labels in (axes.get_yticklabels(), axes.get_xticklabels()):
        assert [label.get_text() for label in labels] in (LATIN, LATIN[::-1])
        for label in labels:
            box = label.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= width
            assert box.y1 <= height
    assert not overlapping(axes.get_yticklabels())
    # turned labels' boxes cross where their letters do not: what counts is the room between their lines
    places = axes.transData.transform([[place, 0] for place in range(40)])[:, 0]
    sizes = [label.get_fontsize() * figure.dpi / 72 for label in axes.get_xticklabels()]
    angle = np.radians(axes.get_xticklabels()[0].get_rotation())
    assert np.diff(places).min() * np.sin(angle) > max(sizes)
    cells = axes.transData.transform([[0, 0], [1, 1]])
    assert abs(np.diff(cells, axis=0)).min() > 10  # pixels


def test_the_source_is_across_and_the_output_down() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], np.float32)
    axes = alignment_figure(["un", "chat", "<end>"], ["cat", "<end>"], weights).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["un", "chat", "<end>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat", "<end>"]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    low, high = axes.get_ylim()
    assert low > high  # the first token is on top


def test_the_scale() -> None:
    """It ends with the largest weight; weights that are all alike stay pale."""
    for weights, darkest in (([[0.75, 0.25]], 0.75), ([[0.125] * 8], 0.5), ([[1.0, 0.0]], 1.0)):
        figure = alignment_figure(["a"] * len(weights[0]), ["b"], np.array(weights, np.float32))
        assert figure.axes[0].images[0].get_clim() == (0, darkest)
        assert figure.axes[1].get_ylim() == (0, darkest)


def test_tokens_as_they_are_shown() -> None:
    odd = [" le", "\n", " ", "a\tb", "x" * 40, "$\\frac$"]
    axes = alignment_figure(odd, ["."], weights_of(1, 6)).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["le", "⏎", "␣", "a⇥b", "x" * 23 + "…", "$\\frac$"]


@pytest.mark.parametrize("texts", [
    (["der", "Hund", "<end>"], ["the", "dog", "<end>"]),
    (["我", "们", "去", "年", "<end>"], ["昨", "日", "は", "<end>"]),
    (["كتاب", "جديد", "<end>"], ["ספר", "חדש", "<end>"]),
    (["हिन्दी", "ไทย", "한국어", "😀"], ["$x^2$", "\\alpha", "%", "<end>"]),
    (["a"], ["b"]),
], ids=["latin", "chinese", "arabic", "many", "one"])  # fmt: skip
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_of_every_script(texts: tuple[list[str], list[str]], ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"picture.{ending}"
    source, output = texts
    draw_alignment(source, output, weights_of(len(output), len(source)), path=path, title=" ".join(output) * 30)
    if ending == "png":
        pixels = imread(path)
        assert min(pixels.shape[:2]) > 200
        assert pixels[..., :3].std() > 0.05
    elif ending == "svg":
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    else:
        assert path.read_bytes()[:5] == b"%PDF-"


def test_a_title_stays_in_the_picture() -> None:
    figure = alignment_figure(["a"] * 6, ["b"] * 4, weights_of(4, 6), title="what a long sentence this is " * 40)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    assert [text.get_text().split()[0] for text in figure.texts] == ["what", "source", "output"]
    assert figure.texts[0].get_text().endswith("…")
    for text in figure.texts:
        box = text.get_window_extent()
        assert box.x1 <= width
        assert box.y1 <= height
    assert alignment_figure(["a"], ["b"], weights_of(1, 1), title="short").texts[0].get_text() == "short"


def test_too_many_tokens_for_a_picture(tmp_path: Path) -> None:
    many = ["a"] * (MOST_TOKENS + 1)
    for source, output in ((many, ["b"]), (["b"], many)):
        with pytest.raises(Misuse, match=f"{len(source)} × {len(output)} tokens are too many") as caught:
            draw_alignment(source, output, weights_of(len(output), len(source)), path=tmp_path / "picture.png")
        assert f"{MOST_TOKENS} a side" in str(caught.value)
    assert not list(tmp_path.iterdir())
    draw_alignment(many[1:], ["b"], weights_of(1, MOST_TOKENS), path=tmp_path / "picture.png")
