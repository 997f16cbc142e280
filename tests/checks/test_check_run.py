"""`check`: every kind of run passes, and whatever is broken on purpose is found by the check that is there for it."""

import contextlib
import dataclasses
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.checks import NAMES, command_line, comparisons
from glassformer.checks.result import CheckResult, Checks
from glassformer.checks.run import CHECKS, EXACT_ON_CPU, OTHER_TOLERANCES, ROUNDING_TOLERANCE
from glassformer.checks.subject import relative_difference
from glassformer.cli.main import main
from glassformer.config.errors import DataError, Misuse, RunError
from glassformer.models.modules import LanguageModel, Predictor, Seq2Seq
from glassformer.runs.run import Run
from glassformer.training.checkpointer import Snapshot
from helpers.bare_family import use_bare_family
from helpers.kinds import rows_of, write_bars, write_rows
from helpers.look_runs import RUNS, train_kind
from helpers.tagged import write_cells

Trained = Callable[[str], str]
WRITERS = {"writer", "pairs-of-bytes", "lstm-writer", "cnn-writer"}
TRANSLATORS = {"translator", "lstm-translator", "bottleneck"}
READERS = {"bag", "classifier", "gru-classifier"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def trained(folder: Path) -> Trained:
    """A run of a kind, trained once for the tests of this file, with nothing in it broken: ask before breaking."""
    return lambda name: str(folder / name) if (folder / name).exists() else train_kind(name, folder)[0]


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, without starting Python for each."""

    def said(subject: Any, words: list[str], stdin: str) -> list[Any]:
        words = [str(subject.loaded.run.path) if word == "RUN" else word for word in words]
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            assert main(words) == 0
        return [json.loads(line) for line in out.getvalue().splitlines()]

    monkeypatch.setattr(
        command_line,
        "_run_both",
        lambda subject, file, dash, stdin: (said(subject, file, ""), said(subject, dash, stdin)),
    )


def found(checks: Checks) -> dict[str, CheckResult]:
    by_words = {each.name: each for each in checks.checked}
    return {name: by_words[words] for name, words in NAMES.items() if words in by_words}


def failed(checks: Checks) -> set[str]:
    return {name for name, each in found(checks).items() if each.passed is False}


# --- what is right passes ---


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.usefixtures("in_this_process")
def test_every_kind_passes(kind: str, trained: Trained) -> None:
    checks = gf.check(trained(kind))
    assert checks.passed, checks.words
    rows = found(checks)
    idle = {name for name, row in rows.items() if row.passed is None}
    wanted = {"exported"} if kind in WRITERS | TRANSLATORS else {"exported", "cached"}
    assert idle == (wanted if kind in WRITERS | TRANSLATORS | READERS else wanted | {"padded", "stdin"})
    assert list(rows) == list(NAMES) == list(CHECKS)
    assert rows["exported"].words == "not exported"
    for name, row in rows.items():
        assert row.tolerance == (0 if name in EXACT_ON_CPU else OTHER_TOLERANCES.get(name, ROUNDING_TOLERANCE))
        assert (row.difference is None) == (name in idle)


@pytest.mark.slow
def test_numbers_categories_texts_and_images_in_one_row(tmp_path: Path, in_this_process: None) -> None:
    rows = rows_of(60)
    files = [str(path) for path in sorted(write_bars(tmp_path / "pictures", 60, size=(12, 8)).glob("*/*.png"))]
    words = ["a small one", "rather large, it is", "fine"]
    mixed = [
        {**row, "note": f"{words[number % 3]} {number}", "file": file}
        for number, (row, file) in enumerate(zip(rows, files, strict=True))
    ]
    data = write_rows(tmp_path / "mixed.csv", mixed)
    settings = {"model": "transformer", "model.width": 16, "model.heads": 2, "model.patch": 4, "training.steps": 2}
    how = {"label": "size", "text": "note", "data.image": "file", "data.kind": "mixed"}
    trained = gf.train(data, out=tmp_path / "run", draft=True, **settings, **how)
    checks = gf.check(trained)
    assert checks.passed, checks.words
    assert {name for name, row in found(checks).items() if row.passed is None} == {"cached", "exported", "stdin"}


@pytest.mark.usefixtures("in_this_process")
def test_several_labels(tmp_path: Path) -> None:
    data = write_cells(tmp_path / "tagged.csv")
    checks = gf.check(gf.train(str(data), out=tmp_path / "run", model="bag", steps=3, draft=True))
    assert checks.passed, checks.words
    assert found(checks)["stdin"].difference is not None


def test_answers_by_their_names_in_files() -> None:
    by_file = {"text": "…", "predicted": 0.5}
    assert command_line._difference([by_file], [{"text": "…", "value": 0.5}]) == 0
    assert command_line._difference([by_file], [{"text": "…", "value": 0.25}]) == 0.5
    assert command_line._difference([by_file], []) == command_line._difference([], []) == torch.inf
    assert command_line._difference([{"text": "a"}], [{"value": 1.0}]) == torch.inf


@pytest.mark.slow
def test_as_many_tokens_as_there_are_positions(tmp_path: Path) -> None:
    """Neither padding nor writing may need one more."""
    settings = {"model": "transformer", "model.positions": "learned", "model.width": 16, "model.heads": 2}
    letters = {"tokenizer.kind": "char", "model.context": 7}
    run = gf.train("copy", out=tmp_path / "run", draft=True, steps=1, **settings, **letters)
    checks = gf.check(run, only="cached,batched,padded")
    assert checks.passed, checks.words
    assert "7 tokens" in found(checks)["padded"].words


def test_one_token_is_called_so(tmp_path: Path) -> None:
    rows = [{"text": f"word{number % 5}", "label": "ab"[number % 2]} for number in range(60)]
    run = gf.train(write_rows(tmp_path / "rows.csv", rows), out=tmp_path / "run", model="average", steps=1, draft=True)
    words = found(gf.check(run, only="batched"))["batched"].words
    assert words == "the scores of 4 examples of 1 token, together and alone"


def test_a_language_model_that_reads_the_future(tmp_path: Path) -> None:
    settings = {
        "model": "transformer",
        "model.causal_mask": False,
        "model.width": 16,
        "model.heads": 2,
        "model.context": 16,
    }
    run = gf.train("copy", out=tmp_path / "run", draft=True, steps=1, **settings, **{"tokenizer.kind": "char"})
    row = found(gf.check(run, only="cached"))["cached"]
    assert row.passed is None
    assert "reads the future" in row.words


@pytest.mark.slow
def test_a_real_process_each(trained: Trained) -> None:
    row = found(gf.check(trained("bag"), only="stdin"))["stdin"]
    assert row.passed, row.words
    assert row.words == "glassformer predict of 4 texts"


def test_a_process_that_fails(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained("bag")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    row = found(gf.check(run, only="stdin"))["stdin"]
    assert (row.passed, row.difference, row.words) == (False, None, "RunError: exit code 1")


@pytest.mark.slow
def test_the_run_is_left_as_it_was(trained: Trained) -> None:
    path = Path(trained("lstm-translator"))
    before = {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    state = torch.get_rng_state()
    gf.check(path, only="cached,batched,padded,looked-at,saved,resumed")
    assert {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()} == before
    assert torch.equal(torch.get_rng_state(), state)


class Own(nn.Module):
    """Mean of word vectors, by hand."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, 5)
        self.out = nn.Linear(5, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        shown = mask.unsqueeze(-1)
        return self.out((self.table(tokens) * shown).sum(1) / shown.sum(1).clamp(min=1))


class Forgetful(Own):
    """Takes padding for words."""

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.out(self.table(tokens).mean(1))


def test_a_model_of_ones_own(table: Path, tmp_path: Path) -> None:
    run = gf.train(table, out=tmp_path / "run", model=Own, draft=True, steps=2)
    module = Own(Run.open(run).tokenizer().vocab_size, 3)
    for model in (Own, module):
        checks = gf.check(run, model=model)
        assert checks.passed, checks.words
        assert found(checks)["stdin"].words == "the command line does not know a person's own model"
    assert failed(gf.check(run, model=Forgetful)) == {"padded"}
    with pytest.raises(RunError, match="give it again"):
        gf.check(run)


@pytest.mark.parametrize(("kind", "task"), [("writer", "language-model"), ("bag", "classification")])
@pytest.mark.usefixtures("in_this_process")
def test_a_family_of_ones_own(kind: str, task: str, trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(kind)
    use_bare_family(task, monkeypatch)
    checks = gf.check(run, only=None if kind == "bag" else QUICK)  # what is used by another command says it itself
    assert checks.passed, checks.words
    assert {name for name, row in found(checks).items() if row.passed is None} <= {"cached", "exported"}


# --- data that is gone, or elsewhere ---


def test_data_that_is_gone_and_data_that_has_moved(tmp_path: Path, in_this_process: None) -> None:
    data = write_rows(tmp_path / "rows.csv", rows_of(60))
    how = {"label": "size", "data.kind": "table", "steps": 2}
    run = gf.train(data, out=tmp_path / "run", model="linear", draft=True, **how)
    moved = data.rename(tmp_path / "moved.csv")
    said: list[str] = []
    checks = gf.check(run, say=said.append)
    assert checks.passed
    rows = found(checks)
    assert rows["batched"].passed
    assert rows["resumed"].passed is None
    assert "the data that this run was trained on is not there" in rows["resumed"].words
    assert "rows.csv" in rows["resumed"].words
    assert rows["stdin"].words == "its examples are not texts"
    assert "made-up examples are used instead (--data: where it is now)" in said[0]
    assert found(gf.check(run, data=str(moved), only="resumed"))["resumed"].passed
    write_rows(moved, rows_of(60, seed=1))
    with pytest.raises(DataError, match="differs from the data that this run started with"):
        gf.check(run, data=str(moved))
    with pytest.raises(DataError):
        gf.check(run, data=str(data))


@pytest.mark.parametrize("model", ["linear", "bag"])
@pytest.mark.usefixtures("in_this_process")
def test_a_refit_of_which_nothing_is_held_out(model: str, table: Path, tmp_path: Path) -> None:
    run = gf.train(table if model == "bag" else "iris", out=tmp_path / "run", model=model, refit=True, steps=2)
    said: list[str] = []
    checks = gf.check(run, say=said.append)
    assert checks.passed, checks.words
    assert said[0] == "this run has learned from all its data: made-up examples are used instead"
    for name in ("batched", "resumed"):
        assert found(checks)[name].passed
    assert found(checks)["stdin"].passed is (True if model == "bag" else None)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["writer", "classifier", "lstm-translator", "patches", "columns"])
def test_made_up_examples(kind: str, trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: Any, **more: Any) -> None:
        raise DataError("nothing at /there")

    run = trained(kind)
    monkeypatch.setattr("glassformer.checks.subject.prepare", gone)
    checks = gf.check(run, only="cached,batched,padded,looked-at,saved,resumed")
    assert checks.passed, checks.words
    assert found(checks)["batched"].difference is not None
    assert found(checks)["resumed"].passed is None


# --- what is broken is found ---

Breaks = pytest.MonkeyPatch
QUICK = "cached,batched,padded,looked-at,saved,resumed"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "kind"), [(LanguageModel, "writer"), (Seq2Seq, "lstm-translator")])
def test_a_cache_that_is_a_little_off(model: type, kind: str, trained: Trained, monkeypatch: Breaks) -> None:
    run, right = trained(kind), model.extend
    monkeypatch.setattr(model, "extend", lambda self, *args: 1.001 * right(self, *args))
    checks = gf.check(run, only=QUICK)
    assert failed(checks) == {"cached"}
    assert 2e-4 < found(checks)["cached"].difference < 2e-3


def test_a_state_that_takes_padding_for_tokens(trained: Trained, monkeypatch: Breaks) -> None:
    run, right = trained("lstm-writer"), LanguageModel.extend
    monkeypatch.setattr(LanguageModel, "extend", lambda self, tokens, state, mask=None: right(self, tokens, state))
    assert failed(gf.check(run, only=QUICK)) == {"cached"}


@pytest.mark.slow
def test_rows_that_leak_into_each_other(trained: Trained, monkeypatch: Breaks) -> None:
    classifier, patches, right = trained("classifier"), trained("patches"), Predictor.features

    def leaking(self: Predictor, *inputs: Tensor) -> Tensor:
        features = right(self, *inputs)
        return features - 0.01 * features.mean(0)

    monkeypatch.setattr(Predictor, "features", leaking)
    assert failed(gf.check(classifier, only="batched,padded,looked-at,saved")) == {"batched", "padded"}
    assert failed(gf.check(patches, only="batched,padded,looked-at,saved")) == {"batched"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "lstm-translator"])
def test_padding_that_is_read(kind: str, trained: Trained, monkeypatch: Breaks) -> None:
    run = trained(kind)
    if kind == "classifier":
        monkeypatch.setattr(
            Predictor, "features", lambda self, ids, mask: self.pool(self.encoder(self.embed(ids)), None)
        )
    else:
        right = Seq2Seq.encode
        monkeypatch.setattr(Seq2Seq, "encode", lambda self, source, mask=None: right(self, source))
    assert "padded" in failed(gf.check(run, only=QUICK)) <= {"padded", "cached"}
    assert found(gf.check(run, only="batched"))["batched"].passed


@pytest.mark.parametrize("stays", [False, True])
def test_a_look_that_changes_what_is_seen(stays: bool, trained: Trained, monkeypatch: Breaks) -> None:
    run, right = trained("cnn-writer"), comparisons.capture

    @contextlib.contextmanager
    def touching(model: nn.Module) -> Iterator[Any]:
        def nudge(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            return torch.nextafter(output, output + 1)

        if stays:  # and only afterwards does harm
            with right(model) as seen:
                yield seen
            model.register_forward_hook(nudge)
            return
        hook = model.register_forward_hook(nudge)
        with right(model) as seen:
            yield seen
        hook.remove()

    monkeypatch.setattr(comparisons, "capture", touching)
    row = found(gf.check(run, only="looked-at"))["looked-at"]
    assert (row.passed, row.tolerance) == (False, 0.0)
    assert 0 < row.difference < 1e-6


def test_weights_damaged_on_the_way(trained: Trained, monkeypatch: Breaks) -> None:
    """By the least that a number can change."""
    run, right = trained("pixels"), Run.write_weights

    def damaged(self: Run, weights: dict[str, Tensor]) -> None:
        right(self, {name: torch.nextafter(value, value + 1) for name, value in weights.items()})

    monkeypatch.setattr(Run, "write_weights", damaged)
    checks = gf.check(run, only="batched,looked-at,saved,resumed")
    assert failed(checks) == {"saved"}
    assert found(checks)["saved"].difference < 1e-5


def test_weights_that_a_folder_does_not_hold(trained: Trained, monkeypatch: Breaks) -> None:
    run, right = trained("regressor"), Run.write_weights
    monkeypatch.setattr(Run, "write_weights", lambda self, weights: right(self, dict(list(weights.items())[1:])))
    row = found(gf.check(run, only="saved"))["saved"]
    assert (row.passed, row.difference) == (False, None)
    assert row.words.startswith("RunError: ")
    assert "it lacks" in row.words


def shifted(snapshot: Snapshot) -> Snapshot:
    return dataclasses.replace(
        snapshot, progress=dataclasses.replace(snapshot.progress, step=snapshot.progress.step + 1)
    )


def without_memory(snapshot: Snapshot) -> Snapshot:
    return dataclasses.replace(snapshot, optimiser={name: 0 * value for name, value in snapshot.optimiser.items()})


@pytest.mark.parametrize("broken", [shifted, without_memory])
@pytest.mark.parametrize("kind", ["writer", "columns"])
def test_a_training_that_goes_on_elsewhere(
    kind: str, broken: Callable[[Snapshot], Snapshot], trained: Trained, monkeypatch: Breaks
) -> None:
    run, right = trained(kind), comparisons.restore
    monkeypatch.setattr(comparisons, "restore", lambda *parts: broken(right(*parts)))
    checks = gf.check(run, only="batched,resumed")
    assert failed(checks) == {"resumed"}


def test_updates_are_really_made(trained: Trained, monkeypatch: Breaks) -> None:
    """That nothing moved would pass as well."""
    held: list[dict[str, Tensor]] = []
    monkeypatch.setattr(
        comparisons, "_train", lambda *args, right=comparisons._train: held.append(right(*args)) or held[-1]
    )
    gf.check(trained("gru-classifier"), only="resumed")
    straight, stopped, went_on = held
    weights = [name for name in straight if name.startswith("weights")]
    assert any(not torch.equal(straight[name], stopped[name]) for name in weights)
    assert all(torch.equal(straight[name], went_on[name]) for name in straight)


@pytest.mark.parametrize(
    ("kind", "what", "broken"),
    [
        (
            "lstm-translator",
            "glassformer.data.io.table._rows",
            lambda file, encoding: enumerate({"text": line} for line in Path(file).read_text().splitlines()[::-1]),
        ),
        ("writer", "glassformer.cli.generate.lines_of", lambda file, encoding: [Path(file).read_text()[:-2]]),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_lines_of_a_file_that_are_read_otherwise(
    kind: str, what: str, broken: object, trained: Trained, monkeypatch: Breaks
) -> None:
    run = trained(kind)
    monkeypatch.setattr(what, broken)
    row = found(gf.check(run, only="stdin"))["stdin"]
    assert (row.passed, row.difference) == (False, np.inf)


@pytest.mark.parametrize("kind", ["bag", "gru-classifier"])
@pytest.mark.usefixtures("in_this_process")
def test_a_file_whose_answers_are_a_little_off(kind: str, trained: Trained, monkeypatch: Breaks) -> None:
    from glassformer.verbs import files

    run, right = trained(kind), files._NewCells.of

    def off(*args: Any) -> dict[str, Any]:
        return {name: 1.001 * value if isinstance(value, float) else value for name, value in right(*args).items()}

    monkeypatch.setattr(files._NewCells, "of", off)
    row = found(gf.check(run, only="stdin"))["stdin"]
    assert row.passed is False
    assert row.difference == pytest.approx(0.001, rel=0.05)


def test_a_model_that_breaks_down(trained: Trained, monkeypatch: Breaks) -> None:
    def broken(self: Predictor, *inputs: Tensor) -> Tensor:
        raise RuntimeError("the matrices do not fit\nand more of it")

    run = trained("classifier")
    monkeypatch.setattr(Predictor, "forward", broken)
    checks = gf.check(run, only=QUICK)
    assert failed(checks) == {"batched", "padded", "looked-at", "saved", "resumed"}
    assert {each.words for each in checks.failed} == {"RuntimeError: the matrices do not fit"}
    assert not checks.passed


def test_a_model_that_says_nothing_that_is_a_number(trained: Trained, monkeypatch: Breaks) -> None:
    run = trained("classifier")
    monkeypatch.setattr(Predictor, "forward", lambda self, *inputs: torch.full((len(inputs[0]), 2), torch.nan))
    checks = gf.check(run, only="batched,padded,looked-at,saved")
    assert failed(checks) == {"batched", "padded", "looked-at", "saved"}
    assert all(each["difference"] is None for each in checks.to_dict()["checks"])


# --- how it is told ---


def test_checks_that_are_asked_for(trained: Trained) -> None:
    checks = gf.check(trained("bag"), only=["padded", "batched"])
    assert list(found(checks)) == ["batched", "padded"]
    with pytest.raises(Misuse, match="'bached'; did you mean batched"):
        gf.check(trained("bag"), only="bached")


def test_the_table(tmp_path: Path) -> None:
    rows = [
        CheckResult("cached = uncached", 3e-7, 1e-5, True, "scores"),
        CheckResult("padded = unpadded", 0.2, 1e-5, False, "scores"),
        CheckResult("file = stdin", None, 1e-5, None, "why not"),
    ]
    checks = Checks("runs/one", "cpu", rows)
    assert checks.words == "1 of 2 checks passed, 1 not applicable; failed: padded = unpadded"
    view = checks.view()
    assert view.title == "Is one right?"
    (table,) = view.panels
    assert [row[:4] for row in table.rows] == [
        ["cached = uncached", "pass", "3e-07", "1e-05"],
        ["padded = unpadded", "FAIL", "0.2", "1e-05"],
        ["file = stdin", "does not apply", "", "1e-05"],
    ]
    checks.save(tmp_path / "checks.html")
    assert "padded = unpadded" in (tmp_path / "checks.html").read_text()
    assert "iframe" in checks._repr_html_()
    assert Checks("one", "cpu", rows[::2]).words == "1 of 1 checks passed, 1 not applicable"


def test_a_check_whose_package_is_missing_is_skipped(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained("bag")
    monkeypatch.setattr("glassformer.checks.comparisons.exports_of", lambda path: [tmp_path])
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "model.onnx").touch()
    checks = gf.check(run, only="exported")
    (check,) = checks.checked
    assert (check.result, check.passed, check.words) == (
        "skipped",
        None,
        "ONNX needs onnx: pip install 'glassformer[onnx]'",
    )
    assert checks.passed
    assert checks.words == "0 of 0 checks passed, 1 skipped"


def test_shares() -> None:
    one = [torch.tensor([[4.0, -8.0]]), torch.tensor([1.0])]
    assert relative_difference(one, [torch.tensor([[4.0, -8.0]]), torch.tensor([1.5])]) == 0.5 / 8
    assert relative_difference(one, one) == 0
    assert relative_difference(one, one[:1]) == relative_difference(one, [one[0][0], one[1]]) == torch.inf
    assert relative_difference([torch.zeros(2)], [torch.full((2,), 1e-3)]) == pytest.approx(
        0.1
    )  # of numbers below a hundredth
    assert relative_difference([torch.ones(2)], [torch.tensor([1.0, torch.nan])]) == torch.inf
