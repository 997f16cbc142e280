"""Trainings that are logged to TensorBoard, Weights & Biases, MLflow and trackio, read back from what these have."""

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from glassformer.cli.main import main
from glassformer.config.errors import Misuse
from glassformer.config.loggers import LOGGERS, VARIABLE, logger_names, missing_package
from glassformer.pipeline import loggers
from glassformer.pipeline.loggers import LoggedRun, Loggers, LogStore, Row
from glassformer.runs.files import write_json
from glassformer.runs.run import Run
from glassformer.training.events import Event, Noted
from glassformer.trials.compare import compare
from glassformer.trials.cross_validation import cross_validate
from glassformer.verbs.train import train
from helpers.log_reading import READERS, Stored, state_of
from helpers.running import DATA, SignalAfter, begin, command, finish, flags, labelled, one_line, tiny, train_here
from helpers.tables import opinions, write_table

HERE = [name for name in LOGGERS if missing_package(name) is None]
SETTINGS = tiny(training__steps=9, training__validate_every=3) | {"training.samples": True}
Lines = Sequence[Mapping[str, Any]]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # theirs, not ours
each = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in HERE else pytest.mark.skip(f"{name} is not installed"))
        for name in LOGGERS
    ],
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all stores of these tests are, those of processes too."""
    place = tmp_path_factory.mktemp("stores")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("TRACKIO_DIR", str(place / "trackio"))
        patch.setenv("MLFLOW_TRACKING_URI", (place / "mlruns").as_uri())
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        yield place


def expected(lines: Lines) -> dict[str, list[tuple[int, float]]]:
    """What the log says, by the names that loggers use."""
    found: dict[str, list[tuple[int, float]]] = {}
    tokens, seconds = 0, 0.0
    for line in lines:
        numbers: dict[str, float] = {}
        if line["event"] == "step":
            numbers = {f"train/{key}": line[key] for key in ("loss", "lr", "gradient_norm")}
            numbers["train/tokens_per_second"] = (line["tokens"] - tokens) / (line["seconds"] - seconds)
            tokens, seconds = line["tokens"], line["seconds"]
        elif line["event"] == "validation":
            numbers = {f"validation/{key}": line[key] for key in line if key not in ("event", "step", "best")}
        for key, value in numbers.items():
            found.setdefault(key, []).append((line["step"], value))
    return found


def check(stored: Stored, lines: Lines) -> None:
    """Every number is there once."""
    wanted = expected(lines)
    assert stored.numbers.keys() == wanted.keys()
    for key, values in wanted.items():
        assert [step for step, _ in stored.numbers[key]] == [step for step, _ in values], key
        if key != "train/tokens_per_second":  # steps that were made twice took two times
            assert [value for _, value in stored.numbers[key]] == pytest.approx([value for _, value in values])


@pytest.fixture(scope="module")
def killed(place: Path) -> Run:
    """A training that was killed between two checkpoints, and went on."""
    if not HERE:
        pytest.skip("no logger is installed")
    out = place / "runs" / "killed"
    process = begin("train", DATA, "--out", str(out), "--log-to", ",".join(HERE), *flags(SETTINGS),
                    signal=SignalAfter(5, signal.SIGKILL))  # fmt: skip
    assert finish(process)[0] == -signal.SIGKILL
    before = {name: state_of(out, name) for name in HERE}
    assert all(state["step"] < 5 for state in before.values())
    code, stdout, err = command("train", "--resume", "--out", str(out), "--json")
    assert code == 0, err
    assert json.loads(stdout)["steps"] == 9  # whatever loggers print, this is all that stdout holds
    for name in HERE:
        after = state_of(out, name)
        assert after == before[name] | {"step": 9}  # the ids are those of before
    return Run(out)


@pytest.mark.slow
@each
def test_after_a_kill_every_step_is_there_once(killed: Run, name: str) -> None:
    stored = READERS[name](killed.path)
    lines = killed.read_metrics()
    check(stored, lines)
    samples = {line["step"]: line["text"] for line in lines if line["event"] == "sample"}
    assert samples.keys() == {3, 6, 9}
    assert stored.texts == samples
    card = killed.card()
    assert float(stored.settings["training.lr"]) == card["config"]["training"]["lr"]
    assert stored.settings["task"] == card["task"]
    scores = {f"final/validation/{key}": value for key, value in card["validation"].items()}
    assert stored.final == pytest.approx(scores)


@pytest.mark.slow
@pytest.mark.skipif("mlflow" not in HERE, reason="mlflow is not installed")
def test_an_mlflow_run_is_named_after_its_folder_and_has_ended(killed: Run) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    entry = client.get_run(state_of(killed.path, "mlflow")["run"])
    assert (entry.info.run_name, entry.info.status) == ("killed", "FINISHED")
    experiment = client.get_experiment(entry.info.experiment_id)
    assert experiment.name == killed.card()["data"]["name"]
    assert len(client.search_runs([experiment.experiment_id])) == 1


def step_lines(first: int, last: int, loss: float = 1.0) -> list[dict[str, Any]]:
    return [
        {"event": "step", "step": step, "loss": loss / step, "lr": 0.1, "gradient_norm": 2.0, "tokens": 7 * step,
         "seconds": step / 2, "done": 0.1 * step}
        for step in range(first, last + 1)
    ]  # fmt: skip


def logged_until_seven(run: Run, name: str) -> dict[str, Any]:
    """A run that was told steps 1 to 7, and whose newest checkpoint is that of step 4; gives its card."""
    run.path.mkdir(parents=True)
    card = {"config": {"task": "language-model", "training": {"lr": 0.1}}, "data": {"name": "numbers"}}
    loggers = Loggers(run, [name])
    loggers.begin(card, 0, same=True)
    loggers.add(step_lines(1, 8))
    store: Any = loggers.open[name]
    if name == "trackio":  # as a process that lives does, every half second
        store.run._flush_queues_inline()
    elif name == "wandb":  # as W&B's own process does; folders have names by the second
        store.run.finish()
        folder = Path(store.run.dir).parent
        folder.rename(folder.with_name(f"offline-run-20000101_000000-{store.run.id}"))
    run.add_metrics(*step_lines(1, 4))
    return card


@pytest.mark.slow
@each
def test_what_was_told_after_the_checkpoint_is_not_told_again(place: Path, name: str) -> None:
    run = Run(place / "ahead" / name)
    card = logged_until_seven(run, name)
    loggers = Loggers(run, [name])
    loggers.begin(card, 4, same=True)
    loggers.add(step_lines(5, 9))
    loggers.end("finished")
    check(READERS[name](run.path), step_lines(1, 9))


@pytest.mark.slow
@each
def test_with_other_settings_steps_that_are_trained_again_show_as_the_store_allows(place: Path, name: str) -> None:
    run = Run(place / "changed" / name)
    card = logged_until_seven(run, name)
    card["config"]["training"]["lr"] = 0.2
    loggers = Loggers(run, [name])
    loggers.begin(card, 4, same=False)
    loggers.add(step_lines(5, 9, loss=3.0))
    loggers.end("finished")
    first, again = [(step, 1 / step) for step in range(1, 8)], [(step, 3 / step) for step in range(5, 10)]
    wanted = {"tensorboard": first[:4] + again, "wandb": first + again[3:]}.get(name, sorted(first + again))
    stored = READERS[name](run.path)
    assert [step for step, _ in stored.numbers["train/loss"]] == [step for step, _ in wanted]
    assert [loss for _, loss in stored.numbers["train/loss"]] == pytest.approx([loss for _, loss in wanted])
    if name == "mlflow":
        from mlflow import MlflowClient

        data = MlflowClient().get_run(state_of(run.path, name)["run"]).data
        assert (data.params["training.lr"], data.tags["training.lr"]) == ("0.1", "0.2")


@pytest.mark.sample(3)
@each
def test_a_logger_that_is_named_later_is_told_the_log_so_far(place: Path, name: str) -> None:
    run = train_here(place / "later" / name, SETTINGS | {"training.steps": 4}).run
    train(out=run, resume=True, log_to=name, **{"training.steps": 6})
    check(READERS[name](Path(run)), Run(Path(run)).read_metrics())


@pytest.mark.slow
@pytest.mark.skipif("mlflow" not in HERE, reason="mlflow is not installed")
def test_a_server_that_is_away_ends_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLASSFORMER_STRICT")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    said: list[Event] = []
    trained = train_here(tmp_path / "run", SETTINGS, log_to="mlflow", listen=said.append)
    assert (trained.reason, trained.steps) == ("finished", 9)
    assert len(lines_about("mlflow", said)) == 1


def lines_about(name: str, said: Sequence[Event]) -> list[str]:
    return [event.text for event in said if isinstance(event, Noted) and event.text.startswith(f"logging to {name}")]


# --- whatever the store ---


class Memory(LogStore):
    """A store that keeps what it is told; its disk may be full after some rows."""

    all: ClassVar[dict[str, "Memory"]] = {}
    room = 10**6
    where = "here"

    def begin(self, run: LoggedRun) -> int:
        self.name, self.rows, self.ended = run.name, list[Row](), list[Any]()
        Memory.all[run.path.name] = self
        return run.told

    def add(self, rows: Sequence[Row]) -> None:
        if len(self.rows) + len(rows) > Memory.room:
            raise OSError(28, "No space left on device")
        self.rows += rows

    def end(self, status: str, scores: Mapping[str, float], step: int) -> None:
        self.ended.append((status, set(scores), step))


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, Memory]:
    monkeypatch.setitem(loggers.STORES, "tensorboard", Memory)
    for module in ("config", "pipeline"):
        monkeypatch.setattr(f"glassformer.{module}.loggers.missing_package", lambda name: None)
    monkeypatch.setattr(Memory, "all", {})
    return Memory.all


def test_a_disk_that_is_full_ends_no_training(
    tmp_path: Path, memory: dict[str, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLASSFORMER_STRICT")
    monkeypatch.setattr(Memory, "room", 4)
    said: list[Event] = []
    trained = train_here(tmp_path / "run", SETTINGS, log_to="tensorboard", listen=said.append)
    assert (trained.reason, trained.steps) == ("finished", 9)
    begun, dropped = lines_about("tensorboard", said)
    assert begun == "logging to tensorboard: here"
    assert (
        dropped
        == "logging to tensorboard stops here, the training goes on: OSError: [Errno 28] No space left on device"
    )
    assert memory["run"].ended == []


@pytest.mark.slow
def test_a_logger_that_fails_is_a_warning_in_a_program_and_a_line_with_q(
    tmp_path: Path, memory: dict[str, Memory], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GLASSFORMER_STRICT")
    monkeypatch.setattr(Memory, "room", 0)
    with pytest.warns(UserWarning, match="^logging to tensorboard stops here, the training goes on: OSError"):
        train_here(tmp_path / "run", SETTINGS, log_to="tensorboard")
    words = ["train", DATA, "--size", "nano", "--steps", "1", "--out", str(tmp_path / "quiet"), "--log-to"]
    main([*words, "tensorboard", "-q"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("logging to tensorboard stops here")


@pytest.mark.slow
def test_where_it_is_logged_is_no_setting(tmp_path: Path, memory: dict[str, Memory]) -> None:
    plain = train_here(tmp_path / "plain", SETTINGS)
    logged = train_here(tmp_path / "logged", SETTINGS, log_to=["tensorboard"])
    cards = [Run(Path(trained.run)).card() for trained in (plain, logged)]
    assert cards[0]["config"] == cards[1]["config"]
    assert cards[0]["weights"] == cards[1]["weights"]
    assert [row.step for row in memory["logged"].rows] == list(range(1, 10))
    assert memory["logged"].ended == [("finished", {f"final/validation/{name}" for name in logged.validation}, 9)]
    assert not (tmp_path / "plain" / "loggers.json").exists()


def test_folds_and_their_refit_are_logged(tmp_path: Path, memory: dict[str, Memory]) -> None:
    texts = write_table(tmp_path / "texts.csv", opinions(60))
    settings = labelled("bag", training__steps=4, training__validate_every=2)
    cross_validate(str(texts), folds=2, out=tmp_path / "all", refit=True, log_to="tensorboard", **settings)
    assert set(memory) == {"fold-1", "fold-2", "all"}
    assert all(store.ended[0][0] == "finished" for store in memory.values())


def test_a_refit_is_logged_as_the_training_before_it_was(tmp_path: Path, memory: dict[str, Memory]) -> None:
    texts = write_table(tmp_path / "texts.csv", opinions(60))
    settings = labelled("bag", training__steps=4, training__validate_every=2)
    train(str(texts), out=tmp_path / "run", log_to="tensorboard", **settings)
    memory.clear()
    train(out=tmp_path / "run", resume=True, refit=True)
    assert [row.step for row in memory["run"].rows] == list(range(1, Run(tmp_path / "run").card()["steps"] + 1))


def test_damaged_ids_start_anew(tmp_path: Path, memory: dict[str, Memory]) -> None:
    run = Run(tmp_path)
    write_json(tmp_path / "loggers.json", {"tensorboard": {"step": "x"}, "other": 3})
    run.add_metrics(*step_lines(1, 3))
    loggers = Loggers(run, ["tensorboard"])
    loggers.begin({"config": {"task": "language-model"}, "data": {"name": "numbers"}}, 3, same=True)
    loggers.end("finished")
    assert [row.step for row in memory[tmp_path.name].rows] == [1, 2, 3]


def test_names_are_checked_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misuse, match=r"^unknown logger 'tensorbord'; did you mean tensorboard\?"):
        train_here(tmp_path / "run", SETTINGS, log_to="tensorbord")
    monkeypatch.setattr("glassformer.config.loggers.find_spec", lambda name: None)
    with pytest.raises(Misuse) as refused:
        train_here(tmp_path / "run", SETTINGS, log_to=["mlflow"])
    assert str(refused.value) == "--log-to mlflow needs mlflow: pip install 'glassformer[mlflow]'"
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv(VARIABLE, "wandb")
    with pytest.raises(Misuse, match=r"glassformer\[wandb\]"):
        logger_names(None)
    assert logger_names([]) == ()


@pytest.mark.parametrize("verb", ["train", "compare", "tune"])
def test_the_command_line_says_which_names_there_are(verb: str) -> None:
    code, _, err = command(verb, DATA, "--log-to", "mlfow")
    assert code == 2
    assert one_line(err).startswith("glassformer: unknown logger 'mlfow'; did you mean mlflow? (one of: tensorboard,")


@pytest.mark.slow
def test_the_trainings_of_a_comparison(tmp_path: Path) -> None:
    texts = write_table(tmp_path / "texts.csv", opinions(60))
    compare(str(texts), models="bag", seeds=1, steps=2, references=False, out=tmp_path / "all", log_to="tensorboard")
    assert list((tmp_path / "all").rglob("tensorboard/events*"))
    assert VARIABLE not in os.environ
