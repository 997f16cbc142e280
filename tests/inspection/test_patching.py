"""Activation patching: a vector of one text in the pass over another, and how much of the answer comes along."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.config.errors import Misuse
from glassformer.families.evaluate import encode_example
from glassformer.inspection.capture import INPUT
from glassformer.inspection.change import replace
from glassformer.inspection.intervene import intervene
from glassformer.inspection.views.patching import chances_of, layer_states, patching_view
from glassformer.rendering.panels import Grid
from glassformer.rendering.view import View
from helpers.look_runs import train_kind
from helpers.support import randomise
from helpers.watching import no_hooks

A, B = "abc>abc", "dec>dbc"


@pytest.fixture(scope="module", params=["writer", "lstm-writer", "cnn-writer"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    run, _ = train_kind(request.param, tmp_path_factory.mktemp(request.param))
    loaded = gf.load(run, device="cpu")
    randomise(loaded.model)
    return loaded


def chances(loaded: Any, text: str) -> np.ndarray[Any, Any]:
    ids = torch.tensor([[loaded.tokenizer.start, *loaded.tokenizer.encode(text)]])
    with torch.inference_mode():
        return loaded.model(ids)[0, -1].softmax(-1).numpy()


Patched = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def patch(loaded: Any, text: str, other: str, layer: int | None, position: int | range) -> Patched:
    """The probabilities of the answers to a text, and those with the vectors of another at these positions."""
    a, b = (encode_example(loaded, one).inputs for one in (text, other))
    states = layer_states(loaded.model, b)[0 if layer is None else layer + 1]
    places = [position] if isinstance(position, int) else list(position)
    changes = {name: replace(state[:, places], positions=places) for name, state in states.items()}
    before = chances_of(loaded, a)[0].exp().numpy()
    with intervene(loaded, changes):
        return before, chances_of(loaded, a)[0].exp().numpy()


def test_the_same_text_changes_nothing(loaded: Any) -> None:
    layers = len(loaded.model.encoder.layer_outputs()) - 1
    for layer in (None, *range(layers)):
        before, after = patch(loaded, A, A, layer, 3)
        assert np.array_equal(before, after)
    view = gf.look(loaded, A, versus=A, view="patching")
    assert isinstance(view, View)
    grid = view.panels[0]
    assert isinstance(grid, Grid)
    assert grid.values.shape == (layers + 1, len(A) + 1)
    assert not grid.values.any()


def test_all_vectors_of_another_text_give_its_answer(loaded: Any) -> None:
    for layer in (None, *range(len(loaded.model.encoder.layer_outputs()) - 1)):
        before, after = patch(loaded, A, B, layer, range(len(A) + 1))
        np.testing.assert_allclose(before, chances(loaded, A), atol=1e-6)
        np.testing.assert_allclose(after, chances(loaded, B), atol=1e-5)
        assert np.abs(before - after).max() > 1e-3


def test_a_word_that_is_put_in_before_the_first_layer_is_that_word(loaded: Any) -> None:
    _, after = patch(loaded, A, B, None, 1)
    np.testing.assert_allclose(after, chances(loaded, "d" + A[1:]), atol=1e-5)


@pytest.mark.slow
def test_the_grid_is_patch_by_patch(loaded: Any, tmp_path: Path) -> None:
    view = gf.look(loaded, A, versus=B, view="patching")
    assert isinstance(view, View)
    grid: Any = view.panels[0]
    assert grid.columns[:3] == ["<start>", "a → d", "b → e"]
    first, second = chances(loaded, A), chances(loaded, B)
    answers = [id for id in np.argsort(-second) if id not in loaded.tokenizer.never(len(second))]
    answer = int(answers[0])
    whole = np.log(second[answer] / first[answer])
    for layer in range(len(grid.rows)):
        for place in (0, 2, len(A)):
            after = patch(loaded, A, B, layer - 1 if layer else None, place)[1][answer]
            assert grid.values[layer, place] == pytest.approx(np.log(after / first[answer]) / whole, abs=1e-3)
    assert grid.values[-1, -1] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(grid.values[:, 0], 0, atol=1e-4)
    assert not grid.values[(np.abs(grid.values) < 0.0005)].any()
    assert f"{second[answer]:.3g}" in view.panels[1].takeaway
    view.save(tmp_path / "view.html")
    view.save(tmp_path / "view.png")
    assert no_hooks(loaded.model)


def test_a_block_by_hand(loaded: Any) -> None:
    if not hasattr(loaded.model.encoder, "blocks"):
        return
    model = loaded.model
    first, second = (torch.tensor([[loaded.tokenizer.start, *loaded.tokenizer.encode(one)]]) for one in (A, B))
    with torch.inference_mode():
        rotation = model.encoder.rotary(torch.arange(first.shape[1]))
        x, y = (model.encoder.blocks[0](model.embed(ids), rotation=rotation) for ids in (first, second))
        x[:, 4] = y[:, 4]
        scores = model.head(model.encoder.norm(model.encoder.blocks[1](x, rotation=rotation)))[0, -1]
    np.testing.assert_allclose(patch(loaded, A, B, 0, 4)[1], scores.softmax(-1).numpy(), atol=1e-5)


def test_refusals(loaded: Any) -> None:
    with pytest.raises(Misuse, match="must have as many tokens, not 8 and 4"):
        gf.look(loaded, A, versus="abc", view="patching")
    with pytest.raises(Misuse, match="needs a second text"):
        gf.look(loaded, A, view="patching")


# --- classifiers ---


@pytest.fixture(scope="module", params=["classifier", "gru-classifier"])
def classifier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    run, example = train_kind(request.param, tmp_path_factory.mktemp(request.param))
    loaded = gf.load(run, device="cpu")
    randomise(loaded.model)
    return loaded, example


def said(loaded: Any, text: str) -> np.ndarray[Any, Any]:
    return np.array(list(loaded.predict(text).probabilities.values()))


def test_a_classifier_is_patched_alike(classifier: Any, tmp_path: Path) -> None:
    loaded, first = classifier
    words = first.split()
    second = " ".join(reversed(words))
    count = len(encode_example(loaded, first).tokens)
    assert count == len(encode_example(loaded, second).tokens)
    before, after = said(loaded, first), said(loaded, second)
    for layer in (None, *range(len(loaded.model.encoder.layer_outputs()) - 1)):
        found_before, found_after = patch(loaded, first, second, layer, range(count))
        np.testing.assert_allclose(found_before, before, atol=1e-5)
        np.testing.assert_allclose(found_after, after, atol=1e-5)
    view = gf.look(loaded, first, versus=second, view="patching")
    assert isinstance(view, View)
    grid: Any = view.panels[0]
    answer = int(after.argmax())
    whole = np.log(after[answer] / before[answer])
    for layer in range(len(grid.rows)):
        for place in (0, count - 1):
            chance = patch(loaded, first, second, layer - 1 if layer else None, place)[1][answer]
            assert grid.values[layer, place] == pytest.approx(np.log(chance / before[answer]) / whole, abs=1e-3)
    assert f"{after[answer]:.3g} in the second" in view.panels[1].takeaway
    view.save(tmp_path / "view.html")
    assert no_hooks(loaded.model)


def test_the_same_text_of_a_classifier_changes_nothing(classifier: Any) -> None:
    loaded, first = classifier
    view = gf.look(loaded, first, versus=first, view="patching")
    assert isinstance(view, View)
    assert view.panels[0].takeaway == "No vector changes the answer"


# --- in words ---


def test_what_carries_the_answer_in_words() -> None:
    def told(shares: list[list[float]], reads: int | None) -> str:
        layers = [INPUT, *(f"layer {number}" for number in range(len(shares) - 1))]
        values = np.array(shares, np.float32)
        tokens = list("abc")[: values.shape[1]]
        view = patching_view(tokens, layers, values, answer="x", chances=(0.1, 0.9), reads=reads)
        return view.panels[0].takeaway

    assert (
        told([[0, 1, 0], [0.1, 0.9, 0], [0, 0.7, 0.3], [0, 0.1, 1]], 2) == "After layer 1 “b” carries the answer (70%)"
    )
    assert told([[0, 1, 0], [0, 0, 1]], 2) == "After layer 0 “c” brings the answer"
    assert told([[0, 1, 0], [0.2, 0.1, 1]], 2) == "After layer 0 “a” brings most of it (20%)"
    assert told([[0.6, 0.6, 0]], None) == "At the input “a” and “b” each carry the answer (60%)"
    assert told([[-0.5, 0, 0], [-0.5, 0, 0]], None) == "After layer 0 no one vector brings the answer"
    assert told([[0, 0, 0]], 2) == "No vector changes the answer"
