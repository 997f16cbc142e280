"""Floors and references: always the same answer, the source itself, scikit-learn; judged by the task's own code."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from glassformer.config.errors import MissingPackage, SettingError
from glassformer.config.presets import KINDS, LABELLING, TABLE, TASKS, TEXT, VECTORS
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, Prepared
from glassformer.families.build import prepare
from glassformer.families.recognition import infer_config
from glassformer.tasks.base import Evaluation
from glassformer.trials.baselines.registry import (
    ALL_LABELS,
    BOOSTING,
    COPY,
    LINEAR,
    MAJORITY,
    MAJORITY_PER_LABEL,
    MEAN,
    MOST_FREQUENT_SET,
    NGRAMS,
    TFIDF,
    BaselineResult,
    baselines,
    evaluate_baseline,
)
from glassformer.trials.jobs import FLOOR, REFERENCE
from helpers.kinds import rows_of, write_rows
from helpers.simulated import judged

Made = tuple[Config, Prepared]


def names_of(what: str, task: str, kind: str) -> list[str]:
    return [one.name for one in baselines(FAMILIES[task], kind) if one.kind == what]


def floor(name: str, config: Config, prepared: Prepared, part: str = "test") -> tuple[Evaluation, int]:
    result = evaluate_baseline(FLOOR, name, config, prepared, part)
    return result.evaluation, result.parameters


def reference(name: str, config: Config, prepared: Prepared) -> BaselineResult:
    return evaluate_baseline(REFERENCE, name, config, prepared, "test")


def made(data: str, **more: Any) -> Made:
    settings = {
        "data.path": data,
        "data.test_fraction": 0.2,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    config, table = infer_config({}, settings)
    return config, prepare(config, rows=table)


@pytest.fixture(scope="module")
def opinions() -> Made:
    return made("opinions:rows=400")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with categories, and one class more frequent than the other."""
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    return str(write_rows(path, [row for row in rows_of(300) if row["size"] == "S" or float(row["height"]) > 9]))


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Texts with several labels, which their words tell; most have `a`, many none."""
    chance = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        labels = [name for name, share in (("a", 0.6), ("b", 0.3), ("c", 0.2)) if chance.random() < share]
        words = [f"word{name}" for name in labels] + [f"other{chance.integers(9)}" for _ in range(4)]
        lines.append({"text": " ".join(words), "label": ";".join(labels)})
    path = write_rows(tmp_path_factory.mktemp("tags") / "tags.csv", lines)
    return made(str(path), task="multilabel", text="text", data__text="text", data__label="label")


def test_every_task_has_a_floor() -> None:
    for task in (task for task in TASKS if task != VECTORS):  # nobody learns that here
        for kind in KINDS:
            assert names_of(FLOOR, task, kind)
            assert bool(names_of(REFERENCE, task, kind)) == (task in LABELLING and kind in (TEXT, TABLE))


def test_the_largest_class(rows: str) -> None:
    config, prepared = made(rows, label="size", data__label="size", data__kind="table")
    found, learned = floor(MAJORITY, config, prepared)
    labels = prepared.corpus.parts["train"].labels  # type: ignore[union-attr]
    largest = max(set(labels), key=labels.count)
    assert {record["predicted"] for record in found.records} == {largest}
    truth = prepared.corpus.parts["test"].labels  # type: ignore[union-attr]
    assert found.metrics["accuracy"] == truth.count(largest) / len(truth) == found.metrics["majority"]
    share = labels.count(largest) / len(labels)
    expected = -np.mean([np.log(share if one == largest else 1 - share) for one in truth])
    assert found.metrics["loss"] == pytest.approx(expected, rel=1e-5)
    assert learned == 1


def test_several_classes() -> None:
    config, prepared = made("iris")
    found, learned = floor(MAJORITY, config, prepared, "validation")
    assert len({record["predicted"] for record in found.records}) == 1
    assert learned == 3


def test_the_mean(rows: str) -> None:
    config, prepared = made(rows, task="regression", data__label="weight", data__kind="table")
    found, learned = floor(MEAN, config, prepared)
    train, test = ([float(one) for one in prepared.corpus.parts[name].labels] for name in ("train", "test"))  # type: ignore[union-attr]
    (said,) = {record["predicted"] for record in found.records}
    assert said == pytest.approx(np.mean(train), rel=1e-4)
    assert found.metrics["rmse"] == pytest.approx(np.sqrt(np.mean((np.array(test) - np.mean(train)) ** 2)), rel=1e-4)
    assert learned == 1


def test_sets_of_labels(tags: Made) -> None:
    config, prepared = tags
    sets = [tuple(sorted(filter(None, one.split(";")))) for one in map(str, _labels(prepared))]
    every, _ = floor(ALL_LABELS, config, prepared)
    assert {tuple(record["predicted"]) for record in every.records} == {("a", "b", "c")}
    usual, _ = floor(MOST_FREQUENT_SET, config, prepared)
    each, learned = floor(MAJORITY_PER_LABEL, config, prepared)
    assert {tuple(record["predicted"]) for record in usual.records} == {max(set(sets), key=sets.count)}
    often = [name for name in "abc" if sum(name in one for one in sets) > len(sets) / 2]
    assert {tuple(record["predicted"]) for record in each.records} == {tuple(often)}
    assert learned == 3
    assert each.metrics["loss"] <= usual.metrics["loss"] + 1e-6  # of all constants the best


def _labels(prepared: Prepared) -> list[str]:
    answers = prepared.task.parts["train"].answers  # type: ignore[attr-defined]
    return [";".join(name for name, there in zip("abc", row, strict=True) if there) for row in answers]


def test_copying_the_source() -> None:
    config, prepared = made("reverse-pairs:rows=100")
    found, learned = floor(COPY, config, prepared)
    assert learned == 0
    assert all(record["output"] == record["source"] for record in found.records)
    same = [record["source"] == record["target"] for record in found.records]
    assert found.metrics["exact_match"] == sum(same) / len(same)
    assert "loss" not in found.metrics
    assert "nan" not in found.summary


# --- references ---


def vectorizer(name: str, *, characters: bool = True) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    if name == TFIDF:
        return TfidfVectorizer()
    words = TfidfVectorizer(ngram_range=(1, 2))
    return make_union(words, TfidfVectorizer(analyzer="char", ngram_range=(2, 5))) if characters else words


@pytest.mark.parametrize("name", [TFIDF, NGRAMS])
def test_texts_are_those_of_the_task(opinions: Made, name: str) -> None:
    """The numbers that scikit-learn's own search gives, and the examples that a floor is judged on."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, KFold

    config, prepared = opinions
    result = reference(name, config, prepared)
    found, learned, seconds = result.evaluation, result.parameters, result.seconds
    train, test = (prepared.corpus.parts[part] for part in ("train", "test"))
    features = vectorizer(name)
    search = GridSearchCV(
        LogisticRegression(solver="liblinear", max_iter=1000),
        {"C": [10.0, 100.0, 1.0, 0.1]},
        cv=KFold(3, shuffle=True, random_state=0),
    )
    matrix = features.fit_transform(train.texts)  # type: ignore[union-attr]
    model = search.fit(matrix, train.labels)  # type: ignore[union-attr]
    assert result.note == f"C = {model.best_params_['C']:g}"
    tested = features.transform(test.texts)  # type: ignore[union-attr]
    assert [record["predicted"] for record in found.records] == list(model.predict(tested))
    chances = model.predict_proba(tested).max(1)
    np.testing.assert_allclose([record["probability"] for record in found.records], chances, rtol=1e-4)
    assert learned == matrix.shape[1] + 1
    assert seconds is not None
    assert seconds > 0
    constant, _ = floor(MAJORITY, config, prepared)
    family = FAMILIES[config.task]
    assert judged(found, family).examples == judged(constant, family).examples


def test_a_reference_that_would_take_too_long_uses_less(opinions: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and how long it may take follows from the slowest trained model."""
    config, prepared = opinions
    monkeypatch.setattr("glassformer.trials.baselines.registry.LARGE", 100)
    monkeypatch.setattr("glassformer.trials.baselines.registry.PROBED", 50)
    monkeypatch.setattr("glassformer.trials.baselines.registry.MIN_SECONDS", 0.0)
    short = evaluate_baseline(REFERENCE, NGRAMS, config, prepared, "test", slowest=1e-9)
    assert short.note == (
        "C = 10; no character n-grams: they would take longer than 0 s; no other value of C tried: more would take "
        "longer than 0 s"
    )
    texts = prepared.corpus.parts["train"].texts  # type: ignore[union-attr]
    assert short.parameters == vectorizer(NGRAMS, characters=False).fit_transform(texts).shape[1] + 1
    long = evaluate_baseline(REFERENCE, NGRAMS, config, prepared, "test", slowest=1e9)
    assert long.parameters > short.parameters
    assert ";" not in long.note


@pytest.mark.parametrize("name", [TFIDF, NGRAMS, LINEAR, BOOSTING])
def test_importing_scikit_learn_is_not_part_of_the_training_time(
    name: str, opinions: Made, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each first import takes 100 s on this clock, and fitting takes no time."""
    imported: set[str] = set()

    def slow_import(module: str) -> Any:
        imported.add(module)
        return importlib.import_module(module)

    registry = "glassformer.trials.baselines.registry"
    monkeypatch.setattr(f"{registry}.importlib", SimpleNamespace(import_module=slow_import))
    monkeypatch.setattr(f"{registry}.time", SimpleNamespace(perf_counter=lambda: 100.0 * len(imported)))
    texts = name in (TFIDF, NGRAMS)
    config, prepared = opinions if texts else made(rows, data__label="size", data__kind="table")
    result = evaluate_baseline(REFERENCE, name, config, prepared, "test", slowest=10.0)
    assert imported
    assert result.seconds == 0
    assert ";" not in result.note


def test_only_the_part_that_is_learned_from() -> None:
    """With a tenth of the data there are fewer words to know."""
    whole, part = (
        reference(TFIDF, *made("opinions:rows=400", data__train_fraction=share)).parameters for share in (1.0, 0.1)
    )
    assert part < whole


@pytest.mark.parametrize("name", [LINEAR, BOOSTING])
def test_tables_with_categories(rows: str, name: str) -> None:
    config, prepared = made(rows, data__label="size", data__kind="table")
    found = reference(name, config, prepared)
    metrics = found.evaluation.metrics
    assert metrics["accuracy"] > metrics["majority"] + 0.1
    assert found.parameters > 0
    config, prepared = made(rows, task="regression", data__label="weight", data__kind="table")
    constant, _ = floor(MEAN, config, prepared)
    assert reference(name, config, prepared).evaluation.metrics["rmse"] < 1.3 * constant.metrics["rmse"]


def test_more_categories_than_boosted_trees_split(tmp_path: Path) -> None:
    rows = [{"city": f"c{number % 300}", "size": number % 7, "label": "ny"[number % 7 > 3]} for number in range(900)]
    config, prepared = made(str(write_rows(tmp_path / "many.csv", rows)), data__label="label", data__kind="table")
    for name in names_of(REFERENCE, config.task, config.data.kind):
        assert reference(name, config, prepared).evaluation.metrics["accuracy"] > 0.9


@pytest.mark.slow
def test_several_classes_of_a_table() -> None:
    config, prepared = made("iris")
    for name in names_of(REFERENCE, config.task, config.data.kind):
        assert reference(name, config, prepared).evaluation.metrics["accuracy"] > 0.85


def test_labels_one_against_the_rest(tags: Made) -> None:
    config, prepared = tags
    found = reference(TFIDF, config, prepared)
    assert found.evaluation.metrics["micro_f1"] > 0.95
    assert found.parameters == 3 * (12 + 1)


def test_without_scikit_learn_it_says_how_to_get_it(opinions: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingPackage, match=r"pip install 'glassformer\[sklearn\]'"):
        reference(TFIDF, *opinions)


def test_unknown_names(opinions: Made) -> None:
    with pytest.raises(SettingError, match="did you mean majority class"):
        floor("majority clas", *opinions)
    with pytest.raises(SettingError, match="unknown reference"):
        reference(LINEAR, *opinions)
