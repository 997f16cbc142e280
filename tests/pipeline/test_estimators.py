"""scikit-learn's verbs, tried by scikit-learn's own checks and tools."""

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import glassformer as gf

WORDS = {"good": 1, "bad": 0, "great": 1, "awful": 0}
X = [f"the {noun} was {word}" for noun in ("soup", "film", "room", "tea", "walk") for word in WORDS] * 3
Y = [label for _ in range(5) for label in WORDS.values()] * 3


def small() -> gf.Classifier:
    return gf.Classifier("bag", epochs=20, settings={"tokenizer.kind": "word"})


@pytest.fixture(scope="module")
def fitted() -> gf.Classifier:
    return small().fit(X, Y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([gf.Classifier("linear", epochs=20, lr=0.05), gf.Regressor("linear", epochs=20, lr=0.05)])
def test_what_scikit_learn_expects(estimator: Any, check: Any) -> None:
    check(estimator)


def test_texts_are_told_apart(fitted: gf.Classifier) -> None:
    assert fitted.score(X, Y) == 1
    assert fitted.predict(np.array(X[:4])).tolist() == Y[:4]
    chances = fitted.predict_proba(pd.Series(X))
    assert chances.shape == (len(X), 2)
    assert chances.sum(1) == pytest.approx(1)
    assert fitted.classes_.tolist() == [0, 1]
    alone = fitted.loaded_.predict(X[0])
    assert chances[0].tolist() == [alone.probabilities["0"], alone.probabilities["1"]]
    assert gf.look(fitted.loaded_, X[0]).panels


def test_labels_keep_their_kind() -> None:
    for labels in (["no", "yes"], [False, True], [3, 7]):
        y = [labels[one] for one in Y]
        assert small().fit(X, y).predict(X[:4]).tolist() == y[:4]


def test_missing_values_are_refused_in_one_line() -> None:
    names = [["no", "yes"][one] for one in Y]
    for missing in (float("nan"), None, pd.NA):
        holed = [*names[:-3], *[missing] * 3]
        for y in (holed, pd.Series(holed), np.array(holed, dtype=object)):
            with pytest.raises(ValueError, match=r"^y holds 3 missing labels: leave these rows away$"):
                small().fit(X, y)
        for texts in ([*X[:-1], missing], pd.Series([*X[:-1], missing])):
            with pytest.raises(ValueError, match=r"^X holds 1 missing text: leave these rows away$"):
                small().fit(texts, names)
    with pytest.raises(ValueError, match=r"^y holds 1 missing label"):
        gf.Regressor("bag").fit(X, [*Y[:-1], None])


def test_a_pickle_holds_the_model(fitted: gf.Classifier, tmp_path: Path) -> None:
    chances = fitted.predict_proba(X)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(X) == chances).all()
    joblib.dump(fitted, tmp_path / "model.joblib")
    assert (joblib.load(tmp_path / "model.joblib").predict_proba(X) == chances).all()
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)


@pytest.mark.slow
def test_in_a_pipeline_and_a_search() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    whole = Pipeline([("lower", lower), ("model", small())])
    assert whole.fit([text.upper() for text in X], Y).score(X, Y) == 1
    assert cross_val_score(small(), X, Y, cv=2, n_jobs=2).tolist() == [1, 1]
    search = GridSearchCV(small(), {"epochs": [1, 20], "model": ["bag"]}, cv=2).fit(X, Y)
    assert search.best_score_ == 1


def test_rows_of_several_kinds() -> None:
    frame = pd.DataFrame({"number": np.arange(60.0) % 7, "kind": ["a", "b"] * 30})
    wanted = 2 * frame.number + (frame.kind == "a")
    model = gf.Regressor("linear", epochs=60, lr=0.05).fit(frame, wanted)
    assert model.score(frame, wanted) > 0.9
    assert model.feature_names_in_.tolist() == ["number", "kind"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"kind": "sort"}))


def test_every_column_of_x_is_read() -> None:
    """Also beside a text, also an id, and a second text."""
    chance = np.random.default_rng(0)
    frame = pd.DataFrame({"text": chance.choice(X, 80), "num": chance.normal(size=80), "user_id": np.arange(80) % 9})
    model = gf.Classifier("average", epochs=8, lr=0.05, size="tiny")
    wanted = (frame.num > 0).astype(int)
    assert model.fit(frame, wanted).score(frame, wanted) > 0.9
    assert set(model.loaded_.schema.columns) == {"num", "user_id"}
    assert model.loaded_.config.data.extra_columns == "num,user_id"
    missing = frame.assign(text=[None, *frame.text[1:]])
    assert model.predict(missing).shape == (80,)
    with pytest.warns(UserWarning, match=r"numbers outside the range of training: num \(80\)"):
        model.predict(frame.assign(num=1e6))
    with pytest.raises(
        gf.GlassformerError, match=r"row 0 \(counted from 0\), column 'num': text where a number is wanted: 'many'"
    ):
        model.predict(frame.assign(num=["many", *map(str, frame.num[1:])]))
    twice = pd.DataFrame({"text": X, "answer": [f"{text} {place}" for place, text in enumerate(X)]})
    assert gf.Classifier("bag", steps=2).fit(twice, Y).loaded_.schema.text == "text,answer"
    with pytest.raises(gf.GlassformerError, match="means all columns: rename the one"):
        model.fit(frame.rename(columns={"num": "all"}), wanted)


def test_a_run_can_be_left(tmp_path: Path) -> None:
    small().set_params(out=tmp_path / "run").fit(X, Y)
    assert gf.load(tmp_path / "run").predict(X[0]).label == "1"
    assert (tmp_path / "run" / "README.md").exists()
