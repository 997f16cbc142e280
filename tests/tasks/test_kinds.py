"""Batches and judgements of examples that are no texts."""

import numpy as np
import pytest
import torch

from glassformer.config.errors import DataError, SettingError
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.tables import TableFeatures
from glassformer.models.build import build_predictor
from glassformer.tasks.answers import Classes, Scale
from glassformer.tasks.labelling import scores_of
from glassformer.tasks.prediction import Classification, Regression
from helpers.kinds import config_of, part_of, pictures_part, rows_of
from helpers.support import randomise

ROWS = rows_of(17)
TABLE = part_of(**{name: [row[name] for row in ROWS] for name in ("height", "weight", "city")})
NUMBERS = Classes.of([str(number) for number in range(17)], "softmax")


def table_task(seed: int = 0) -> Classification:
    inputs = TableFeatures.learn(TABLE).inputs(TABLE, np.arange(17))
    return Classification({"train": inputs, "test": inputs}, NUMBERS, batch_size=4, seed=seed)


def test_each_row_once_an_epoch_with_its_answer() -> None:
    task = table_task()
    inputs = task.parts["train"]
    seen: list[int] = []
    for step in range(5):
        batch = task.batch(step)
        rows = batch.answers.numpy()
        for found, expected in zip(batch.inputs, inputs.take(rows), strict=True):
            assert torch.equal(found, expected)
        assert batch.known == [TABLE.texts[row] for row in rows]
        assert batch.tokens == 3 * batch.size
        seen += rows.tolist()
        part = batch.rows(1, 3)
        assert torch.equal(part.inputs[0], batch.inputs[0][1:3])
        assert part.known == batch.known[1:3]
        assert (part.size, part.tokens) == (2, 6) if batch.size > 2 else part.size < 2
    assert sorted(seen) == list(range(17))


def test_images_are_changed_in_training_only() -> None:
    part = pictures_part(8)
    config = config_of("image", "cnn", data__shift=3, training__seed=7)
    inputs = ImageFeatures.learn(part, config).inputs(part, np.arange(8))
    task = Classification({"train": inputs}, Classes.of(part.texts, "softmax"), batch_size=8)
    first, again, later = task.batch(0), task.batch(0), task.batch(1)
    assert torch.equal(first.inputs[0], again.inputs[0])
    plain = inputs.take(first.answers.numpy())[0]
    assert not torch.equal(first.inputs[0], plain)
    assert torch.equal(torch.cat([pixels for _, (pixels,) in inputs.batches()]), inputs.take(np.arange(8))[0])
    order = later.answers.argsort(), first.answers.argsort()
    assert not torch.equal(later.inputs[0][order[0]], first.inputs[0][order[1]])


def test_examples_are_counted_as_such() -> None:
    task = table_task()
    assert task.unit == "nats per example"
    model = randomise(
        build_predictor(config_of("table", "mlp").model, shape=TableFeatures.learn(TABLE).shape, outputs=17)
    )
    found = task.evaluate(model.eval(), "test")
    assert found.metrics["examples"] == 17
    assert "texts" not in found.metrics
    assert found.details["per_class"]["3"]["examples"] == 1
    assert [record["example"] for record in found.records] == TABLE.texts


def test_numbers_of_rows() -> None:
    inputs = TableFeatures.learn(TABLE).inputs(TABLE, np.linspace(-1, 1, 17, dtype=np.float32))
    task = Regression({"test": inputs}, Scale(5.0, 2.0))
    model = build_predictor(
        config_of("table", "linear", "regression").model, shape=TableFeatures.learn(TABLE).shape, outputs=1
    )
    found = task.evaluate(model, "test")  # it starts at 0: the mean
    assert found.metrics["rmse"] == pytest.approx(2 * np.sqrt(np.mean(np.linspace(-1, 1, 17) ** 2)), rel=1e-5)
    assert found.metrics["examples"] == 17
    assert found.records[0]["predicted"] == pytest.approx(5.0)
    empty = TableFeatures.learn(TABLE).inputs(part_of(height=[], weight=[], city=[]), np.zeros(0))
    with pytest.raises(DataError, match="the test part holds no example"):
        Regression({"test": empty}, Scale(5.0, 2.0)).evaluate(model, "test")


def test_scores_of_the_wrong_shape() -> None:
    with pytest.raises(SettingError, match=r"scores of shape \(5, 2\) for 5 examples, but must give \(5, 3\)"):
        scores_of(torch.nn.Linear(7, 2), (torch.zeros(5, 7),), 3)
