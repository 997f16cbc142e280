"""What a training is given and what it came to: the keys of its dictionary are what scripts read, and stay."""

import warnings
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.pipeline.request import Trained
from helpers.tables import write_table


def test_the_keys_of_the_dictionary() -> None:
    trained = Trained(
        run="here", task="classification", model="bag", parameters=7, learned=5, steps=3, seconds=1.5,
        reason="finished", validation={"accuracy": 0.5}, summary="accuracy 0.5", best={},
    )  # fmt: skip
    assert list(trained.to_dict().items()) == [
        ("run", "here"), ("task", "classification"), ("model", "bag"), ("parameters", 7), ("learned", 5), ("steps", 3),
        ("seconds", 1.5), ("reason", "finished"), ("validation", {"accuracy": 0.5}), ("summary", "accuracy 0.5"),
        ("best", {}),
    ]  # fmt: skip


def test_rows_that_are_skipped_are_told_in_a_program(tmp_path: Path) -> None:
    rows = [(f"a {word} soup {number}", label) for number in range(8) for word, label in (("good", "p"), ("bad", "n"))]
    settings = {"model": "bag", "steps": 1, "draft": True, "out": tmp_path / "run", "overwrite": True}
    with pytest.warns(UserWarning, match=r"^skipped: 2 rows without a label, lines 17, 18$") as caught:
        trained = gf.train([*rows, ("no word of it", ""), ("and none here", "")], bad_rows="skip", **settings)
    assert [warning.filename for warning in caught] == [__file__]
    assert trained.remarks[0].startswith("columns: text column")
    said = next(remark for remark in trained.remarks if remark.startswith("skipped"))
    assert said in repr(trained)
    assert said in trained._repr_html_()
    assert "remarks" not in trained.to_dict()
    assert trained.to_dict()["skipped"] == gf.load(trained).run.card()["data"]["skipped"] == {"without a label": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gf.train(rows, **settings).to_dict()["skipped"] == {}


def test_skipped_rows_of_all_files_are_counted(tmp_path: Path) -> None:
    rows = [(f"a {word} soup {number}", label) for number in range(20) for word, label in (("good", "p"), ("bad", "n"))]
    data = write_table(tmp_path / "a.csv", [*rows, ("no label", ""), ("", "p")], ("text", "label"))
    test = write_table(tmp_path / "b.csv", [*rows[:20], ("no label", "")], ("text", "label"))
    settings = {"model": "bag", "steps": 1, "draft": True, "out": tmp_path / "run", "test": str(test)}
    with pytest.warns(UserWarning, match="skipped"):
        trained = gf.train(str(data), **settings)
    assert trained.skipped == {"without a text": 1, "without a label": 2}


def test_pairs_that_are_too_long_are_counted(tmp_path: Path) -> None:
    pairs = [(text, text[::-1]) for text in ("abc", "fed", "bca", "dab", "cafe", "deaf", "face", "bead")]
    with pytest.warns(UserWarning, match="skipped: 1 row without a source"):
        trained = gf.train(
            [*pairs, ("abc" * 30, "cba" * 30), ("a", "")], task="translation", model="gru", size="nano", steps=1,
            draft=True, out=tmp_path / "run", bad_rows="skip",
            **{"model.context": 16, "tokenizer.kind": "char", "data.validation_fraction": 0},
        )  # fmt: skip
    assert trained.skipped == {"without a source or target": 1, "longer than the context": 1}
