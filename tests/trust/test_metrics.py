"""Every metric is scikit-learn's or sacreBLEU's on the same predictions, however odd; every interval that `evaluate`
prints covers what it claims to, of predictors whose true quality is known."""

import math
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from sklearn import metrics as theirs
from sklearn.calibration import calibration_curve

from glassformer.data.features.texts import Examples
from glassformer.diagnosis.evaluation import small_validation
from glassformer.error_analysis.labelling import error_count, mean_error
from glassformer.error_analysis.translations import mean_chrf, odd_outputs
from glassformer.rendering.panels import Table
from glassformer.statistics.calibration import expected_error, reliability
from glassformer.tasks.answers import Classes, Labels, Scale
from glassformer.tasks.prediction import Classification, Multilabel, Regression
from glassformer.tasks.translation import judge
from helpers.attempts import Tried
from helpers.tables import examples_of_lengths

pytestmark = pytest.mark.trust

DRAWS = 400


def examples(answers: Any) -> Examples:
    return examples_of_lengths([2] * len(answers), answers)


def near(one: float, other: float, tolerance: float = 1e-9) -> None:
    assert math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance), (one, other)


def scores_with_ties(chance: np.random.Generator, rows: int, outputs: int) -> torch.Tensor:
    """Now and then whole numbers, or all the same."""
    scores = chance.normal(0, 3, (rows, outputs))
    return torch.from_numpy(chance.choice([scores, scores.round(), 0 * scores])).float()


# --- scikit-learn's ---


def test_classes(tried: Tried) -> None:
    """Classes that never occur, or are never said; a single row; ties."""
    chance = np.random.default_rng(0)
    for _ in range(DRAWS):
        count, rows = int(chance.integers(2, 7)), int(chance.integers(1, 40))
        answers = Classes.of([f"class {number}" for number in range(count)], None)
        true = chance.choice(chance.permutation(count)[: chance.integers(1, count + 1)], rows)
        scores = scores_with_ties(chance, rows, answers.outputs)
        part = examples(true)
        found = Classification({"test": part}, answers).judge(part, scores)
        probabilities = answers.probabilities(scores).double().numpy()
        said = probabilities.argmax(1)
        labels = list(range(count))
        near(found.metrics["accuracy"], theirs.accuracy_score(true, said))
        near(found.metrics["macro_f1"], theirs.f1_score(true, said, average="macro", zero_division=0))
        near(found.metrics["majority"], np.bincount(true).max() / rows)
        with np.errstate(divide="ignore"):
            exact = -np.log(probabilities[np.arange(rows), true])
        if np.isfinite(exact).all():
            near(found.metrics["loss"], float(exact.mean()), 1e-3)
        assert found.details["confusion"]["matrix"] == theirs.confusion_matrix(true, said, labels=labels).tolist()
        columns = theirs.precision_recall_fscore_support(true, said, labels=labels, zero_division=0)
        for row, expected in zip(found.details["per_class"].values(), zip(*columns, strict=True), strict=True):
            for mine, other in zip(row.values(), expected, strict=True):
                near(mine, other)
        assert [answers.names[number] for number in said] == [record["predicted"] for record in found.records]
    tried("metrics: classes", "compared with scikit-learn", DRAWS, "equal")


def test_several_labels(tried: Tried) -> None:
    """Rows without any label, labels of no row."""
    chance = np.random.default_rng(1)
    for _ in range(DRAWS):
        count, rows = int(chance.integers(2, 6)), int(chance.integers(1, 30))
        answers = Labels.of([f"label {number}" for number in range(count)], None)
        true = (chance.random((rows, count)) < chance.choice([0, 0.2, 0.7], count)).astype(np.float32)
        scores = scores_with_ties(chance, rows, count)
        part = examples(true)
        found = Multilabel({"test": part}, answers).judge(part, scores)
        said = (scores > 0).numpy().astype(np.float32)  # of a probability of one half, no
        met = np.flatnonzero(said.sum(0) + true.sum(0) > 0)
        by_label = theirs.f1_score(true, said, average=None, zero_division=0)
        near(found.metrics["micro_f1"], theirs.f1_score(true, said, average="micro", zero_division=0))
        near(found.metrics["macro_f1"], float(np.mean(by_label[met])) if len(met) else 0.0)
        near(found.metrics["exact_match"], theirs.accuracy_score(true, said))
        near(found.metrics["hamming"], theirs.hamming_loss(true, said))
        columns = theirs.precision_recall_fscore_support(true, said, zero_division=0)
        for row, expected in zip(found.details["per_label"].values(), zip(*columns, strict=True), strict=True):
            for mine, other in zip(row.values(), expected, strict=True):
                near(mine, other)
    tried("metrics: several labels", "compared with scikit-learn", DRAWS, "equal")


def test_numbers(tried: Tried) -> None:
    """Large and small ones, all the same, perfectly foretold."""
    chance = np.random.default_rng(2)
    for _ in range(DRAWS):
        rows = int(chance.integers(2, 40))
        answers = Scale(float(chance.normal(0, 1e3)), float(10 ** chance.uniform(-3, 4)))
        true = chance.choice([chance.normal(0, 2, rows), np.zeros(rows), np.full(rows, 1.5)])
        scores = torch.from_numpy(true + chance.choice([0.0, 0.1, 3.0]) * chance.normal(0, 1, rows))[:, None].float()
        part = examples(true.astype(np.float32))
        found = Regression({"test": part}, answers).judge(part, scores)
        numbers = true.astype(np.float32).astype(float) * answers.spread + answers.mean
        said = scores[:, 0].double().numpy() * answers.spread + answers.mean
        near(found.metrics["rmse"], theirs.root_mean_squared_error(numbers, said))
        near(found.metrics["mae"], theirs.mean_absolute_error(numbers, said))
        if numbers.max() > numbers.min():
            near(found.metrics["r2"], theirs.r2_score(numbers, said), 1e-6)
        else:  # of equals it is not defined
            assert "r2" not in found.metrics
    tried("metrics: numbers", "compared with scikit-learn", DRAWS, "equal")


def test_calibration(tried: Tried) -> None:
    chance = np.random.default_rng(3)
    for _ in range(DRAWS):
        sure, rows = chance.uniform(0, 1, 50), int(chance.integers(1, 51))
        right = chance.random(50) < sure
        bins = reliability(sure[:rows], right[:rows])
        shares, means = calibration_curve(right[:rows], sure[:rows], n_bins=10)
        assert [each.accuracy for each in bins] == pytest.approx(shares.tolist())
        assert [each.confidence for each in bins] == pytest.approx(means.tolist())
        counts = np.histogram(sure[:rows], np.linspace(0, 1, 11))[0]
        near(expected_error(bins), float(np.abs(shares - means) @ counts[counts > 0] / rows))
    tried("metrics: calibration", "compared with scikit-learn", DRAWS, "equal")


# --- sacreBLEU's ---


PIECES = (
    "the",
    "cat",
    "sat",
    ".",
    "",
    "  ",
    "Straße",
    "日本語",
    "e\u0301",
    "👩‍👩‍👧",
    "&amp;",
    '"',
    "3.14",
    "\u200b",
    "a-b",
    "It's",
)


def test_translations(tried: Tried) -> None:
    """Empty texts on either side, single words, other letters."""
    chance = np.random.default_rng(4)

    def text() -> str:
        return " ".join(chance.choice(PIECES, chance.integers(0, 9)))

    for _ in range(DRAWS):
        targets = [text() for _ in range(chance.integers(1, 8))]
        outputs = [target if chance.random() < 0.4 else text() for target in targets]
        pairs = zip(outputs, targets, strict=True)
        found = judge(
            [{"output": one, "target": of, "exact": one == of} for one, of in pairs], "greedy", lowercase=True
        )
        lower = {"bleu": False, "bleu_lowercase": True}
        if "no_bleu" not in found.details:
            how = found.details["bleu_tokenizer"]
            for name, lowercase in lower.items():
                score = sacrebleu.corpus_bleu(outputs, [targets], lowercase=lowercase, tokenize=how).score
                near(found.metrics[name], score)
        near(found.metrics["chrf"], sacrebleu.corpus_chrf(outputs, [targets]).score)
        near(found.metrics["exact_match"], np.mean(np.array(outputs) == np.array(targets)))
    tried("metrics: translations", "compared with sacreBLEU", DRAWS, "equal")


# --- the intervals that `evaluate --errors` and the doctor print ---


TIMES = 800
DEVIATION = math.sqrt(0.95 * 0.05 / TIMES)


def covered(truth: float, draw: Callable[[np.random.Generator], Sequence[Any] | None]) -> tuple[float, int]:
    """How often the interval of a draw held the truth, of those that were printed."""
    chance = np.random.default_rng(5)
    found = [ends for _ in range(TIMES) if (ends := draw(chance)) is not None]
    return sum(low <= truth <= high for low, high in found) / max(1, len(found)), len(found)


def enough(share: float) -> None:
    """As often as claimed: three standard deviations, and a hundredth for Wilson's and Student's own approximations."""
    assert share >= 0.95 - 3 * DEVIATION - 0.01, share


def answered(chance: np.random.Generator, rows: int, rate: float) -> list[dict[str, Any]]:
    """A fixed classifier that is wrong on so large a share of all there are."""
    wrong, classes = chance.random(rows) < rate, chance.choice(("a", "b"), rows)
    return [{"label": name, "predicted": "c" if off else name} for name, off in zip(classes, wrong, strict=True)]


@pytest.mark.parametrize(("rows", "rate"), [(100, 0.05), (400, 0.05), (20, 0.3), (100, 0.3), (20, 0.6), (400, 0.6)])
def test_shares_of_errors(rows: int, rate: float, tried: Tried) -> None:
    """Two errors of a class are to be expected at least: of fewer, Wilson's interval covers 9 times in 10."""

    def said(chance: np.random.Generator) -> Sequence[float] | None:
        sentence = error_count(answered(chance, rows, rate), "text").sentence
        ends = re.search(r"\(([\d.]+)–([\d.]+) %\)", sentence)
        return None if ends is None else [float(end) / 100 for end in ends.groups()]

    def noted(chance: np.random.Generator) -> Sequence[float] | None:
        advise = SimpleNamespace(remedies=lambda key: "")
        finding = small_validation(answered(chance, rows, rate), "text", advise)
        return None if finding is None else [1 - finding.numbers["high"], 1 - finding.numbers["low"]]

    for draw in (said, noted):
        share, printed = covered(rate, draw)
        if printed > TIMES / 2:  # none of errors is no share, and a part that tells enough is not noted
            enough(share)
    tried(
        "printed intervals: classifiers",
        "simulated data with a known truth",
        2 * TIMES,
        "cover it as often as they claim",
    )


@pytest.mark.parametrize("rows", [10, 60])
def test_means_of_errors(rows: int, tried: Tried) -> None:
    def ends(of: int) -> Callable[[np.random.Generator], Sequence[Any]]:
        def draw(chance: np.random.Generator) -> Sequence[Any]:
            records = [{"error": float(error)} for error in chance.normal(0.5, 2, rows)]
            (table,) = mean_error(records, "text").panels
            assert isinstance(table, Table)
            return table.rows[of][2:]

        return draw

    folded = 2 * math.sqrt(2 / math.pi) * math.exp(-1 / 32) + 0.5 * math.erf(0.25 / math.sqrt(2))
    for truth, place in ((0.5, 0), (folded, 1)):
        enough(covered(truth, ends(place))[0])
    tried(
        "printed intervals: regressors",
        "simulated data with a known truth",
        2 * TIMES,
        "cover it as often as they claim",
    )


def test_means_of_translations(tried: Tried) -> None:
    def mean(chance: np.random.Generator) -> Sequence[float]:
        records = [{"exact": False}] * 80
        ends = re.search(r"\(([\d.]+) to ([\d.]+)\)", mean_chrf(records, chance.beta(2, 1, 80) * 100).sentence)
        assert ends is not None
        return [float(end) for end in ends.groups()]

    def empty(chance: np.random.Generator) -> Sequence[Any]:
        records = [{"output": "x" * int(full), "target": "x", "source": "y"} for full in chance.random(80) < 0.9]
        (table,) = odd_outputs(records, np.zeros(80)).panels
        assert isinstance(table, Table)
        return next(row[3:5] for row in table.rows if row[0] == "empty")

    enough(covered(200 / 3, mean)[0])
    enough(covered(0.1, empty)[0])
    tried(
        "printed intervals: translators",
        "simulated data with a known truth",
        2 * TIMES,
        "cover it as often as they claim",
    )
