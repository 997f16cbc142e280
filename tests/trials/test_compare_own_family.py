"""A family of a person's own in a comparison: what it has by itself, and one in processes of their own."""

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.config.plugins import VARIABLE
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, MASKED, OWN_TASKS, TEXT
from glassformer.families.base import FAMILIES, Family
from glassformer.families.labelling import ClassificationFamily
from glassformer.tasks.base import Evaluation
from glassformer.trials.baselines.registry import baselines
from glassformer.trials.compare import compare
from glassformer.trials.jobs import FLOOR
from glassformer.trials.results.comparison import summarise
from glassformer.trials.running.candidates import models_of
from glassformer.trials.running.scoring import fold_metric, known_share, pooled_metrics, uses
from helpers.running import tiny
from helpers.simulated import judged, outcomes_of

OWN = "verse"
SOURCE = """
from glassformer.families.base import register_family
from glassformer.families.language import LanguageFamily

class Verse(LanguageFamily):
    task = "verse"
    title = "A poet"

register_family(Verse(), like="language-model")
"""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Family:
    """Of the base class alone, with the settings of a language model."""
    kind = type("Bare", (Family,), {"task": OWN, "title": "", "primary": "distance", "lower_is_better": True})
    monkeypatch.setattr(kind, "__abstractmethods__", frozenset())
    family: Family = kind()
    monkeypatch.setitem(OWN_TASKS, OWN, LANGUAGE_MODEL)
    return family


def test_what_a_family_has_by_itself(bare: Family) -> None:
    assert models_of(OWN, TEXT) == models_of(LANGUAGE_MODEL, TEXT)
    assert baselines(bare, TEXT) == []
    assert list(uses(bare, None, None)) == []
    assert known_share(bare, None, None) is None
    assert fold_metric(bare, None) == ("distance", bare.lower_is_better)
    folds = [{"distance": 1.0, "examples": 3}, {"distance": 2.0, "examples": 2, "more": 1.0}]
    assert pooled_metrics(bare, [], folds) == {"distance": 1.5, "examples": 5}


def test_folds_of_hidden_tokens_are_pooled_by_their_tokens() -> None:
    """They have no bits per byte: only some of the text is guessed."""
    folds = [{"loss": 1.0, "perplexity": 2.7, "accuracy": 0.5, "tokens": 30}, {"loss": 3.0, "tokens": 10}]
    found = pooled_metrics(FAMILIES[MASKED], [], folds)
    assert (found["loss"], found["tokens"]) == (1.5, 40)
    assert found["perplexity"] == pytest.approx(math.exp(1.5))


@pytest.mark.parametrize(
    ("records", "scores"),
    [
        ([{"text": "a", "distance": 1.0}, {"text": "b", "distance": 3.0}], [-1.0, -3.0]),
        ([{"text": "a", "loss": 2.5}, {"text": "b", "loss": 1.5}], [-2.5, -1.5]),
        ([{"text": "a", "loss": 9.0}, {"text": "b", "loss": 9.0}], []),  # the metric is no mean of these
        ([{"text": "a", "distance": 2.0}, {"text": "b"}], []),
    ],
)
def test_scores_are_what_the_metric_is_the_mean_of(
    bare: Family, records: list[dict[str, Any]], scores: list[float]
) -> None:
    evaluation = Evaluation({"distance": 2.0}, "distance", True, records=records)
    assert judged(evaluation, bare).scores == scores


def test_without_scores_nothing_is_paired() -> None:
    found = summarise([*outcomes_of("lstm", 0.8, scores=[]), *outcomes_of("cnn", 0.7, scores=[])], title="a", budget="")
    assert found.behind == [None, None]
    assert any("it is not comparable example by example" in word for word in found.words)
    assert found.notes[0] == "Score: accuracy on the test part; the higher, the better."


def test_of_one_that_extends_ours_all_is_ours() -> None:
    family = type("Own", (ClassificationFamily,), {"task": OWN})()
    names = [[one.name for one in baselines(each, TEXT)] for each in (family, FAMILIES[CLASSIFICATION])]
    assert names[0] == names[1] != []


@pytest.fixture
def verse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file that registers a family, imported."""
    (tmp_path / "own_verse.py").write_text(SOURCE)
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("own_verse")
    yield
    sys.modules.pop("own_verse")
    OWN_TASKS.pop(OWN)
    FAMILIES.pop(OWN)


@pytest.mark.slow
@pytest.mark.usefixtures("verse")
def test_a_comparison(tmp_path: Path) -> None:
    found = compare(
        "copy:rows=60", task=OWN, seeds=1, out=tmp_path / "compared", **tiny("rnn"), **{"training.steps": 2}
    )
    assert found.title == "Verse on copy:rows=60"
    assert {row.name for row in found.rows} == {"rnn", "n-gram", "unigram"}
    assert [list(row.errors) for row in found.rows if row.kind == FLOOR] == [[], []]
    assert found.rows[0].metric == "loss"
    assert not any("unknown task" in error for row in found.rows for error in row.errors)
