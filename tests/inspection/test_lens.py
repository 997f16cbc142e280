"""The lens ends with the model's own scores, whatever its encoder; before that it is norm and head of every layer."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.inspection.views.logit_lens import guesses_of, layer_scores, lens_of, lens_view, next_of
from glassformer.models.build import build_language_model, build_masked_model, build_predictor
from glassformer.models.modules import LanguageModel
from glassformer.rendering.panels import Guesses, Lines
from helpers.cases import CAUSAL, Flags, label, small
from helpers.support import differs, randomise, ready, same, softmax, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, TRANSLATORS, translator
from helpers.translators import label as named

B, T, S, VOCAB = 2, 7, 5, 13
WORDS = tokens(B, T, vocab=VOCAB)
MASK = torch.ones(1, T, dtype=torch.bool)


def model_of(flags: Flags) -> LanguageModel:
    settings = resolve({}, {f"model.{key}": value for key, value in flags.items()}).model
    return ready(build_language_model(settings, vocab=VOCAB))


def own_scores(model: nn.Module, inputs: Any) -> Tensor:
    with torch.inference_mode():
        return model(*inputs)[0]


@pytest.mark.sample(7)
@pytest.mark.parametrize("flags", CAUSAL, ids=label)
def test_the_last_layer_says_what_the_model_says(flags: Flags) -> None:
    model = model_of(flags)
    for inputs in ((WORDS,), (WORDS[:1], None), (WORDS[:1], MASK)):
        layers = list(layer_scores(model, inputs))
        assert torch.equal(layers[-1][1], own_scores(model, inputs))
        count = 1 if flags["encoder"] in ("average", "window") else flags["layers"]
        assert [name for name, _ in layers] == ["embedding", *(f"layer {number}" for number in range(count))]


@pytest.mark.sample(5)
@pytest.mark.parametrize("flags", TRANSLATORS, ids=named)
def test_a_decoder_too(flags: Flags) -> None:
    model = ready(translator(**flags))
    vocab = TARGET_VOCAB if flags.get("shared") else SOURCE_VOCAB
    source, target = tokens(1, S, vocab=vocab, seed=1), tokens(1, T, vocab=TARGET_VOCAB, seed=2)
    for inputs in ((source, None, target), (source, None, target, MASK)):
        layers = list(layer_scores(model, inputs))
        assert torch.equal(layers[-1][1], own_scores(model, inputs))
        names = ["embedding", *(f"layer {number}" for number in range(flags.get("decoder_layers", 1)))]
        looks = flags["decoder"] != "transformer" and flags.get("attention", "dot") != "none"
        assert [name for name, _ in layers] == ([*names, "output"] if looks else names)
    found = lens_of(model, (source, None, target), most=4)
    assert found.ids.shape == (len(layers), T, 4)
    same(torch.tensor(found.chances[-1, 2]), layers[-1][1][2].softmax(-1)[target[0, 3]], 1e-6)


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if info.causal and info.any_width])
def test_vectors_of_another_width_are_left_out(name: str) -> None:
    settings = resolve({}, {f"model.{key}": value for key, value in small(name, embed="onehot").items()}).model
    model = randomise(build_language_model(settings, vocab=VOCAB)).eval()
    layers = list(layer_scores(model, (WORDS,)))
    assert torch.equal(layers[-1][1], own_scores(model, (WORDS,)))
    if model.encoder.width == VOCAB:  # one-hot vectors that go straight into the head
        assert [name for name, _ in layers] == ["embedding", "layer 0"]
    else:
        assert [name for name, _ in layers] == ["layer 0", "layer 1"]


def test_every_layer_goes_through_norm_and_head() -> None:
    model = model_of(small("transformer", layers=3, style="gpt2"))
    encoder: Any = model.encoder
    with torch.inference_mode():
        x = encoder.positions(model.embed(WORDS), torch.arange(T))
        expected = [model.head(encoder.norm(x))[0]]
        for block in encoder.blocks:
            x = block(x, None)
            expected.append(model.head(encoder.norm(x))[0])
    found = list(layer_scores(model, (WORDS,)))
    assert len(found) == 4
    for (_, scores), wanted in zip(found, expected, strict=True):
        same(scores, wanted)
    assert differs(found[1][1], found[2][1])


@pytest.mark.parametrize("flags", [{"style": "bert"}, {"style": "bert", "head_transform": False}, {}], ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", ""])
def test_a_masked_model_guesses_what_stands_there_with_all_of_its_head(flags: Flags, bias: bool) -> None:
    chosen = {**small("transformer", **flags), "head_bias": bias}
    asked = {"task": "masked-language-model", **{f"model.{key}": value for key, value in chosen.items()}}
    model = ready(build_masked_model(resolve({}, asked).model, vocab=VOCAB))
    assert (model.transform is not None, model.head.bias is not None) == (flags == {"style": "bert"}, bias)
    for inputs in ((WORDS,), (WORDS[:1], MASK)):
        layers = list(layer_scores(model, inputs))
        assert torch.equal(layers[-1][1], own_scores(model, inputs))
        assert [name for name, _ in layers] == ["embedding", "layer 0", "layer 1"]
    encoder: Any = model.encoder
    with torch.inference_mode():
        x = encoder.norm(encoder.embed_norm(encoder.positions(model.embed(WORDS), torch.arange(T))))
        same(
            next(layer_scores(model, (WORDS,)))[1], model.head(x if model.transform is None else model.transform(x))[0]
        )


def test_ids_probabilities_entropy_ranks_and_chances() -> None:
    model = model_of(small("transformer", style="llama"))
    found = lens_of(model, (WORDS,), most=3)
    words = WORDS[0].tolist()
    for layer, (name, scores) in enumerate(layer_scores(model, (WORDS,))):
        assert found.layers[layer] == name
        p = softmax(scores.numpy())
        for place in range(T):
            order = np.argsort(-p[place])
            assert found.ids[layer, place].tolist() == order[:3].tolist()
            np.testing.assert_allclose(found.probabilities[layer, place], p[place][order[:3]], rtol=1e-5)
            np.testing.assert_allclose(found.entropy[layer, place], -(p[place] * np.log(p[place])).sum(), rtol=1e-5)
            if place < T - 1:
                answer = words[place + 1]
                assert found.ranks[layer, place] == 1 + order.tolist().index(answer)
                np.testing.assert_allclose(found.chances[layer, place], p[place, answer], rtol=1e-5)
        assert found.ranks[layer, -1] == 0
        assert math.isnan(found.chances[layer, -1])
    assert found.words(lambda id: f"w{id}")[1][2] == [f"w{id}" for id in found.ids[1, 2]]
    assert lens_of(model, (WORDS,), most=99).ids.shape == (3, T, VOCAB)


def test_answers_of_ones_own() -> None:
    model = model_of(small("gru"))
    answers = [None, 0, 3, None, 5, 6, 12]
    found = lens_of(model, (WORDS,), answers=answers)
    assert (found.ranks[0] == 0).tolist() == [answer is None for answer in answers]
    assert np.isnan(found.chances[1]).tolist() == [answer is None for answer in answers]
    p = softmax(own_scores(model, (WORDS,)).numpy())
    np.testing.assert_allclose(found.chances[-1, [1, 6]], p[[1, 6], [0, 12]], rtol=1e-5)
    fewer = lens_of(model, (WORDS,), answers=[3, 0])
    assert (fewer.ranks[0] == 0).tolist() == [False] * 2 + [True] * 5
    with pytest.raises(ValueError, match="8 answers for 7 tokens"):
        lens_of(model, (WORDS,), answers=[1] * 8)


def test_what_is_never_an_answer_is_no_guess() -> None:
    """Of the numbers nothing changes: they are the model's own."""
    model = model_of(small("gru"))
    own, never = lens_of(model, (WORDS,), most=VOCAB), [0, int(next_of(model, (WORDS[:1],)).ids[0])]
    found = lens_of(model, (WORDS,), most=VOCAB, never=never)
    assert found.ids.shape[-1] == VOCAB - 2
    for layer, place in np.ndindex(own.entropy.shape):
        kept = ~np.isin(own.ids[layer, place], never)
        assert found.ids[layer, place].tolist() == own.ids[layer, place][kept].tolist()
        np.testing.assert_array_equal(found.probabilities[layer, place], own.probabilities[layer, place][kept])
    for name in ("entropy", "ranks", "chances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(own, name))
    usual, other = (next_of(model, (WORDS[:1],), most=VOCAB, never=some) for some in ((), never))
    assert other.ids == [id for id in usual.ids if id not in never]


def test_looking_changes_nothing() -> None:
    model = model_of(small("transformer"))
    before = own_scores(model, (WORDS,))
    lens_of(model, (WORDS,))
    assert torch.equal(own_scores(model, (WORDS,)), before)
    scores = layer_scores(model, (WORDS,))
    next(scores)
    assert torch.ones(1, requires_grad=True).mul(2).requires_grad  # between two layers nothing else is switched off


def test_what_comes_next() -> None:
    model = model_of(small("lstm"))
    found = next_of(model, (WORDS[:1],), most=4)
    p = softmax(own_scores(model, (WORDS[:1],))[-1].numpy())
    order = np.argsort(-p)[:4]
    assert found.ids == order.tolist()
    np.testing.assert_allclose(found.probabilities, p[order], rtol=1e-5)


def test_only_what_writes_has_a_lens() -> None:
    settings = resolve({}, {"task": "classification", "model.encoder": "average"}).model
    for look in (lens_of, next_of):
        with pytest.raises(Misuse, match=r"TextPredictor has none") as caught:
            look(build_predictor(settings, outputs=3, vocab=VOCAB), (WORDS,))
        assert "\n" not in str(caught.value)


# --- views ---

GUESSES = [[["a", "b"], ["b", "c"]], [["c", "a"], ["a", "b"]]]
CHANCES = np.array([[[0.5, 0.25], [0.75, 0.125]], [[0.5, 0.5], [1.0, 0.0]]])


def two_layers(layers: list[str], answers: list[str] | None = None) -> Guesses:
    return Guesses(tokens=["x", "y"], layers=layers, guesses=GUESSES, probabilities=CHANCES, answers=answers)


def test_a_view_of_the_lens() -> None:
    right = np.array([[0.25, np.nan], [0.75, np.nan]])
    view = lens_view(two_layers(["embedding", "layer 0"], answers=["a", ""]), chances=right, entropy=CHANCES[..., 0])
    guesses, lines, entropy = view.panels
    assert isinstance(guesses, Guesses)
    assert (guesses.tokens, guesses.layers, guesses.answers) == (["x", "y"], ["embedding", "layer 0"], ["a", ""])
    assert guesses.guesses == GUESSES
    np.testing.assert_array_equal(guesses.probabilities, CHANCES)
    assert isinstance(lines, Lines)
    assert (lines.series[0].x, lines.series[0].y) == ([0, 1], [0.25, 0.75])
    assert lines.x_ticks == ["embedding", "layer 0"]
    assert lines.note == "mean over 1 token"
    assert isinstance(entropy, Lines)
    assert entropy.series[0].y == [0.625, 0.75]
    assert json.dumps(view.to_dict(), allow_nan=False)


@pytest.mark.parametrize("tied", [True, False])
def test_the_embedding_of_tied_weights_repeats_the_input(tied: bool) -> None:
    model = model_of({**small("transformer"), "tied": tied})
    with torch.no_grad():
        model.head.weight.copy_(3 * torch.eye(VOCAB, model.head.in_features))
    seen = lens_of(model, (WORDS[:1],))
    assert seen.tied == tied
    assert ("(model.tied)" in lens_view(guesses_of(seen, ["x"] * T, str)).panels[0].note) == tied


def test_a_view_where_nobody_knows_what_followed() -> None:
    for unknown in (None, np.full((2, 2), np.nan)):
        view = lens_view(two_layers(["layer 0", "layer 1"]), chances=unknown)
        assert [panel.kind for panel in view.panels] == ["guesses"]


def test_the_mean_is_over_what_is_known() -> None:
    right = np.array([[0.2, 0.4, np.nan], [0.6, 0.2, np.nan]])
    shown = lens_view(two_layers(["layer 0", "output"]), chances=right)
    lines = shown.panels[1]
    assert isinstance(lines, Lines)
    np.testing.assert_allclose(lines.series[0].y, [0.3, 0.4])
    assert lines.note == "mean over 2 tokens"
