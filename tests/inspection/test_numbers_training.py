"""A training step number by number: against autograd, finite differences and torch's SGD; the model stays as it was."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve, used_keys
from glassformer.config.sections import TrainingSettings
from glassformer.inspection.numbers.training import OPTIMISERS, layer_of, training_step
from glassformer.models.build import build_language_model, build_predictor, parameter_count
from glassformer.rendering.panels import Table, Words
from glassformer.rendering.view import View
from helpers.arithmetic import check_sentences, grid_of, holds, written_in_full  # noqa: F401
from helpers.support import ready, softmax, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, translator

T, VOCAB, LR = 5, 11, 0.03
NAMES = ["<s>", " the", " cat", " sat", "."]
IDS = tokens(1, T, vocab=VOCAB, seed=4)
NEXT = torch.tensor([[2, 7, -1, 7, 9]])
"""Nothing is asked for after the third."""

full = pytest.mark.usefixtures("written_in_full")


def settings_of(task: str, encoder: str, **flags: Any) -> Any:
    small = {"width": 14, "layers": 2, "context": 9, "heads": 2, "head_width": 6, "hidden": 11}
    chosen = {key: value for key, value in small.items() if key in used_keys(encoder)} | flags
    said = {f"model.{key}": value for key, value in {"encoder": encoder, **chosen}.items()}
    return resolve({}, {"task": task, **said}).model


def language_model(encoder: str = "transformer", **flags: Any) -> Any:
    return ready(build_language_model(settings_of("language-model", encoder, **flags), vocab=VOCAB))


def reader(encoder: str, outputs: int, **flags: Any) -> Any:
    return ready(build_predictor(settings_of("classification", encoder, **flags), vocab=VOCAB, outputs=outputs))


SOURCE = tokens(1, 4, vocab=SOURCE_VOCAB, seed=1)
TARGET, AFTER = tokens(1, 3, vocab=TARGET_VOCAB, seed=2), tokens(1, 3, vocab=TARGET_VOCAB, seed=5)

CASES: dict[str, tuple[Any, tuple[Tensor | None, ...], Tensor, str, list[str]]] = {
    "language model": (lambda: language_model(tied=False), (IDS,), NEXT, "softmax", NAMES),
    "tied": (lambda: language_model(tied=True), (IDS,), NEXT, "softmax", NAMES),
    "lstm": (lambda: language_model("lstm", tied=False), (IDS,), NEXT, "softmax", NAMES),
    "classifier": (lambda: reader("transformer", 3), (IDS,), torch.tensor([1]), "softmax", NAMES),
    "two classes": (lambda: reader("gru", 1), (IDS,), torch.tensor([1]), "logistic", NAMES),
    "the other": (lambda: reader("gru", 1), (IDS,), torch.tensor([0]), "logistic", NAMES),
    "regressor": (lambda: reader("average", 1), (IDS,), torch.tensor([-0.7]), "squared", NAMES),
    "hidden head": (lambda: reader("average", 3, head_layers=1), (IDS,), torch.tensor([2]), "softmax", NAMES),
    "bag": (lambda: reader("bag", 3, ngrams=2, buckets=17), (IDS,), torch.tensor([0]), "softmax", NAMES),
    "bag, hidden": (lambda: reader("bag", 3, head_layers=1), (IDS,), torch.tensor([0]), "softmax", NAMES),
    "translator": (lambda: ready(translator(tied=False)), (SOURCE, None, TARGET), AFTER, "softmax", ["<s>", "x", "y"]),
    "recurrent translator": (
        lambda: ready(translator("lstm", "gru", tied=False)), (SOURCE, None, TARGET), AFTER, "softmax",
        ["<s>", "x", "y"],
    ),
}  # fmt: skip


def mean_loss(model: nn.Module, inputs: tuple[Tensor | None, ...], answers: Tensor, loss: str) -> Tensor:
    """By torch's own losses."""
    scores = model(*inputs)
    if loss == "softmax":
        return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), answers.flatten(), ignore_index=-1)
    if loss == "logistic":
        return F.binary_cross_entropy_with_logits(scores[:, 0], answers.double())
    return F.mse_loss(scores[:, 0], answers.double())


def step(name: str, **more: Any) -> tuple[View, nn.Module]:
    build, inputs, answers, loss, names = CASES[name]
    model = build()
    return training_step(model, inputs, answers, loss=loss, tokens=names, lr=LR, shown=1000, **more), model


def table_of(view: View, title: str) -> Table:
    (found,) = [panel for panel in view.panels if isinstance(panel, Table) and panel.title == title]
    return found


@full
@pytest.mark.parametrize("name", CASES)
def test_a_step(name: str) -> None:
    view, model = step(name)
    _, inputs, answers, loss, _ = CASES[name]
    twin = copy.deepcopy(model)
    before = mean_loss(twin, inputs, answers, loss)
    before.backward()
    gradients = {key: torch.zeros_like(w) if w.grad is None else w.grad for key, w in twin.named_parameters()}
    expected = gradients.copy()
    torch.optim.SGD(twin.parameters(), lr=LR).step()
    after = mean_loss(twin, inputs, answers, loss)
    done = [row[1] for row in table_of(view, "After the step").rows]
    squared = sum(float(one.square().sum()) for one in expected.values())
    np.testing.assert_allclose(
        done, [before.item(), after.item(), (after - before).item(), -LR * squared], rtol=1e-6, atol=1e-9
    )
    assert after < before
    norms = table_of(view, "The gradient, layer by layer")
    total = sum(float(row[3]) ** 2 for row in norms.rows)  # type: ignore[arg-type]
    assert total == pytest.approx(squared)
    assert sum(row[1] for row in norms.rows) == parameter_count(model)  # type: ignore[misc]
    weights = sum(float(row[2]) ** 2 for row in norms.rows)  # type: ignore[arg-type]
    assert weights == pytest.approx(sum(w.square().sum().item() for w in model.parameters() if w.requires_grad))
    (update,) = [panel for panel in view.panels if ", the row" in panel.title]
    which = update.title.partition(",")[0]
    old, gradient, new = update.values  # type: ignore[attr-defined]
    row = _row_of(name, model, which, old)
    np.testing.assert_allclose(gradient, expected[which][row], atol=1e-9)
    np.testing.assert_allclose(new, twin.get_parameter(which)[row].detach(), atol=1e-9)
    check_sentences(view, 4 if loss == "squared" or name == "tied" else 5)


def _row_of(name: str, model: nn.Module, which: str, old: np.ndarray) -> int:
    """Which row of the matrix is shown: that of the answer, or of the first word."""
    table = model.get_parameter(which).detach().numpy()
    (row,) = np.flatnonzero(np.abs(table - old).max(1) < 1e-9)
    answers, loss = CASES[name][2], CASES[name][3]
    wanted = int(IDS[0, 0]) if which == "bag.table.weight" else int(answers.flatten()[-1]) if loss == "softmax" else 0
    assert row == wanted
    return int(row)


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_left_as_it_was(name: str) -> None:
    build, inputs, answers, loss, names = CASES[name]
    model = build().train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    training_step(model, inputs, answers, loss=loss, tokens=names)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("name", ["language model", "classifier", "regressor", "translator", "tied"])
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    view, model = step(name)
    _, inputs, answers, loss, _ = CASES[name]
    (update,) = [panel for panel in view.panels if ", the row" in panel.title]
    which = update.title.partition(",")[0]
    old, gradient, _ = update.values  # type: ignore[attr-defined]
    row, small = _row_of(name, model, which, old), 1e-6
    weight = model.get_parameter(which)
    with torch.no_grad():
        for column in (0, 5, 13):
            weight[row, column] += small
            more = mean_loss(model, inputs, answers, loss).item()
            weight[row, column] -= 2 * small
            less = mean_loss(model, inputs, answers, loss).item()
            weight[row, column] += small
            assert gradient[column] == pytest.approx((more - less) / (2 * small), abs=1e-7)


def test_scores_probabilities_losses_and_p_minus_t() -> None:
    outputs = [f"w{number}" for number in range(VOCAB)]
    view, model = step("language model", outputs=outputs, position=3)
    asked = [0, 1, 3, 4]
    logits = model(IDS)[0].detach().numpy()[asked]
    answers = NEXT[0, asked].numpy()
    p = softmax(logits)
    others = [int(at) for at in np.argsort(-logits[2]) if at != 7]
    order = [7, *others]
    for title, values in [
        ("Scores", logits),
        ("Probabilities", p),
        ("Gradient at the scores", (p - np.eye(VOCAB)[answers]) / 4),
    ]:
        panel = grid_of(view, title)
        assert list(panel.columns) == ["right token", *(f"w{number}" for number in order)]
        assert list(panel.rows) == ["<s> → w2", "the → w7", "sat → w7", ". → w9"]
        holds(view, title, np.hstack([values[range(4), answers][:, None], values[:, order]]))
    holds(view, "Loss", -np.log(p[range(4), answers])[:, None])
    assert "the row worked out, sat → w7," in grid_of(view, "Scores").note
    assert "p(w7) = e^" in grid_of(view, "Probabilities").note
    assert "loss(w7) = −ln" in grid_of(view, "Loss").note
    assert "∂loss/∂y(w7) = (" in grid_of(view, "Gradient at the scores").note
    assert any(panel.title == "head.weight, the row of w7" for panel in view.panels)
    cut = training_step(model, (IDS,), NEXT, tokens=NAMES, position=3, shown=3)
    assert grid_of(cut, "Scores").values.shape == (4, 3)
    np.testing.assert_allclose(grid_of(cut, "Scores").values[2], logits[2, [7, *order[:2]]])


@pytest.mark.parametrize(
    ("name", "outputs", "said"),
    [
        ("classifier", ["no", "yes", "who"], {"p(yes)", "loss(yes)", "∂loss/∂y(yes)"}),
        ("the other", ["no", "yes"], {"p(yes)", "loss(yes)", "∂loss/∂y(yes)"}),
        ("regressor", [], {"loss", "∂loss/∂y"}),
    ],
)
def test_what_is_worked_out_has_its_right_name(name: str, outputs: list[str], said: set[str]) -> None:
    build, inputs, answers, loss, _ = CASES[name]
    view = training_step(build(), inputs, answers, loss=loss, outputs=outputs)
    worked = {line.partition(" = ")[0] for panel in view.panels[:4] for line in panel.note.splitlines()}
    assert said <= worked
    assert grid_of(view, "Scores").rows == ["example"]


def test_what_is_never_below_0_has_no_scale_below_it() -> None:
    view, _ = step("language model")
    shares, losses = grid_of(view, "Probabilities"), grid_of(view, "Loss")
    assert (shares.signed, shares.low, shares.high) == (False, 0.0, 1.0)
    assert (losses.signed, losses.low) == (False, None)
    assert grid_of(view, "Gradient at the scores").signed


def test_frozen_weights_stay() -> None:
    model = language_model(tied=False)
    model.embed.table.weight.requires_grad_(False)
    model.head.weight.requires_grad_(False)
    view = training_step(model, (IDS,), NEXT, tokens=NAMES, lr=LR)
    where = [row[0] for row in table_of(view, "The gradient, layer by layer").rows]
    assert "embed.table" not in where
    assert "encoder.blocks.0" in where
    assert not any(", the row" in panel.title for panel in view.panels)


def test_a_table_with_two_uses_says_so() -> None:
    view, _ = step("tied")
    (update,) = [panel for panel in view.panels if ", the row" in panel.title]
    assert update.title.startswith("embed.table.weight")
    assert "the word vectors' too" in update.note
    assert "g₀ = " not in update.note.replace("η·g₀ = ", "")


class Own(nn.Module):
    """A person's own model."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, 4)
        self.out = nn.Linear(4, 3)
        self.last = nn.Linear(4, 4)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.out(self.last(self.table(ids)).mean(1))


def test_ones_own_model() -> None:
    view = training_step(ready(Own()), (IDS,), torch.tensor([1]), tokens=NAMES)
    rows = table_of(view, "The gradient, layer by layer").rows
    assert [row[0] for row in rows] == ["table", "out", "last"]
    assert not any(", the row" in panel.title for panel in view.panels)


def test_every_optimiser_is_told_in_words() -> None:
    choices = TrainingSettings.__dataclass_fields__["optimizer"].metadata["rule"].choices
    assert set(OPTIMISERS) == set(choices)
    for name in choices:
        last = step("regressor", optimizer=name)[0].panels[-1]
        assert isinstance(last, Words)
        assert last.text == OPTIMISERS[name]


def test_names_of_layers() -> None:
    assert layer_of("encoder.blocks.10.attend.query.weight") == "encoder.blocks.10"
    assert layer_of("encoder.layers.cell.weight_ih_l1_reverse") == "encoder.layers.1"
    assert layer_of("encoder.norm.weight") == "encoder.norm"
    assert layer_of("head.weight") == "head"


def test_what_cannot_be_learned_is_refused_in_one_line() -> None:
    model = language_model(tied=False)
    with pytest.raises(Misuse, match="nothing to learn"):
        training_step(model, (IDS,), torch.full((1, T), -1), tokens=NAMES)
    with pytest.raises(Misuse, match="--position 2: nothing is asked for"):
        training_step(model, (IDS,), NEXT, tokens=NAMES, position=2)
    with pytest.raises(Misuse, match=r"--position 5 .* 0 to 4"):
        training_step(model, (IDS,), NEXT, tokens=NAMES, position=5)
    with pytest.raises(Misuse, match="at most 16 tokens, patches or columns, and there are 17"):
        training_step(model, (tokens(1, 17, vocab=VOCAB),), tokens(1, 17, vocab=VOCAB), tokens=["a"] * 17)


def test_the_row_of_a_bag_is_named_by_its_word() -> None:
    build, inputs, answers, loss, _ = CASES["bag"]
    view = training_step(build(), inputs, answers, loss=loss, words=["soup", "was"])
    assert "bag.table.weight, the row of “soup”" in [panel.title for panel in view.panels]
