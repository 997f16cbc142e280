"""Several labels: the loss, the metrics against scikit-learn's, and every encoder learns them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, hamming_loss, log_loss, precision_recall_fscore_support
from sklearn.multiclass import OneVsRestClassifier

from glassformer.config.errors import RunError, SettingError
from glassformer.config.resolve import resolve
from glassformer.data.columns.labels import as_text
from glassformer.data.features.texts import Examples, Sequences
from glassformer.tasks.answers import Labels, read_answers
from glassformer.tasks.labelling import precision_recall_f1
from glassformer.tasks.prediction import Multilabel, most_frequent_set, set_metrics

NAMES = ("a", "b", "c", "d", "e")


def random_sets(count: int = 97, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    true = chance.random((count, 5)) < (0.5, 0.3, 0.1, 0.05, 0.6)
    return true, true ^ (chance.random((count, 5)) < 0.3)


def examples_of(true: np.ndarray) -> Examples:
    texts = [f"text {number}" for number in range(len(true))]
    tokens = Sequences.concatenate([np.array([number % 7]) for number in range(len(true))], 0)
    return Examples(tokens, true.astype(np.float32), texts, 0)


@pytest.mark.parametrize("seed", range(3))
def test_the_metrics_are_those_of_scikit_learn(seed: int) -> None:
    true, said = random_sets(seed=seed)
    found = set_metrics(true, said)
    assert found["micro_f1"] == pytest.approx(f1_score(true, said, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(true, said, average="macro", zero_division=0))
    assert found["exact_match"] == pytest.approx((true == said).all(1).mean())
    assert found["hamming"] == pytest.approx(hamming_loss(true, said))
    precision, recall, f1, support = precision_recall_fscore_support(true, said, zero_division=0)
    rows = precision_recall_f1((true & said).sum(0), said.sum(0), true.sum(0), "examples")
    for number, row in enumerate(rows):
        assert (row["precision"], row["recall"], row["f1"]) == pytest.approx(
            (precision[number], recall[number], f1[number])
        )
        assert row["examples"] == support[number]


def test_a_label_that_nobody_has_and_nobody_said_counts_for_nothing() -> None:
    true, said = random_sets()
    wide = [np.concatenate([one, np.zeros((len(one), 1), bool)], 1) for one in (true, said)]
    assert set_metrics(*wide)["macro_f1"] == set_metrics(true, said)["macro_f1"]
    nothing = np.zeros((3, 2), bool)
    assert set_metrics(nothing, nothing) == {"micro_f1": 0.0, "macro_f1": 0.0, "exact_match": 1.0, "hamming": 0.0}


def test_an_evaluation_tells_every_example_and_its_floor() -> None:
    true, _ = random_sets()
    task = Multilabel({"test": examples_of(true)}, Labels(NAMES))
    scores = torch.randn(97, 5, generator=torch.Generator().manual_seed(3))
    found = task.judge(task.parts["test"], scores)
    said = scores.sigmoid().numpy() > 0.5
    assert found.primary == "micro_f1"
    assert found.metrics["micro_f1"] == pytest.approx(f1_score(true, said, average="micro"))
    parts = [log_loss(true[:, n], scores[:, n].double().sigmoid().numpy(), labels=[False, True]) for n in range(5)]
    assert found.metrics["loss"] == pytest.approx(np.mean(parts), abs=1e-6)
    often = most_frequent_set(true)
    assert found.metrics["majority"] == (true == often).all(1).mean()
    assert found.metrics["majority_micro_f1"] == pytest.approx(f1_score(true, often, average="micro"))
    assert found.metrics["texts"] == len(found.records) == 97
    for row, record in enumerate(found.records):
        assert record["labels"] == [name for name, here in zip(NAMES, true[row], strict=True) if here]
        assert record["predicted"] == [name for name, here in zip(NAMES, said[row], strict=True) if here]
        assert list(record["probabilities"]) == list(NAMES)
    assert np.mean([record["loss"] for record in found.records]) == pytest.approx(found.metrics["loss"])
    assert "always the most frequent set" in found.summary
    assert "never any label: 0" in found.summary
    assert list(found.details["per_label"]) == list(NAMES)


def test_it_learns_what_one_against_the_rest_learns() -> None:
    """A linear model by our loss, and scikit-learn's logistic regressions, one for each label."""
    chance = np.random.default_rng(0)
    inputs = chance.normal(size=(200, 3)).astype(np.float32)
    true = (inputs @ chance.normal(size=(3, 5)) + chance.normal(size=(200, 5))) > (0, 0.5, -0.5, 1, 0)
    model = torch.nn.Linear(3, 5)
    answers = torch.from_numpy(true.astype(np.float32))
    task = Multilabel({"test": examples_of(true)}, Labels(NAMES))
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=200)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = task.losses(model(torch.from_numpy(inputs)), answers).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(closure)  # type: ignore[arg-type, no-untyped-call]
    reference = OneVsRestClassifier(LogisticRegression(C=1e6, max_iter=1000)).fit(inputs, true)
    with torch.no_grad():
        found = Labels(NAMES).probabilities(model(torch.from_numpy(inputs))).numpy()
    assert np.abs(found - reference.predict_proba(inputs)).max() < 2e-3
    assert ((found > 0.5) == reference.predict(inputs)).mean() > 0.999


def test_answers_go_out_and_come_back() -> None:
    labels = Labels.of(["x", "y y", "z"], None)
    learned = labels.learned([as_text(["z", "x"]), as_text([]), as_text(["y y"])])
    assert learned.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert labels.words(torch.from_numpy(learned)) == ["x; z", "(none)", "y y"]
    assert read_answers(labels.to_json(), "logistic", "a card") == labels
    with pytest.raises(RunError, match="a card is damaged"):
        read_answers({"labels": []}, None, "a card")
    with pytest.raises(
        SettingError, match=r"training\.loss softmax: several labels are learned with the logistic loss"
    ):
        Labels.of(["x"], "softmax")


@pytest.mark.parametrize("setting", ["training.class_weights", "training.label_smoothing"])
def test_settings_of_classes_are_refused(setting: str) -> None:
    with pytest.raises(SettingError, match=f"{setting} does nothing while task is multilabel"):
        resolve({}, {"task": "multilabel", setting: {"training.class_weights": "balanced"}.get(setting, 0.1)})


def test_of_two_sets_as_frequent_the_order_of_examples_decides_nothing() -> None:
    true = np.array([[False, False], [True, False], [False, True], [True, False], [False, True], [False, False]])
    for rows in (true, true[::-1]):
        assert most_frequent_set(rows)[0].tolist() == [True, False]
