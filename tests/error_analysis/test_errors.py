"""Where real runs are wrong: every kind, against their own evaluation; and two runs on the same examples."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer as gf
from glassformer.config.errors import DataError, Misuse, RunError
from glassformer.data.packing.store import Tokens
from glassformer.data.split.labelled import Labelled
from glassformer.error_analysis.analysis import brief_errors, compare_errors, error_findings
from glassformer.error_analysis.comparison import RunPair, match_records
from glassformer.error_analysis.finding import ErrorRequest, ReportedPart
from glassformer.families.base import EvaluatedPart, Family
from glassformer.families.evaluate import evaluate_run
from glassformer.families.language import LanguageFamily
from glassformer.families.load import load
from glassformer.families.requests import EvaluateOptions
from glassformer.rendering.panels import Gallery, Lines, Points, Table
from glassformer.rendering.view import View
from glassformer.reporting.report import report
from glassformer.tasks.base import Evaluation
from glassformer.verbs.evaluate import errors, evaluate
from glassformer.verbs.train import train
from helpers.kinds import rows_of, write_bars, write_rows
from helpers.running import labelled, tiny
from helpers.tables import amounts, opinions, write_table
from helpers.translating import mirrored, translating

QUICK = {"training.steps": 4, "training.batch_size": 8, "data.validation_fraction": 0.4}

Make = Callable[[Path, Path], object]
MAKERS: dict[str, Make] = {
    "texts": lambda folder, out: train(
        write_table(folder / "a.csv", opinions(120, classes=3)),
        out=out,
        draft=True,
        **labelled("average", training__steps=4, data__test_fraction=0.3, data__validation_fraction=0.3),
    ),
    "words": lambda folder, out: train(
        write_table(folder / "a.csv", opinions(120, classes=3)),
        out=out,
        draft=True,
        model="bag",
        **{**QUICK, "training.lr": 0.01, "data.test_fraction": 0.3, "data.validation_fraction": 0.3},
    ),
    "validated": lambda folder, out: train(
        write_table(folder / "a.csv", opinions(120)), out=out, draft=True, model="bag", **QUICK
    ),
    "images": lambda folder, out: train(write_bars(folder / "bars", 60), out=out, draft=True, model="linear", **QUICK),
    "tables": lambda folder, out: train(
        write_rows(folder / "a.csv", rows_of(120)), out=out, draft=True, model="linear", **QUICK
    ),
    "columns": lambda folder, out: train(
        write_rows(folder / "a.csv", rows_of(120)), out=out, draft=True, model="linear", extra_columns="city", **QUICK
    ),
    "numbers": lambda folder, out: train(
        write_table(folder / "a.csv", amounts(60), ("text", "rating")), out=out, draft=True, model="average", **QUICK
    ),
    "bagged": lambda folder, out: train(
        write_table(folder / "a.csv", amounts(60), ("text", "rating")), out=out, draft=True, model="bag", **QUICK
    ),
    "letters": lambda folder, out: train(
        "reverse:rows=200", out=out, draft=True, **tiny("lstm", training__steps=4, model__context=32)
    ),
    "gru-letters": lambda folder, out: train(
        "reverse:rows=200", out=out, draft=True, **tiny("gru", training__steps=9, model__context=16)
    ),
    "pieces": lambda folder, out: train(
        "reverse:rows=200",
        out=out,
        draft=True,
        **{**tiny("gru", training__steps=4), "tokenizer.kind": "bpe", "tokenizer.vocab_size": 280},
    ),
    "pairs": lambda folder, out: train(
        write_table(folder / "a.csv", mirrored(90), ("source", "target")), out=out, draft=True, **translating("gru")
    ),
    "short-pairs": lambda folder, out: train(
        write_table(folder / "a.csv", mirrored(90), ("source", "target")),
        out=out,
        draft=True,
        **translating("lstm", model__context=6),
    ),
}
SAME_DATA = {"words": "texts", "columns": "tables", "bagged": "numbers", "short-pairs": "pairs"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of each kind, trained when it is first asked for; some on the data of others."""
    folders: dict[str, Path] = {}
    runs: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in runs:
            home = SAME_DATA.get(name, name)
            folders.setdefault(home, tmp_path_factory.mktemp(home))
            runs[name] = folders[home] / name
            MAKERS[name](folders[home], runs[name])
        return runs[name]

    return make


def panel(view: View, title: str) -> Any:
    return next(one for one in view.panels if one.title == title)


def titles(view: View) -> list[str]:
    return [one.title for one in view.panels]


# --- one run ---


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["texts", "validated", "images", "tables", "numbers", "letters", "pieces", "pairs"])
def test_every_kind_of_run_has_a_page_and_says_something(
    made: Callable[[str], Path], name: str, tmp_path: Path
) -> None:
    view = errors(made(name), device="cpu")
    assert view.note.endswith(".")
    assert any(sign.isdigit() for sign in view.note)
    view.save(tmp_path / "errors.html")
    view.save(tmp_path / "errors.json")
    assert view.title == f"Errors of {name}"
    assert evaluate(made(name), device="cpu").summary in view.about


def test_the_errors_are_those_of_the_evaluation(made: Callable[[str], Path]) -> None:
    records = evaluate(made("texts")).records
    wrong = [one for one in records if one["predicted"] != one["label"]]
    assert 0 < len(wrong) < len(records)
    view = gf.errors(made("texts"))
    assert view.note.startswith(f"{len(wrong)} of {len(records)} texts are wrong:")
    confused = panel(view, "The most frequent confusions")
    assert sum(row[2] for row in confused.rows) == len(wrong)
    assert sum(row[1] for row in panel(view, "Errors by length").rows) == len(records)
    rare = {row[0]: row for row in panel(view, "Rare and unknown words in errors").rows}
    assert rare["a word never seen in training"][1] == len(records)  # each text has a number of its own
    assert rare["a token unknown to the tokenizer"][1] == len(records)


def test_the_temperature_is_fitted_on_validation_and_shown_on_test(made: Callable[[str], Path]) -> None:
    view = errors(made("texts"))
    validation, test = (evaluate(made("texts"), part=part) for part in ("validation", "test"))
    table = panel(view, "As sure as it is right?")
    assert f"fitted on the validation part ({len(validation.records)} texts)" in table.note
    before, after = table.rows
    assert before[2] == pytest.approx(test.metrics["loss"], rel=1e-5)
    assert before[5] == pytest.approx(test.metrics["accuracy"])
    logits, names = validation.arrays["scores"], load(made("texts")).run.card()["labels"]
    answers = np.array([names.index(one["label"]) for one in validation.records])

    def loss(temperature: float) -> float:
        cooled = logits.astype(float) / temperature
        return float((np.log(np.exp(cooled).sum(1)) - cooled[np.arange(len(answers)), answers]).mean())

    assert loss(after[1]) <= min(loss(after[1] * 1.05), loss(after[1] / 1.05))
    curve = panel(view, "Answering only when sure")
    assert isinstance(curve, Lines)
    assert curve.series[1].y[-1] == pytest.approx(test.metrics["accuracy"])


def test_of_validation_itself_one_half_is_fitted_on_and_the_other_shown(made: Callable[[str], Path]) -> None:
    table = panel(errors(made("validated")), "As sure as it is right?")
    count = len(evaluate(made("validated")).records)
    assert f"fitted on half of the validation part ({count // 2} texts; the other half is shown)" in table.note


def test_where_the_data_is_gone_nothing_is_fitted(made: Callable[[str], Path], tmp_path: Path) -> None:
    other = write_table(tmp_path / "other.csv", opinions(30, seed=5))
    home = made("validated").parent / "a.csv"
    away = home.rename(home.with_name("away.csv"))
    said: list[str] = []
    try:
        view = errors(made("validated"), str(other), say=said.append)
    finally:
        away.rename(home)
    assert (
        "No temperature was fitted: the data this run was trained on is not there"
        in panel(view, "As sure as it is right?").note
    )
    assert [row[0] for row in panel(view, "Rare and unknown words in errors").rows] == [
        "a token unknown to the tokenizer"
    ]
    assert any("cannot be told" in line for line in said)


def test_what_is_shown_is_never_fitted_on(made: Callable[[str], Path], tmp_path: Path) -> None:
    """Where the data that is given holds examples of the validation part, these are left out of it."""
    records = evaluate(made("texts"), part="validation").records
    rows = [(one["text"], one["label"]) for one in records]
    whole = write_table(tmp_path / "validation.csv", rows)
    table = panel(errors(made("texts"), str(whole)), "As sure as it is right?")
    assert "No temperature was fitted: all of the validation part is shown here." in table.note
    some = write_table(tmp_path / "some.csv", rows[: len(rows) - 25])
    table = panel(errors(made("texts"), str(some)), "As sure as it is right?")
    assert "on the validation part (25 texts)" in table.note


def test_a_single_example_and_no_error_at_all(made: Callable[[str], Path], tmp_path: Path) -> None:
    run = made("texts")
    for record in (one for one in evaluate(run).records if one["predicted"] == one["label"]):
        alone = write_table(tmp_path / "one.csv", [(record["text"], record["label"])])
        view = errors(run, str(alone))
        assert view.note.startswith("None of the 1 text is wrong.")
        assert "The most frequent confusions" not in titles(view)
        assert len(panel(view, "As sure as it is right?").rows) == 2  # validation is there to be fitted on
        break
    names = ["bad", "good", "so-so"]
    wrong = [(one["text"], names[names.index(one["predicted"]) - 1]) for one in evaluate(run).records]
    view = errors(run, str(write_table(tmp_path / "wrong.csv", wrong)))
    assert view.note.startswith(f"All of the {len(wrong)} texts are wrong.")


def test_columns_of_a_table(made: Callable[[str], Path]) -> None:
    table = panel(errors(made("tables")), "Errors by column")
    count = len(evaluate(made("tables")).records)
    by_column: dict[str, int] = {}
    for row in table.rows:
        by_column[row[0]] = by_column.get(row[0], 0) + row[2]
    assert by_column == {"height": count, "weight": count, "city": count}
    assert {row[1] for row in table.rows if row[0] == "city"} == {"Rome", "Oslo", "Lima"}
    assert "Words over-represented among errors" not in titles(errors(made("tables")))


def test_images_are_shown(made: Callable[[str], Path]) -> None:
    view = errors(made("images"))
    gallery = panel(view, "Most confidently wrong, as pictures")
    assert isinstance(gallery, Gallery)
    assert "Errors by length" not in titles(view)


def test_numbers(made: Callable[[str], Path]) -> None:
    evaluation = evaluate(made("numbers"))
    view = errors(made("numbers"))
    bias, size = panel(view, "How far off").rows
    assert bias[1] == pytest.approx(np.mean([one["error"] for one in evaluation.records]))
    assert size[1] == pytest.approx(evaluation.metrics["mae"])
    points = panel(view, "Predicted, and how far off")
    assert isinstance(points, Points)
    assert len(points.points) == len(evaluation.records)


def test_the_loss_of_tokens_sums_up(made: Callable[[str], Path]) -> None:
    for name, stride in (("letters", None), ("pieces", None), ("letters", 5)):
        evaluation = evaluate(made(name), stride=stride)
        arrays = evaluation.arrays
        assert len(arrays["loss"]) == evaluation.metrics["tokens"]
        assert arrays["loss"].mean() == pytest.approx(evaluation.metrics["loss"], rel=1e-4)
        known = evaluate_run(made(name), EvaluateOptions()).inputs
        assert isinstance(known, Tokens)
        start = load(made(name)).tokenizer.start  # type: ignore[union-attr]
        assert sorted(arrays["place"].tolist()) == [one for one in range(1, len(known)) if known.ids[one] != start]
        assert arrays["before"].min() == 1
        assert arrays["before"].max() == load(made(name)).config.model.context
    view = errors(made("letters"))
    kinds = panel(view, "Loss by kind of token")
    assert sum(row[3] for row in kinds.rows) == pytest.approx(1)
    assert sum(row[1] for row in kinds.rows) == len(evaluate(made("letters")).arrays["loss"])
    assert "Worst documents" in titles(view)


def test_of_very_many_tokens_some_windows_are_kept(
    made: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate(made("letters"))
    monkeypatch.setattr("glassformer.tasks.language_model.MAX_TOKEN_LOSSES", 100)
    some = evaluate(made("letters"))
    assert some.metrics == whole.metrics
    assert 32 <= len(some.arrays["loss"]) <= 132
    known = dict(zip(whole.arrays["place"].tolist(), whole.arrays["loss"].tolist(), strict=True))
    assert [known[place] for place in some.arrays["place"].tolist()] == some.arrays["loss"].tolist()
    assert np.ptp(some.arrays["place"]) > len(known) / 2  # spread over the text
    errors(made("letters"))


def test_translations(made: Callable[[str], Path]) -> None:
    view = errors(made("pairs"), beam=1)
    count = len(evaluate(made("pairs"), beam=1).records)
    assert sum(row[1] for row in panel(view, "chrF by length of the source").rows) == count
    assert "Odd outputs" in titles(view)


# --- two runs ---


def test_two_classifiers_side_by_side(made: Callable[[str], Path]) -> None:
    mine, theirs = (
        [one["predicted"] == one["label"] for one in evaluate(made(name)).records] for name in ("texts", "words")
    )
    said: list[str] = []
    view = errors(made("texts"), second_run=made("words"), say=said.append)
    table = panel(view, "texts and words, side by side")
    assert isinstance(table, Table)
    pairs = list(zip(mine, theirs, strict=True))
    counts = [[pairs.count((a, b)) for b in (True, False)] for a in (True, False)]
    assert [row[1:3] for row in table.rows[:2]] == counts
    assert "McNemar" in view.note
    assert not [line for line in said if "warning" in line]
    assert evaluate(made("words")).summary in view.about


def test_rows_of_two_files_that_stand_on_one_line(made: Callable[[str], Path]) -> None:
    one = evaluate_run(made("texts"), EvaluateOptions())
    assert isinstance(one.part, Labelled)
    twice = replace(one, part=replace(one.part, lines=[3] * len(one.part)))
    first, second = match_records(RunPair(twice, twice, ("one", "two")), lambda side: side.part.lines)
    assert first == second == one.evaluation.records


def test_a_run_versus_itself(made: Callable[[str], Path]) -> None:
    view = errors(made("texts"), second_run=load(made("texts")))
    assert view.note.endswith("0 only the first gets, 0 only the second (McNemar's exact test: p = 1).")


@pytest.mark.filterwarnings("ignore:.* not read.*:UserWarning")
def test_runs_that_read_other_columns(made: Callable[[str], Path]) -> None:
    """The same rows, read again; each run then says of them what it says alone."""
    view = errors(made("tables"), second_run=made("columns"))
    table = panel(view, "tables and columns, side by side")
    lines = evaluate_run(made("tables"), EvaluateOptions()).part.lines  # type: ignore[union-attr]
    mine = [one["predicted"] == one["label"] for one in evaluate(made("tables")).records]
    everything = evaluate(made("columns"), str(made("tables").parent / "a.csv")).records
    theirs = [one["predicted"] == one["label"] for one in (everything[line - 2] for line in lines)]
    assert [table.rows[0][3], table.rows[2][1], table.rows[2][3]] == [sum(mine), sum(theirs), len(mine)]
    assert table.rows[0][1] == sum(a and b for a, b in zip(mine, theirs, strict=True))
    assert mine != theirs


def test_two_regressors(made: Callable[[str], Path]) -> None:
    view = errors(made("numbers"), second_run=made("bagged"))
    rows = panel(view, "numbers and bagged, side by side").rows
    assert [row[1] for row in rows[:2]] == pytest.approx(
        [evaluate(made(name)).metrics["mae"] for name in ("numbers", "bagged")]
    )
    assert rows[2][1] == pytest.approx(rows[0][1] - rows[1][1])


def test_pairs_that_only_one_can_read_are_left_out(made: Callable[[str], Path]) -> None:
    said: list[str] = []
    view = errors(made("pairs"), second_run=made("short-pairs"), beam=1, say=said.append)
    both = {one["source"] for one in evaluate(made("short-pairs"), beam=1).records}
    whole = {one["source"] for one in evaluate(made("pairs"), beam=1).records}
    assert both < whole
    assert f"left out, for short-pairs does not read them: {len(whole - both)} example" in [
        one.rstrip("s") for one in said
    ]
    assert f"{len(both)} pairs" in panel(view, "pairs and short-pairs, side by side").note


def test_language_models_of_the_same_tokens_and_of_others(made: Callable[[str], Path]) -> None:
    view = errors(made("letters"), second_run=made("gru-letters"))
    rows = panel(view, "letters and gru-letters, side by side").rows
    losses = [evaluate(made(name)).metrics["loss"] for name in ("letters", "gru-letters")]
    assert [row[1] for row in rows[:2]] == pytest.approx(losses, rel=1e-4)
    with pytest.raises(DataError, match=r"different tokenizers.* glassformer compare --runs .*letters,.*pieces"):
        errors(made("letters"), second_run=made("pieces"))


def test_a_run_that_learned_from_these_examples_is_warned_of(made: Callable[[str], Path]) -> None:
    said: list[str] = []
    home = made("texts").parent
    train(home / "a.csv", out=home / "split", draft=True, model="bag", **{**QUICK, "data.split_seed": 7})
    errors(made("texts"), second_run=home / "split", say=said.append)
    (warning,) = [line for line in said if line.startswith("warning:")]
    train_texts = {one["text"] for one in evaluate(home / "split", part="train").records}
    shown = [one["text"] for one in evaluate(made("texts")).records]
    seen = sum(text in train_texts for text in shown)
    assert f"learned from {seen} of these {len(shown)} examples" in warning
    assert seen > 0


def test_bad_input(made: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"learned regression, and .* classification: only runs of one task"):
        errors(made("texts"), second_run=made("numbers"))
    with pytest.raises((Misuse, RunError), match="no run at"):
        errors(made("texts"), second_run=tmp_path / "none")
    with pytest.raises(Misuse, match=r"--accuracy 1\.5 is the share of answers"):
        errors(made("texts"), accuracy=1.5)
    with pytest.raises(Misuse, match=r"--accuracy is for --errors of one classifier .* learned regression"):
        errors(made("numbers"), accuracy=0.9)
    with pytest.raises(DataError, match="it does not know the class 'so-so'"):
        errors(made("texts"), second_run=made("validated"))
    long = write_table(
        tmp_path / "long.csv", [("abcdefabcdefabc", "x"), ("fedcbafedcbafed", "y")], ("source", "target")
    )
    with pytest.raises(DataError, match=r"no pair|no example in common|holds no pair"):
        errors(made("pairs"), str(long), second_run=made("short-pairs"), reading={"bad_rows": "skip"})


def test_several_labels(tmp_path: Path) -> None:
    words = {"food": "soup", "staff": "waiter", "price": "bill"}
    sets = [[name for place, name in enumerate(words) if number >> place & 1] for number in range(1, 8)] * 12
    rows = [(f"{' '.join(words[name] for name in one)} {number % 5}", ";".join(one)) for number, one in enumerate(sets)]
    table = write_table(tmp_path / "a.csv", rows, ("text", "labels"))
    settings = {**QUICK, "data.label": "labels"}
    for name in ("bag", "average"):
        train(table, out=tmp_path / name, draft=True, model=name, task="multilabel", **settings)
    view = errors(tmp_path / "bag")
    records = evaluate(tmp_path / "bag").records
    assert "Least expected labels" in titles(view)
    both = errors(tmp_path / "bag", second_run=tmp_path / "average")
    right = sum(one["predicted"] == one["labels"] for one in records)
    assert panel(both, "bag and average, side by side").rows[0][3] == right


# --- families ---


class Things(Family):
    """A family of which no more is known here than its records."""

    task, noun, primary, lower_is_better = "things", "thing", "misses", True


Things.__abstractmethods__ = frozenset()


class Chats(LanguageFamily):
    task = "chats"


def evaluated(*records: dict[str, Any]) -> EvaluatedPart:
    return EvaluatedPart(None, None, None, Evaluation({}, "loss", lower_is_better=True, records=list(records)))  # type: ignore[arg-type]


def test_a_family_of_ones_own_has_its_worst_records() -> None:
    one, other, third = {"name": "a", "loss": 0.5}, {"name": "b", "loss": 2.5}, {"name": "c", "loss": 0.0, "more": []}
    request = ErrorRequest(evaluated(one, other, third), None, "", 0.95)
    (found,) = error_findings(Things(), request)
    (table,) = found.panels
    assert isinstance(table, Table)
    assert table.rows == [["b", 2.5], ["a", 0.5], ["c", 0.0]]
    assert found.sentence == "3 things: loss 1 on average, 2.5 at worst."
    brief = brief_errors(Things(), ReportedPart(None, None, "test", {"test": request.evaluated.evaluation}))  # type: ignore[arg-type]
    assert [panel.title for panel in brief] == ["Worst by loss"]
    misses = evaluated({"misses": 1}, {"misses": 3})
    (found,) = error_findings(Things(), replace(request, evaluated=misses))
    assert found.sentence == "2 things: misses 2 on average, 3 at worst."
    for nothing in (evaluated(), evaluated({"name": "a"})):
        assert error_findings(Things(), replace(request, evaluated=nothing)) == []
    pair = RunPair(request.evaluated, evaluated(other, other, other), ("one", "two"))
    assert compare_errors(Things(), pair)[0].sentence.startswith("Mean loss 1 against 2.5")


def test_a_family_made_of_one_of_ours_has_what_that_has() -> None:
    for function in (error_findings, brief_errors, compare_errors):
        assert function.dispatch(Chats) is function.dispatch(LanguageFamily) is not function.dispatch(Family)


# --- in the report ---


def test_a_report_has_the_short_of_it(made: Callable[[str], Path]) -> None:
    assert {"Most confidently wrong", "Errors by length", "As sure as it is right?"} <= set(
        titles(report(made("texts")))
    )
    letters = titles(report(made("letters")))
    assert {"Loss by place in the window", "Tokens that hold the loss"} <= set(letters)
    assert "Worst documents" not in letters
