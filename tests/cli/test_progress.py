"""Long work shows how far it is: on a terminal alone, gone when done, and not at all with -q."""

import itertools
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

import glassformer as gf
from glassformer.cli.completion import parser_of
from glassformer.cli.options import VERB_TABLES
from glassformer.cli.terminal.show import RowProgress
from glassformer.config.progress import BYTE, Meter, counting_on, progress_of, watched
from glassformer.tasks.base import Evaluation
from glassformer.training.distributed.processes import Processes
from glassformer.training.events import Stepped, Validated
from glassformer.training.progress import TrainingProgress
from glassformer.training.validation import Validator
from helpers.running import Command
from helpers.settings import training_settings
from helpers.translating import mirrored, translating

Told = tuple[int, int, str]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    """What a bar would have shown."""
    seen: list[Told] = []
    monkeypatch.setattr(RowProgress, "draw", lambda self: seen.append((self.done, self.total, self.unit)))
    return seen


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds pass whenever the clock is looked at."""
    ticks = itertools.count()
    monkeypatch.setattr("glassformer.config.progress.time", SimpleNamespace(monotonic=lambda: 2.0 * next(ticks)))


@pytest.mark.usefixtures("ticking")
def test_how_much_how_fast_and_how_long_still() -> None:
    meter = Meter()
    meter(0, 1000, "row")
    assert (meter.amount, meter.speed, meter.left) == ("0 of 1,000 rows", "", "")
    meter(250, 1000, "row")
    assert (meter.amount, meter.speed, meter.left) == ("250 of 1,000 rows", "125 rows/s", "0:06 left")
    meter(9, 2**23, BYTE)  # what is read on the way is not shown
    assert meter.unit == "row"
    meter(1000, 1000, "row")
    meter(0, 2**23, BYTE)
    meter(2**22, 2**23, BYTE)
    assert (meter.amount, meter.speed) == ("reading 4.0 MiB of 8.0 MiB", "2.0 MiB/s")


@pytest.mark.usefixtures("ticking")
def test_what_was_done_before_is_no_speed() -> None:
    meter = Meter()
    meter(20, 30, "trial")
    assert (meter.whole + meter.took, meter.speed, meter.left) == ("20 trials", "", "")
    meter(24, 30, "trial")
    assert (meter.took, meter.speed, meter.left) == (" in 2.0 s: 2 trials/s", "2 trials/s", "0:03 left")
    meter(0, 5, "text")  # another unit, just before the end
    assert meter.took == ""


def test_a_part_counts_on_from_what_was_done_before() -> None:
    heard = list[Told]()
    with watched(lambda *told: heard.append(told)):
        for before in (0, 3):
            with counting_on(before, 6, "row"):
                progress_of("text")(3, 3)
                progress_of(BYTE)(1, 2)
    progress_of("text")(5, 5)  # nobody watches any more
    assert heard == [(3, 6, "row"), (6, 6, "row")]


@pytest.mark.slow
def test_every_verb_of_many_rows_tells_how_far_it_is(
    told: list[Told], command: Command, runs: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last(*words: object) -> Told:
        told.clear()
        code, _, err = command(*words)
        assert code == 0, err
        return told[-1]

    monkeypatch.setattr("glassformer.data.io.reading.LARGE", 1)
    table, size = files / "two.csv", (files / "two.csv").stat().st_size
    assert last("predict", runs / "two", "--file", table, "--out", "out.csv") == (40, 40, "row")
    assert (size, size, BYTE) in told
    assert last("embed", runs / "two", "--file", table, "--out", "out.npy") == (40, 40, "text")
    assert last("evaluate", runs / "two", table) == (40, 40, "text")
    assert last("data", "check", table)[2] == "text"
    assert last("data", "check", files / "good.txt")[0] == 1
    (files / "lines.txt").write_text("abc\ncab\n")
    gf.train(mirrored(60), out=files / "mirror", **translating("lstm", training__steps=1))
    assert last("translate", files / "mirror", "--file", "lines.txt", "--out", "out.txt") == (2, 2, "line")
    assert last("evaluate", files / "mirror")[2] == "text"
    trained = gf.train("reverse:rows=60", out=files / "gpt", size="nano", steps=1, task="language-model")
    done, total, unit = last("evaluate", files / "gpt")
    assert (done, unit) == (total, "token")
    everything = (trained.parameters, trained.parameters, "parameter")
    assert last("export", files / "gpt", "--to", "hf", "hf") == everything
    assert last("import", "hf", "--out", "again") == everything


def run_on_a_terminal(*words: str) -> tuple[str, str]:
    """Stdout, and what a terminal got on stderr."""
    terminal, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-m", "glassformer", *words], stdout=subprocess.PIPE, stderr=theirs,
                               env=environment)  # fmt: skip
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux, once the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(terminal)
    assert process.stdout is not None
    out = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait() == 0, seen.decode()
    return out, seen.decode()


@pytest.mark.slow
def test_a_bar_on_a_real_terminal_is_gone_at_the_end(files: Path) -> None:
    words = ("data", "check", str(files / "two.csv"))
    out, seen = run_on_a_terminal(*words)
    assert re.search(r"\d+ of \d+ texts", seen), seen
    assert seen.rstrip("\r\n").endswith("\x1b[2K")  # the line is wiped
    quiet, unseen = run_on_a_terminal(*words, "-q")
    assert (quiet, unseen) == (out, "")


@pytest.mark.slow
def test_every_verb_can_be_quiet(command: Command, files: Path) -> None:
    names = [name for name, table in VERB_TABLES.items() if "summary" in table]
    assert all("-q" in parser_of(name)._option_string_actions for name in names)
    for words in (
        ("compare", "two.csv", "--models", "bag", "--seeds", 1, "--steps", 1, "--no-references", "--no-floors"),
        ("tune", "two.csv", "--model", "bag", "--trials", 1, "--steps", 1, "--no-final"),
    ):
        code, out, err = command(*words, "-q")
        assert (code, err) == (0, ""), out
        assert "bag" in out


def test_a_bar_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with RowProgress() as progress:
        progress(0, 10, "row")
        assert progress.bar is None
    monkeypatch.setattr("glassformer.cli.terminal.show.is_live", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with RowProgress(printed=True) as progress:
        progress(0, 10, "row")
        assert progress.bar is None  # results are printed there
    with RowProgress() as progress:
        progress(0, 10, "row")
        progress(4, 10, "row")
        assert progress.bar is not None
        assert progress.bar.tasks[0].completed == 4
        print("a result")
    assert capsys.readouterr().out == "a result\n"


def test_the_line_of_a_training_names_its_metric_and_counts_the_last_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("glassformer.training.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    shown = TrainingProgress()

    def step(number: int, done: float) -> None:
        shown.hear(Stepped(number, 4.77, 0.1, None, 100 * number, float(number), done))

    step(1, 0.0)
    assert shown.left == ""
    now[0] = 100.0
    step(2, 0.25)
    assert shown.left == "5:00 left"
    shown.hear(Validated(2, Evaluation({"chrf": 16.93}, "chrf", lower_is_better=False), best=True, seconds_after=109.0))
    assert shown.left == "6:49 left"
    assert "validation chrF 16.9300" in shown.text


def test_the_last_evaluation_is_estimated_from_validations() -> None:
    """A validation of 100 of 400 tokens took 3 s; all of it and a test part of half as many rows take 18 s."""

    class Held:
        parts: ClassVar = {"train": 0, "validation": 0, "test": 0}

        def record_count(self, part: str) -> int:
            return {"validation": 10, "test": 5}[part]

        def token_share(self, part: str, most: int) -> float:
            return most / 400

        def among(self, among: object) -> "Held":
            return self

    context = SimpleNamespace(
        task=Held(),
        settings=training_settings(validation_tokens=100),
        budget=None,
        options=SimpleNamespace(processes=Processes()),
    )
    validator = Validator(context)  # type: ignore[arg-type]
    validator.seconds = 3.0
    assert validator._seconds_after() == pytest.approx(18.0)
