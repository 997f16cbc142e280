"""Cross-validation: every row is judged by a model that did not see it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, r2_score
from torch import nn

from glassformer.cli.main import main
from glassformer.config.errors import Misuse, SettingError
from glassformer.runs.run import Run
from glassformer.statistics.intervals import mean_interval
from glassformer.training.events import Event, Noted, Stepped
from glassformer.trials.cross_validation import CrossValidated, Fold, cross_validate
from glassformer.trials.results.metrics import within
from glassformer.verbs.evaluate import evaluate
from helpers.running import Command, StopAfter, flags, labelled, one_line, tiny
from helpers.tables import opinions, write_table
from helpers.tagged import write_cells

SETTINGS = labelled("bag", training__steps=20, training__lr=0.2)


@pytest.fixture
def texts(tmp_path: Path) -> str:
    return str(write_table(tmp_path / "texts.csv", opinions(61)))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


def records_of(found: CrossValidated) -> list[dict[str, Any]]:
    files = [Path(found.out) / fold.run / "held-out.jsonl" for fold in found.folds]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_each_row_is_judged_once_and_the_scores_are_those(texts: str, tmp_path: Path) -> None:
    found = cross_validate(texts, folds=3, out=tmp_path / "cv", **{**SETTINGS, "training.steps": 3})
    records = records_of(found)
    assert sorted(record["text"] for record in records) == sorted(text for text, _ in opinions(61))
    true, said = ([record[key] for record in records] for key in ("label", "predicted"))
    assert found.pooled["accuracy"] == pytest.approx(accuracy_score(true, said))
    assert found.pooled["macro_f1"] == pytest.approx(f1_score(true, said, average="macro"))
    assert found.pooled["examples"] == 61
    values = [evaluate(tmp_path / "cv" / fold.run, part="validation").metrics["accuracy"] for fold in found.folds]
    assert [fold.metrics["accuracy"] for fold in found.folds] == values
    assert found.mean == pytest.approx(np.mean(values))
    assert len(set(values)) > 1
    low, high = np.clip(stats.t.interval(0.95, 2, np.mean(values), stats.sem(values)), 0, 1)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    written = json.loads((tmp_path / "cv" / "folds.json").read_text())
    assert written["pooled"] == found.pooled
    assert written["status"] == "finished"
    assert "share most of their training rows" in written["note"]
    assert not (tmp_path / "cv" / "fold-1" / "report.html").exists()


def test_texts_with_line_ends_of_their_own(tmp_path: Path) -> None:
    """U+2028 ends a line for Python, and not for JSON."""
    rows = [(f"{text} \u2028 and \x85 more", label) for text, label in opinions(30)]
    table = write_table(tmp_path / "odd.csv", rows)
    found = cross_validate(str(table), folds=2, out=tmp_path / "cv", **{**SETTINGS, "training.steps": 2})
    assert found.pooled["examples"] == 30


def test_weights_that_the_fold_chose_are_said(texts: str, tmp_path: Path) -> None:
    how = {**SETTINGS, "training.steps": 2}
    best = cross_validate(texts, folds=2, out=tmp_path / "best", **how)
    assert "over 2 folds; all rows" in best.words
    assert "scores are a little too good" in best.to_dict()["note"]
    last = cross_validate(texts, folds=2, out=tmp_path / "last", **{**how, "training.keep": "last"})
    assert "over 2 folds; all rows" in last.words
    assert "too good" not in last.to_dict()["note"]


def test_stopped_before_the_first_fold_was_done(texts: str, tmp_path: Path) -> None:
    found = cross_validate(texts, folds=2, out=tmp_path / "cv", listen=StopAfter(2), **SETTINGS)
    assert (found.reason, found.folds) == ("interrupted", [])
    assert found.words == "no fold was trained to its end"
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["mean"] is None


def test_flags_win_over_a_file(texts: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("training: {epochs: 3, lr: 0.2}\nmodel: {encoder: bag}\n")
    found = cross_validate(texts, folds=2, out=tmp_path / "cv", config=tmp_path / "recipe.yaml", steps=2)
    assert [fold.total for fold in found.folds] == [2, 2]


@pytest.mark.slow
def test_what_is_done_is_not_done_again(texts: str, tmp_path: Path) -> None:
    whole = cross_validate(texts, folds=3, out=tmp_path / "whole", **SETTINGS)
    stop = StopAfter(9)
    trained_before: list[int] = []

    class SecondFold(StopAfter):
        def __call__(self, event: Event) -> None:
            if isinstance(event, Noted) and event.text.startswith("fold 2"):
                trained_before.append(1)
            if trained_before or not isinstance(event, Stepped):
                super().__call__(event)

    first = cross_validate(texts, folds=3, out=tmp_path / "cv", listen=SecondFold(stop.step), **SETTINGS)
    assert first.reason == "interrupted"
    assert [fold.fold for fold in first.folds] == [1]
    stamp = (tmp_path / "cv" / "fold-1" / "model.safetensors").stat().st_mtime_ns
    events: list[Event] = []
    second = cross_validate(out=tmp_path / "cv", resume=True, listen=events.append)
    assert second.pooled == whole.pooled
    assert (tmp_path / "cv" / "fold-1" / "model.safetensors").stat().st_mtime_ns == stamp
    assert sum(isinstance(event, Stepped) for event in events) == 11 + 20
    events.clear()
    again = cross_validate(texts, folds=3, out=tmp_path / "cv", listen=events.append, **SETTINGS)
    assert again.to_dict() == {**second.to_dict()}
    assert not any(isinstance(event, Stepped) for event in events)
    with pytest.raises(Misuse, match=r"holds folds with another training\.lr: replace them with --overwrite"):
        cross_validate(texts, folds=3, out=tmp_path / "cv", **{**SETTINGS, "training.lr": 0.1})


@pytest.mark.slow
def test_a_refit_takes_the_mean_of_the_best_steps(texts: str, tmp_path: Path) -> None:
    found = cross_validate(texts, folds=3, out=tmp_path / "cv", refit=True, **SETTINGS)
    assert found.refit is not None
    steps = round(sum(fold.steps for fold in found.folds) / 3)
    card = Run.open(tmp_path / "cv").card()
    assert card["steps"] == found.refit.steps == steps
    assert card["config"]["training"]["schedule_steps"] == 20
    assert card["before_refit"]["runs"] == ["fold-1", "fold-2", "fold-3"]
    assert card["before_refit"]["pooled"] == found.pooled
    assert "validation" not in card
    assert "61 rows" in card["data"]["report"]
    readme = (tmp_path / "cv" / "README.md").read_text()
    assert f"before the refit, on rows held out | accuracy {found.mean:.4f}" in readme
    with pytest.raises(Misuse, match="is refitted already"):
        cross_validate(texts, folds=3, out=tmp_path / "cv", refit=True, **SETTINGS)


@pytest.mark.parametrize("data", ["numbers", "labels", "reverse-pairs:rows=40", "reverse:rows=60"])
def test_other_tasks(data: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"training.steps": 3}
    path = data
    if data == "numbers":
        lines = [f"{number % 7 + number / 100},{number * 2.5:.1f}" for number in range(40)]
        (tmp_path / "n.csv").write_text("\n".join(["size,price", *lines]))
        path, settings = str(tmp_path / "n.csv"), {**settings, "model.encoder": "linear", "task": "regression"}
    elif data == "labels":
        path, settings = str(write_cells(tmp_path / "m.csv", 60)), {**settings, **labelled("bag", training__lr=0.5)}
    else:
        settings |= {key: value for key, value in tiny("gru").items() if key != "training.batch_size"}
    settings["training.steps"] = 3
    found = cross_validate(path, folds=2, out=tmp_path / "cv", **settings)
    records = records_of(found)
    if data == "numbers":
        true, said = ([record[key] for record in records] for key in ("number", "predicted"))
        assert found.pooled["r2"] == pytest.approx(r2_score(true, said))
        assert (found.primary, len(records)) == ("rmse", 40)
    elif data == "labels":
        names = ["food", "money", "sport"]
        true, said = (
            [[name in record[key] for name in names] for record in records] for key in ("labels", "predicted")
        )
        assert found.pooled["micro_f1"] == pytest.approx(f1_score(true, said, average="micro", zero_division=0))
        assert len(records) == 60
    elif found.task == "translation":
        assert found.pooled["pairs"] == len(records) == 40
    else:
        sums = [sum(record[key] for record in records) for key in ("loss", "tokens")]
        assert found.pooled["loss"] == pytest.approx(sums[0] / sums[1])
        values = [fold.metrics["bits_per_byte"] for fold in found.folds]
        assert min(values) <= found.pooled["bits_per_byte"] <= max(values)


def test_a_model_of_ones_own_is_made_anew_for_each(texts: str, tmp_path: Path) -> None:
    made = []

    class Own(nn.Module):
        def __init__(self, vocab: int, outputs: int) -> None:
            super().__init__()
            self.table = nn.EmbeddingBag(vocab, outputs)
            made.append(self)

        def forward(self, tokens: Any, mask: Any) -> Any:
            return self.table(tokens)

    found = cross_validate(texts, folds=2, out=tmp_path / "cv", model=Own, **{"training.steps": 2})
    assert len(made) == 2
    assert found.model == "own"
    with pytest.raises(SettingError, match="each fold needs new weights"):
        cross_validate(texts, folds=2, out=tmp_path / "other", model=made[0])


@pytest.mark.slow
def test_on_the_command_line(command: Command, texts: str, tmp_path: Path) -> None:
    words = ["train", texts, "--folds", "2", "--out", tmp_path / "cv", *flags(SETTINGS)]
    code, out, err = command(*words)
    assert code == 0
    assert "over 2 folds; all rows together: accuracy" in out
    assert "share most of their training rows" in err
    assert "each fold also chose the weights that it scores" in err
    assert [line for line in err.splitlines() if line.startswith("fold ")] == ["fold 1 of 2", "fold 2 of 2"]
    assert f"next: glassformer train --resume --refit --out {tmp_path / 'cv'}" in err
    code, out, err = command("train", "--resume", "--refit", "--json", "--out", tmp_path / "cv")
    assert code == 0
    assert json.loads(out)["refit"]["before_refit"]["runs"] == ["fold-1", "fold-2"]
    assert f"next: glassformer predict {tmp_path / 'cv'}" in err
    assert "done before" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--folds", "1"], "--folds is 1, but must be at least 2"),
        (["--folds", "99"], "too few for 99 folds (--folds)"),
        (["--folds", "3", "--data.fold", "1"], "--folds trains on every fold, --data.folds and --data.fold on one"),
        (["--folds", "3", "--validation", "v.csv"], "--folds divides the data itself: remove --validation v.csv"),
        (["--folds", "x"], "invalid int value: 'x'"),
        (["--folds", "3", "--data.validation_fraction", "0.2"], "does nothing while data.folds is 3"),
    ],
)
def test_what_cannot_be_is_one_line(command: Command, texts: str, tmp_path: Path, words: list[str], said: str) -> None:
    code, out, err = command("train", texts, *words, "--out", tmp_path / "cv", *flags(SETTINGS))
    assert (code, out) == (2, "")
    assert said in one_line(err)
    assert "fold 1 of" not in err
    assert not (tmp_path / "cv").exists()


def test_too_few_groups_are_counted(command: Command, tmp_path: Path) -> None:
    rows = [f"{text},{label},k{number % 4}" for number, (text, label) in enumerate(opinions(40))]
    (tmp_path / "g.csv").write_text("\n".join(["text,label,who", *rows]))
    code, _, err = command("train", tmp_path / "g.csv", "--folds", 5, "--data.split_by", "who", "--model", "bag")
    assert code == 2
    assert "has 4 groups in column 'who': too few for 5 folds" in one_line(err)


def test_what_is_said_ends_where_the_scale_does() -> None:
    folds = [Fold(number, f"fold-{number}", {"accuracy": value}, 1, 1) for number, value in ((1, 0.6), (2, 0.9))]
    found = CrossValidated(
        out="cv", task="classification", model="bag", primary="accuracy", folds=folds, mean=0.75,
        interval=within(mean_interval([0.6, 0.9]), "accuracy"), pooled={"accuracy": 0.75, "macro_f1": 0.7},
    )  # fmt: skip
    assert (
        found.words
        == "accuracy 0.7500 (95 %: 0.0000 to 1.0000) over 2 folds; all rows together: accuracy 0.7500, macro F1 0.7000"
    )
    assert repr(found).splitlines()[1] == "fold 1  0.6000  cv/fold-1"
    assert len(repr(found)) < 400


@pytest.mark.parametrize("folds", [0, 1, "x", 2.5])
def test_how_many_folds_from_python(folds: Any) -> None:
    with pytest.raises(Misuse, match="folds"):
        cross_validate("iris", folds=folds)


def test_one_text_has_no_folds(command: Command, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a single text " * 40)
    code, _, err = command("train", tmp_path / "one.txt", "--folds", "3", "--out", tmp_path / "cv")
    assert code == 2
    assert "is one text, which has no folds" in one_line(err)
