"""Examples without one of their parts, against examples that really lack it; bags, which give shares."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.config.encoders import ENCODERS
from glassformer.config.presets import IMAGE, MIXED, TEXT
from glassformer.inspection.views.attribution import gradient_times_input, leave_one_out, score_of
from glassformer.models.modules import BagPredictor
from helpers.small_readers import INPUTS, PIXELS, WORDS, T, reader_of, writer_of

BAGS: list[dict[str, Any]] = [
    {"weighting": "counts"},
    {"weighting": "tfidf"},
    {"weighting": "counts", "ngrams": 3, "buckets": 101},
    {"weighting": "tfidf", "ngrams": 2, "buckets": 101},
]
NOT_SAID_TWICE = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


# --- leave-one-out ---


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if TEXT in info.reads and name != "bag"])
@pytest.mark.parametrize("masked", [True, False], ids=["mask", ""])
def test_a_text_really_lacks_the_word(name: str, masked: bool) -> None:
    model = reader_of(name)
    inputs = WORDS if masked else WORDS[:1]
    found = leave_one_out(model, inputs, 2)
    with torch.no_grad():
        whole = score_of(model(*inputs), 2).item()
        for place in range(T):
            kept = [other for other in range(T) if other != place]
            without = score_of(model(WORDS[0][:, kept]), 2).item()
            assert found[place] == pytest.approx(whole - without, abs=1e-4)


def test_more_words_than_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader_of("transformer")
    expected = leave_one_out(model, WORDS, 1)
    monkeypatch.setattr("glassformer.inspection.views.attribution.BATCH_EXAMPLES", 3)
    np.testing.assert_allclose(leave_one_out(model, WORDS, 1), expected, atol=1e-5)
    assert np.unique(expected.round(4)).size == T


@pytest.mark.parametrize("name", ["transformer", "bag"])
def test_start_and_end_stay(name: str) -> None:
    model = reader_of(name)
    ids = WORDS[0][0].tolist()
    found = leave_one_out(model, WORDS, 1, stay={ids[0], ids[4]})
    stayed = [one in (ids[0], ids[4]) for one in ids]
    assert np.isnan(found).tolist() == stayed
    assert not all(stayed)


def test_the_only_word_and_padding() -> None:
    model = reader_of("average")
    word = torch.tensor([[5]])
    with torch.no_grad():
        nothing = score_of(model(word, torch.tensor([[False]])), 0).item()
        whole = score_of(model(word), 0).item()
    assert leave_one_out(model, (word,), 0).tolist() == pytest.approx([whole - nothing], abs=1e-5)
    padded = (torch.tensor([[5, 2, 0]]), torch.tensor([[True, True, False]]))
    found = leave_one_out(model, padded, 0)
    assert np.isnan(found).tolist() == [False, False, True]
    np.testing.assert_allclose(found[:2], leave_one_out(model, (torch.tensor([[5, 2]]),), 0), atol=1e-5)


def test_a_language_model_loses_what_stands_before_what_is_explained() -> None:
    model, ids = writer_of("transformer"), WORDS[:1]
    found = leave_one_out(model, ids, [6, 4, 2])
    assert np.isnan(found).tolist() == [False] * 5 + [True] * 2
    with torch.no_grad():
        whole, without = (score_of(model(given), [6, 4, 2]).item() for given in (ids[0], ids[0][:, [0, 1, 2, 3, 5, 6]]))
    assert found[4] == pytest.approx(whole - without, abs=1e-4)
    assert np.isfinite(leave_one_out(model, ids, 3)).all()
    assert np.isnan(leave_one_out(model, (ids[0][:, :2],), [6, 4])).all()  # nothing before them
    assert np.isnan(leave_one_out(model, (ids[0][:, :1],), 6)).all()


def test_columns_are_put_at_their_mean_and_patches_painted_over() -> None:
    model = reader_of("transformer", MIXED)
    words, mask, amounts, categories, pixels = INPUTS[MIXED]
    found = leave_one_out(model, INPUTS[MIXED], 2)
    assert found.shape == gradient_times_input(model, INPUTS[MIXED], 2).shape == (4 + 3 * 2 + T,)
    still, empty, painted = amounts.clone(), categories.clone(), pixels.clone()
    still[0, 1], empty[0, 0], painted[0, :, 8:11, 4:7] = 0, 0, 0  # the last patch reaches beyond the image
    kept = [0, 1, 2, 4, 5, 6]
    changed = {
        1: (words, mask, still, categories, pixels),
        2: (words, mask, amounts, empty, pixels),
        9: (words, mask, amounts, categories, painted),
        13: (words[:, kept], mask[:, kept], amounts, categories, pixels),
    }
    with torch.no_grad():
        whole = score_of(model(*INPUTS[MIXED]), 2).item()
        for place, given in changed.items():
            assert found[place] == pytest.approx(whole - score_of(model(*given), 2).item(), abs=1e-4)


def test_cells_of_convolutions_stand_above_their_pixels() -> None:
    """Pooled once, 11×7 pixels are 5×3 cells; what remains at the end belongs to the last."""
    model = reader_of("cnn", IMAGE)
    found = leave_one_out(model, PIXELS, 0)
    assert found.shape == gradient_times_input(model, PIXELS, 0).shape
    side = 2 ** sum(model.embed.cut.pooled)
    rows, columns = 11 // side, 7 // side
    assert len(found) == rows * columns
    painted = PIXELS[0].clone()
    painted[..., (rows - 1) * side :, (columns - 1) * side :] = 0
    with torch.no_grad():
        whole, without = (score_of(model(given), 0).item() for given in (PIXELS[0], painted))
    assert found[-1] == pytest.approx(whole - without, abs=1e-4)


@pytest.mark.parametrize(("padding", "ends"), [(0, [4, 6, 8, 11]), (3, [3, 7, 11])])
def test_cells_of_other_strides_and_paddings(padding: int, ends: list[int]) -> None:
    """Output i of a kernel of 5 stands above pixel 2i + 2 − padding, with 3 zeros around the image two are pooled."""
    model = reader_of("cnn", IMAGE, layers=1, kernel=5, stride=2, padding=padding)
    cut = model.embed.cut
    rows = [row for _, (_, row, _) in model.embed.cells(PIXELS[0])[:: cut.grid[1]]]
    assert [(row.start, row.stop) for row in rows] == list(pairwise([0, *ends]))
    assert len(leave_one_out(model, PIXELS, 0)) == cut.cells


# --- bags ---


@pytest.mark.parametrize("flags", BAGS, ids=str)
@pytest.mark.parametrize("which", [0, 2])
def test_in_a_linear_bag_both_ways_are_the_share_of_each_word(flags: dict[str, Any], which: int) -> None:
    model = reader_of("bag", **flags)
    assert isinstance(model, BagPredictor)
    gradient, left_out = (way(model, WORDS, which) for way in (gradient_times_input, leave_one_out))
    np.testing.assert_allclose(gradient, left_out, atol=1e-5)
    strong = np.abs(gradient) > 1e-4
    assert strong.any()
    np.testing.assert_array_equal(np.sign(gradient[strong]), np.sign(left_out[strong]))
    bias = score_of(model.head(torch.zeros(1, 3)), which).item()
    assert gradient.sum() + bias == pytest.approx(score_of(model(*WORDS), which).item(), abs=1e-4)


def test_with_counts_a_text_without_the_word_scores_exactly_its_share_less() -> None:
    """Texts that lack the word, read anew. With TF-IDF this does not hold: the other words are weighed anew."""
    for weighting, holds in (("counts", True), ("tfidf", False)):
        model = reader_of("bag", weighting=weighting)
        share, whole = gradient_times_input(model, (NOT_SAID_TWICE,), 1), score_of(model(NOT_SAID_TWICE), 1).item()
        shorter = [torch.cat([NOT_SAID_TWICE[:, :at], NOT_SAID_TWICE[:, at + 1 :]], 1) for at in range(T)]
        lost = np.array([whole - score_of(model(text), 1).item() for text in shorter])
        assert np.allclose(share, lost, atol=1e-5) == holds
        if holds:
            np.testing.assert_array_equal(np.sign(share), np.sign(lost))


def test_a_bag_with_hidden_layers_bends() -> None:
    model = reader_of("bag", head_layers=1)
    gradient, left_out = (way(model, WORDS, 1) for way in (gradient_times_input, leave_one_out))
    states = model.states(*WORDS).detach()
    features = states.sum(1).requires_grad_()
    score_of(model.head(features), 1).sum().backward()
    np.testing.assert_allclose(gradient, (states[0] @ features.grad[0]).numpy(), atol=1e-5)
    with torch.no_grad():
        one = score_of(model.head(features), 1) - score_of(model.head(features - states[:, 3]), 1)
    assert left_out[3] == pytest.approx(one.item(), abs=1e-5)
    assert not np.allclose(gradient, left_out, atol=1e-3)
