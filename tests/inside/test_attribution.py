"""Which tokens decided: against derivatives by small steps, and against examples that really lack a part."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse
from glassformer.config.presets import ENCODERS, IMAGE, KINDS, MIXED, TABLE
from glassformer.inside.attribution import (
    agreement,
    gradient_times_input,
    leave_one_out,
    score_in_words,
    score_of,
    translation_gradients,
)
from glassformer.models.reader import BagReader
from small_readers import INPUTS, PIXELS, VOCAB, WORDS, T, reader_of, writer_of
from support import numbers, ready, same, tokens
from translators import SOURCE_VOCAB, TARGET_VOCAB, translator

Inputs = tuple[Any, ...]
EVERY = [(name, kind) for name, info in ENCODERS.items() for kind in KINDS if kind in info.reads]
BAGS: list[dict[str, Any]] = [
    {"weighting": "counts"},
    {"weighting": "tfidf"},
    {"weighting": "counts", "ngrams": 3, "buckets": 101},
    {"weighting": "tfidf", "ngrams": 2, "buckets": 101},
]
NOT_SAID_TWICE = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


# --- what is explained ---


def test_a_class_is_scored_above_the_mean_of_the_others() -> None:
    scores = torch.tensor([[1.0, 5.0, 3.0], [2.0, 2.0, 8.0]])
    assert score_of(scores, 1).tolist() == [3.0, -3.0]
    assert score_of(scores[:, :2], 0).tolist() == [-4.0, 0.0]
    assert score_of(scores + 7, 1).tolist() == score_of(scores, 1).tolist()


def test_two_classes_may_share_an_output_and_a_number_is_itself() -> None:
    scores = torch.tensor([[2.5]])
    assert [score_of(scores, which).item() for which in (1, 0, None)] == [2.5, -2.5, 2.5]


def test_tokens_are_scored_by_their_log_probability_the_last_after_the_last_token() -> None:
    scores = numbers(2, 5, 11)
    logs = scores.log_softmax(-1)
    same(score_of(scores, 7), logs[:, 4, 7])
    same(score_of(scores, [3, 8, 7]), logs[:, 2, 3] + logs[:, 3, 8] + logs[:, 4, 7])


def test_scores_in_words() -> None:
    assert "above the mean" in score_in_words(reader_of("average"), 1, "good")
    assert "'good'" in score_in_words(reader_of("average"), 1, "good")
    assert "number" in score_in_words(reader_of("average", outputs=1), None, "")
    assert "log-probability of 'x'" in score_in_words(writer_of("window"), 3, "x")


# --- gradient × input ---


def by_small_steps(model: Any, inputs: Inputs, which: Any) -> np.ndarray:
    """The derivative along each vector: how the score changes as it alone grows by a small share of itself."""
    model = model.double()
    inputs = tuple(one.double() if isinstance(one, Tensor) and one.is_floating_point() else one for one in inputs)
    grown, share = [], 1e-6
    x: list[Tensor] = []
    hook = model.encoder.register_forward_pre_hook(lambda _, given: x.append(given[0]))
    model(*inputs)
    hook.remove()
    for place in range(x[0].shape[1]):
        scores = []
        for sign in (1, -1):

            def grow(_: Any, given: Any, at: int = place, by: float = 1 + sign * share) -> Any:
                vectors = given[0].clone()
                vectors[:, at] *= by
                return (vectors, *given[1:])

            hook = model.encoder.register_forward_pre_hook(grow)
            with torch.no_grad():
                scores.append(score_of(model(*inputs), which)[0].item())
            hook.remove()
        grown.append((scores[0] - scores[1]) / (2 * share))
    return np.array(grown)


@pytest.mark.parametrize(("name", "kind"), [one for one in EVERY if one[0] not in ("bag", "linear", "mlp")])
def test_the_gradient_along_each_vector_of_a_reader(name: str, kind: str) -> None:
    model = reader_of(name, kind)
    found = gradient_times_input(model, INPUTS[kind], 2)
    expected = by_small_steps(model, INPUTS[kind], 2)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found).max() > 1e-3


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if info.causal])
@pytest.mark.parametrize("which", [4, [6, 4, 2]], ids=["one", "several"])
def test_the_gradient_along_each_vector_of_a_language_model(name: str, which: Any) -> None:
    model = writer_of(name)
    found = gradient_times_input(model, WORDS[:1], which)
    np.testing.assert_allclose(found, by_small_steps(model, WORDS[:1], which), atol=1e-4)


def test_one_hot_vectors_have_a_gradient_too() -> None:
    model = reader_of("gru", embed="onehot")
    expected = leave_one_out(model, WORDS, 1)
    assert gradient_times_input(model, WORDS, 1).shape == expected.shape
    assert np.abs(gradient_times_input(model, WORDS, 1)).min() > 0


def test_looking_leaves_no_trace() -> None:
    model = reader_of("lstm")
    before = model(*WORDS)
    with torch.inference_mode():  # where whoever looks has no gradients, and inputs that cannot have any
        inputs = tuple(one.clone() for one in WORDS)
        inside = gradient_times_input(model, inputs, 0)
    np.testing.assert_array_equal(inside, gradient_times_input(model, WORDS, 0))
    leave_one_out(model, WORDS, 0)
    assert torch.equal(model(*WORDS), before)
    assert all(weight.grad is None for weight in model.parameters())
    assert not model.encoder._forward_pre_hooks


def test_only_the_first_example_of_a_batch_is_looked_at() -> None:
    model = reader_of("transformer")
    two = tuple(torch.cat([one, one.flip(1)]) for one in WORDS)
    np.testing.assert_allclose(gradient_times_input(model, two, 1), gradient_times_input(model, WORDS, 1), atol=1e-5)
    np.testing.assert_allclose(leave_one_out(model, two, 1), leave_one_out(model, WORDS, 1), atol=1e-5)


@pytest.mark.parametrize("kind", [TABLE, IMAGE])
def test_a_linear_model_has_the_same_shares_both_ways(kind: str) -> None:
    """A score that is a sum over columns, or pixels, loses exactly what one of them gave."""
    model = reader_of("linear", kind)
    found = gradient_times_input(model, INPUTS[kind], 1)
    assert len(found) == (4 if kind == TABLE else 11 * 7)
    np.testing.assert_allclose(found, leave_one_out(model, INPUTS[kind], 1), atol=1e-5)
    weight, bias = (part.detach() for part in (model.head.output.weight, model.head.output.bias))
    whole = score_of(model(*INPUTS[kind]), 1).item()
    np.testing.assert_allclose(found.sum() + score_of(bias[None], 1).item(), whole, atol=1e-4)
    above = weight[1] - (weight[0] + weight[2]) / 2
    if kind == TABLE:
        first = (INPUTS[kind][0][0, 0] * above[0]).item()
        category = above[2 + 3 - 1].item()  # value 3 of the first category: the third of its three columns
        np.testing.assert_allclose(found[[0, 2]], [first, category], atol=1e-5)
    else:
        pixel = (PIXELS[0][0, :, 4, 2] * above.view(3, 11, 7)[:, 4, 2]).sum().item()
        np.testing.assert_allclose(found[4 * 7 + 2], pixel, atol=1e-5)


class Own(nn.Module):
    """A person's: an embedding, and what they please."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, 5)
        self.out = nn.Linear(5, 2)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.out(self.words(ids).sum(1))


def test_a_model_of_ones_own() -> None:
    model = Own()
    rows = model.words.weight[WORDS[0][0]].detach() @ (model.out.weight[1] - model.out.weight[0]).detach()
    np.testing.assert_allclose(gradient_times_input(model, WORDS, 1), rows, atol=1e-6)
    np.testing.assert_allclose(leave_one_out(model, WORDS, 1), rows, atol=1e-5)


def test_a_model_without_vectors_is_refused_in_a_line() -> None:
    with pytest.raises(Misuse, match=r"^Linear has no encoder and no nn.Embedding"):
        gradient_times_input(nn.Linear(3, 2), (torch.ones(1, 3),), 0)


# --- leave-one-out ---


@pytest.mark.parametrize("name", [name for name in ENCODERS if (name, "text") in EVERY and name != "bag"])
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
    monkeypatch.setattr("glassformer.inside.left_out.AT_ONCE", 3)
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


# --- bags ---


@pytest.mark.parametrize("flags", BAGS, ids=str)
@pytest.mark.parametrize("which", [0, 2])
def test_in_a_linear_bag_both_ways_are_the_share_of_each_word(flags: dict[str, Any], which: int) -> None:
    model = reader_of("bag", **flags)
    assert isinstance(model, BagReader)
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


# --- translators ---

S, TARGET = 6, 5
SOURCE = tokens(1, S, vocab=SOURCE_VOCAB, seed=1)
WRITTEN = tokens(1, TARGET, vocab=TARGET_VOCAB, seed=2)
ANSWERS: list[int] = tokens(TARGET, vocab=TARGET_VOCAB, seed=3).tolist()
TRANSLATORS: list[dict[str, Any]] = [
    {"encoder": "transformer", "decoder": "transformer"},
    {"encoder": "lstm", "decoder": "gru", "attention": "additive", "input_feeding": True},
    {"encoder": "cnn", "decoder": "lstm", "attention": "none"},
]


@pytest.mark.parametrize("flags", TRANSLATORS, ids=lambda flags: flags["decoder"])
def test_a_translators_gradients(flags: dict[str, Any]) -> None:
    model = ready(translator(**flags))
    inputs = (SOURCE, None, WRITTEN)
    source, prefix = translation_gradients(model, inputs, ANSWERS)
    assert source.shape == (TARGET, S)
    assert prefix.shape == (TARGET, TARGET)
    np.testing.assert_allclose(source.sum(0), gradient_times_input(model, inputs, ANSWERS), atol=1e-5)
    for place in (0, 3):
        shorter = (SOURCE, None, WRITTEN[:, : place + 1])
        np.testing.assert_allclose(source[place], by_small_steps(model, shorter, ANSWERS[place]), atol=1e-5)
    assert np.abs(np.triu(prefix, 1)).max() == 0  # what is written later decides nothing
    assert np.abs(np.diag(prefix)).min() > 0
    np.testing.assert_allclose(prefix[3], gradient_of_the_prefix(model, 3), atol=1e-5)


def gradient_of_the_prefix(model: Any, place: int) -> np.ndarray:
    x = model.embed_target(WRITTEN).detach().requires_grad_()
    memory = model.remember(SOURCE, None)
    logs = model.head(model.decoder(x, None, memory=memory)).log_softmax(-1)
    (slope,) = torch.autograd.grad(logs[0, place, ANSWERS[place]], x)
    return (slope * x)[0].sum(-1).detach().numpy()


@pytest.mark.parametrize("flags", TRANSLATORS, ids=lambda flags: flags["decoder"])
def test_a_translator_without_a_word_of_its_source(flags: dict[str, Any]) -> None:
    model = ready(translator(**flags))
    stay = {SOURCE[0, -1].item()}
    found = leave_one_out(model, (SOURCE, None, WRITTEN), ANSWERS, stay=stay)
    assert np.isnan(found).tolist() == [one in stay for one in SOURCE[0].tolist()]
    kept = [0, 2, 3, 4, 5]
    with torch.no_grad():
        whole, without = (score_of(model(s, None, WRITTEN), ANSWERS).item() for s in (SOURCE, SOURCE[:, kept]))
    assert found[1] == pytest.approx(whole - without, abs=1e-5)


# --- agreement ---


def test_agreement_is_the_correlation_over_what_was_left_out() -> None:
    gradient = np.array([9.0, 1.0, 2.0, 4.0, -3.0], np.float32)
    left_out = np.array([np.nan, 2.0, 1.0, 5.0, -1.0], np.float32)
    assert agreement(gradient, left_out) == pytest.approx(np.corrcoef(gradient[1:], left_out[1:])[0, 1])
    assert agreement(gradient, -left_out) == pytest.approx(-agreement(gradient, left_out))
    assert agreement(gradient[:3], left_out[:3]) is None
    assert agreement(gradient, np.ones(5, np.float32)) is None
    assert agreement(np.zeros(5, np.float32), gradient) is None
