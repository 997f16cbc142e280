"""Which tokens decided: against derivatives by small steps, and against examples that really lack a part."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import Misuse
from glassformer.config.presets import IMAGE, KINDS, TABLE
from glassformer.inspection.views.attribution import (
    agreement,
    gradient_times_input,
    leave_one_out,
    score_of,
    translation_gradients,
)
from helpers.small_readers import INPUTS, PIXELS, VOCAB, WORDS, reader_of, writer_of
from helpers.support import numbers, ready, same, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, translator

Inputs = tuple[Any, ...]
EVERY = [(name, kind) for name, info in ENCODERS.items() for kind in KINDS if kind in info.reads]


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
    memory = model.encode(SOURCE, None)
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


def test_signs_and_order_are_compared_over_what_was_left_out() -> None:
    gradient = np.array([9.0, 1.0, 2.0, 4.0, -3.0, 0.1], np.float32)
    left_out = np.array([np.nan, 2.0, -1.0, 5.0, -1.5, 0.9], np.float32)
    found = agreement(gradient, left_out)
    assert found is not None
    assert (found.both, found.opposed) == ([1, 2, 3, 4], [2])  # 0.1 is too little beside 4
    assert found.order == pytest.approx(np.corrcoef([2, 3, 5, 4, 1], [4, 2, 5, 3, 1])[0, 1])
    other = agreement(gradient, -left_out)
    assert other is not None
    assert (other.opposed, other.order) == ([1, 3, 4], found.order)
    assert agreement(gradient[:3], left_out[:3]) is None
    assert agreement(gradient, np.ones(6, np.float32)) is None
    assert agreement(np.zeros(6, np.float32), gradient) is None
