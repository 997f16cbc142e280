"""What classification and regression share: batches of texts, and scores that do not depend on the company."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.config.errors import DataError, SettingError
from glassformer.config.resolve import resolve
from glassformer.data.features import inputs as inputs_module
from glassformer.data.features.texts import Examples
from glassformer.models.build import build_predictor
from glassformer.models.modules import device_of
from glassformer.tasks.answers import Classes
from glassformer.tasks.labelling import score, scores_of
from glassformer.tasks.prediction import Classification
from helpers.running import labelled
from helpers.support import randomise, same
from helpers.tables import examples_of_lengths

LENGTHS = [3, 11, 1, 7, 7, 2, 19, 5, 4, 13, 1, 8, 6, 17, 9, 3, 12]


def task_of(lengths: list[int] = LENGTHS, batch_size: int = 4, seed: int = 0) -> Classification:
    answers = list(range(len(lengths)))  # the answer tells the text
    classes = Classes.of([str(answer) for answer in answers], "softmax")
    return Classification({"train": examples_of_lengths(lengths, answers)}, classes, batch_size=batch_size, seed=seed)


def reader(encoder: str, outputs: int = 3, **more: Any) -> nn.Module:
    settings = resolve({}, {**labelled(encoder, **more), "task": "classification"})
    return randomise(build_predictor(settings.model, vocab=13, outputs=outputs)).eval()


# --- batches ---


def test_each_text_once_an_epoch_with_its_tokens_and_its_answer() -> None:
    task = task_of()
    examples = task.parts["train"]
    assert isinstance(examples, Examples)
    assert task.steps_per_epoch == 5
    for epoch in range(3):
        seen: list[int] = []
        for step in range(5 * epoch, 5 * epoch + 5):
            batch = task.batch(step)
            ids, mask = batch.inputs
            for row, text in enumerate(batch.answers.tolist()):
                expected = examples.tokens.of(text)
                assert ids[row, mask[row]].tolist() == expected
                assert not ids[row, ~mask[row]].any()  # padding
                assert mask[row].tolist() == sorted(mask[row].tolist(), reverse=True)
                seen.append(text)
            assert mask.any(0).all()  # no wider than its longest text
        assert sorted(seen) == list(range(17))


def test_like_lengths_are_together() -> None:
    task = task_of([1 + number % 40 for number in range(400)], batch_size=10)
    padded = sum(task.batch(step).inputs[1].numel() for step in range(40))
    real = sum(task.batch(step).tokens for step in range(40))
    assert real == sum(1 + number % 40 for number in range(400))
    assert padded < 1.1 * real  # in any order, it would be nearly twice as many


def test_sizes() -> None:
    batches = [task_of().batch(step) for step in range(5)]
    assert sorted(batch.size for batch in batches) == [1, 4, 4, 4, 4]
    for batch in batches:
        assert batch.size == batch.count == len(batch.inputs[0]) == len(batch.inputs[1]) == len(batch.answers)
        assert batch.tokens == sum(LENGTHS[text] for text in batch.answers.tolist())


def test_a_slice_is_no_wider_than_it_needs_to_be() -> None:
    batch = task_of(batch_size=17).batch(0)
    for first, last in ((0, 5), (5, 6), (6, 17)):
        part = batch.rows(first, last)
        (ids, mask), (part_ids, part_mask) = batch.inputs, part.inputs
        width = max(LENGTHS[text] for text in batch.answers[first:last].tolist())
        assert part_ids.shape == part_mask.shape == (last - first, width)
        assert torch.equal(part_ids, ids[first:last, :width])
        assert torch.equal(part_mask, mask[first:last, :width])
        assert torch.equal(part.answers, batch.answers[first:last])
        assert part.tokens == int(mask[first:last].sum())


def test_a_slice_of_texts_without_tokens_keeps_a_column() -> None:
    batch = task_of([0, 0, 2], batch_size=3).batch(0)
    empty = [row for row in range(3) if not batch.inputs[1][row].any()]
    assert batch.rows(empty[0], empty[0] + 1).inputs[0].shape == (1, 1)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    def batches(seed: int, steps: list[int]) -> list[list[int]]:
        task = task_of(seed=seed)
        return [task.batch(step).answers.tolist() for step in steps]

    assert batches(3, [7, 0, 12]) == [batches(3, [step])[0] for step in (7, 0, 12)]
    epochs = [batches(3, list(range(first, first + 5))) for first in (0, 5, 10)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert batches(3, list(range(5))) != batches(4, list(range(5)))


# --- scores ---


@pytest.mark.parametrize("encoder", ["lstm", "transformer", "cnn", "bag"])
@pytest.mark.parametrize("at_once", [20, 10_000])
def test_scores_come_in_order_and_do_not_depend_on_the_company(
    encoder: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs_module, "TOKENS_AT_ONCE", at_once)
    model, examples = reader(encoder), examples_of_lengths([length for length in LENGTHS if length <= 16])
    found = score(model, examples, 3)
    assert found.shape == (len(examples), 3)
    for row in range(len(examples)):
        ids = torch.from_numpy(examples.ids[examples.tokens.starts[row] : examples.tokens.starts[row + 1]]).long()
        with torch.no_grad():
            alone = model(ids[None], torch.ones(1, len(ids), dtype=torch.bool))
        same(found[row], alone[0], 1e-5)
    assert found.std(0).min() > 1e-3


def test_no_text_has_no_score() -> None:
    assert score(reader("lstm"), examples_of_lengths([]), 3).shape == (0, 3)


class Gives(nn.Module):
    def __init__(self, what: Any) -> None:
        super().__init__()
        self.what = what

    def forward(self, tokens: Tensor, mask: Tensor) -> Any:
        return self.what


@pytest.mark.parametrize(
    ("what", "gave"),
    [
        (torch.zeros(5), "scores of shape (5,)"),
        (torch.zeros(5, 2), "scores of shape (5, 2)"),
        (torch.zeros(3, 5), "scores of shape (3, 5)"),
        (torch.zeros(5, 7, 3), "scores of shape (5, 7, 3)"),
        ((torch.zeros(5, 3), None), "a tuple"),
        (None, "None"),
    ],
)
def test_what_a_model_of_ones_own_may_give(what: Any, gave: str) -> None:
    ids = torch.zeros(5, 7, dtype=torch.long)
    with pytest.raises(SettingError) as caught:
        scores_of(Gives(what), (ids, ids == 0), 3, "text")
    assert str(caught.value) == f"the model gave {gave} for 5 texts, but must give (5, 3)"


def test_scores_are_judged_in_single_precision() -> None:
    ids = torch.zeros(2, 7, dtype=torch.long)
    assert scores_of(Gives(torch.ones(2, 3, dtype=torch.bfloat16)), (ids, ids == 0), 3).dtype == torch.float32


def test_a_part_without_texts() -> None:
    task = Classification({"test": examples_of_lengths([])}, Classes.of("ab", None))
    with pytest.raises(DataError, match="the test part holds no text"):
        task.evaluate(reader("lstm", 1), "test")


def test_a_model_without_weights_is_on_the_cpu() -> None:
    assert device_of(Gives(None)) == torch.device("cpu")
    assert device_of(nn.Linear(1, 1, device="meta")) == torch.device("meta")
