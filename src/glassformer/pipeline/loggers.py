"""Loggers of training runs: TensorBoard, Weights & Biases, MLflow and trackio, one class each.

They receive the lines of metrics.jsonl. The file `loggers.json` in the run's folder holds the ids of each logger, so
that a resumed run continues in the same store. Steps that the store lacks are sent again. Steps that it holds are not,
because a resumed run repeats the same updates. No step is therefore missing or stored twice.
"""

import contextlib
import html
import io
import os
import struct
import textwrap
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from glassformer.config.errors import RunError, error_line, is_strict
from glassformer.config.json_types import JsonObject
from glassformer.config.loggers import LOGGERS, logger_names, missing_package
from glassformer.config.messages import Say, say, silent
from glassformer.config.resolve import flatten
from glassformer.runs.files import read_json, write_json
from glassformer.runs.run import DONE, RUNS, Run

T = TypeVar("T")
PROJECT = "glassformer"
BLOCK = 32768
"""Bytes per block of a .wandb file; no header crosses the border of a block."""
SAMPLE = "sample"
"""Name of texts that the model generated during training."""


@dataclass
class Row:
    """The values that are logged about one step."""

    step: int
    numbers: dict[str, float]
    text: str | None = None


@dataclass(frozen=True)
class LoggedRun:
    """Facts about a run that a store receives at its beginning."""

    path: Path
    name: str
    data: str
    settings: JsonObject
    state: JsonObject
    """State that the store needs when the run is resumed; it is written to the run's folder."""
    step: int
    """Step from which training resumes; 0 for a new run."""

    @property
    def told(self) -> int:
        """The last step that was sent to this store."""
        step = self.state.get("step")
        return step if isinstance(step, int) else 0


class LogStore(ABC):
    where: str
    """Command or address that shows the logged run."""
    takes_again = True
    """Whether it accepts a step that it already holds."""

    @abstractmethod
    def begin(self, run: LoggedRun) -> int:
        """Open the store, at its earlier place if the run is resumed, and return the last step that it holds."""

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def end(self, status: str, scores: Mapping[str, float], step: int) -> None: ...


class TensorBoard(LogStore):
    """Event files in RUN/tensorboard. Steps after the checkpoint of a resumed run are purged, and not shown twice."""

    def begin(self, run: LoggedRun) -> int:
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        last = min(run.told, run.step)
        folder = run.path / "tensorboard"
        self.where = f"tensorboard --logdir {folder}"
        self.writer = SummaryWriter(str(folder), purge_step=last + 1 if last or folder.exists() else None)
        _, begins, self.ends = hparams({key: _plain(value) for key, value in run.settings.items()}, {})
        self.writer.file_writer.add_summary(begins)
        self.writer.flush()
        return last

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            for name, value in row.numbers.items():
                self.writer.add_scalar(name, value, row.step)
            if row.text is not None:
                self.writer.add_text(SAMPLE, textwrap.indent(row.text, "    "), row.step)
        self.writer.flush()

    def end(self, status: str, scores: Mapping[str, float], step: int) -> None:
        self.add([Row(step, dict(scores))])
        self.writer.file_writer.add_summary(self.ends)
        self.writer.close()


class WandB(LogStore):
    """A run of the project glassformer, which variables such as WANDB_MODE and WANDB_DIR configure.

    Offline, a resumed run has a second folder with the same id, which `wandb sync` adds to the first. Logged values
    cannot be replaced: after a change of settings, steps that are trained again show their first values.
    """

    takes_again = False

    def begin(self, run: LoggedRun) -> int:
        import wandb

        known = run.state.setdefault("id", uuid.uuid4().hex[:12])
        self.html = wandb.Html
        settings = wandb.Settings(silent=True, console="off")
        while any(Path(settings.wandb_dir).glob(f"offline-run-{time.strftime('%Y%m%d_%H%M%S')}-{known}")):
            time.sleep(0.1)  # folders are named by the second: a run resumed within it would lose its log
        self.run = wandb.init(
            project=PROJECT, id=known, name=run.name, group=run.data, config=run.settings, resume="allow",
            allow_val_change=True, settings=settings,
        )  # fmt: skip
        self.where = f"wandb sync {Path(self.run.dir).parent}" if self.run.offline else str(self.run.url)
        if not self.run.offline:
            return max(0, self.run.starting_step - 1)
        files = Path(self.run.dir).parents[1].glob(f"offline-run-*-{known}/*.wandb")
        return max((_last_step(file) for file in files), default=0)

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            texts = {} if row.text is None else {SAMPLE: self.html(f"<pre>{html.escape(row.text)}</pre>")}
            self.run.log({**row.numbers, **texts}, step=row.step, commit=True)

    def end(self, status: str, scores: Mapping[str, float], step: int) -> None:
        self.run.summary.update({**scores, "status": status})
        self.run.finish(exit_code=0 if status in DONE else 1)


def _last_step(file: Path) -> int:
    """Return the last step in a .wandb file, whose end may be missing after a kill; 0 if it has none.

    The file has a header of seven bytes and then a log in LevelDB's format.
    """
    from google.protobuf.message import DecodeError
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, record, last = file.read_bytes(), 7, b"", 0
    while at + 7 <= len(data):
        if (room := BLOCK - at % BLOCK) < 7:
            at += room
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last fragment of one
            with contextlib.suppress(DecodeError):
                items = Record.FromString(record).history.item
                last = max([last, *(int(item.value_json) for item in items if "_step" in item.nested_key)])
            record = b""
    return last


class MLflow(LogStore):
    """A run in the experiment named after the data, at MLFLOW_TRACKING_URI or MLflow's default.

    Logged values cannot be removed: after a change of settings, steps that are trained again show both values. A
    parameter cannot change either, so a changed setting becomes a tag of the same name.
    """

    STEP = "glassformer.step"
    """Tag with the last complete step, so that the store itself knows it."""
    MOST = 1000
    """Maximum number of metrics per request to MLflow."""

    def begin(self, run: LoggedRun) -> int:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # training must not wait minutes for a server
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        from mlflow import MlflowClient
        from mlflow.entities import Param, RunTag

        self.client, self.tag = MlflowClient(), RunTag
        self.where = f"mlflow ui --backend-store-uri {self.client.tracking_uri}"
        data = self._known(run.state.get("run"))
        if data is None:
            tags = {"glassformer.run": str(run.path.resolve())}
            made = self.client.create_run(self._experiment(run.data), run_name=run.name, tags=tags)
            run.state["run"], data = made.info.run_id, made.data
        self.id = run.state["run"]
        self.client.update_run(self.id, status="RUNNING")
        settings = {key: str(value) for key, value in run.settings.items()}
        new = [Param(key, value) for key, value in settings.items() if key not in data.params]
        for params in _pieces(new, 100):
            self.client.log_batch(self.id, params=params)
        changed = [RunTag(key, value) for key, value in settings.items() if data.params.get(key, value) != value]
        self.client.log_batch(self.id, tags=changed)
        return int(data.tags.get(self.STEP, 0))

    def _known(self, known: str | None) -> Any:
        """Return the data of the run with this id; None if there is no such run."""
        from mlflow.exceptions import MlflowException

        try:
            return None if known is None else self.client.get_run(known).data
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, which another training run may be creating at the same time."""
        from mlflow.exceptions import MlflowException

        with contextlib.suppress(MlflowException):
            return self.client.create_experiment(name)
        return self.client.get_experiment_by_name(name).experiment_id

    def add(self, rows: Sequence[Row]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        most = max(len(row.numbers) for row in rows)
        for some in _pieces(rows, self.MOST // max(1, most)):
            metrics = [Metric(name, value, now, row.step) for row in some for name, value in row.numbers.items()]
            self.client.log_batch(self.id, metrics=metrics, tags=[self.tag(self.STEP, str(some[-1].step))])
        for row in rows:
            if row.text is not None:
                self.client.log_text(self.id, row.text, f"{SAMPLE}s/step-{row.step:06}.txt")

    def end(self, status: str, scores: Mapping[str, float], step: int) -> None:
        if scores:
            self.add([Row(step, dict(scores))])
        ended = "FINISHED" if status in DONE else "KILLED" if status == "interrupted" else "FAILED"
        self.client.set_terminated(self.id, ended)


class Trackio(LogStore):
    """A run of the project glassformer, at TRACKIO_DIR, TRACKIO_SPACE_ID or trackio's default.

    Logged values cannot be removed: after a change of settings, steps that are trained again show both values.
    """

    def begin(self, run: LoggedRun) -> int:
        import trackio

        goes_on = "name" in run.state
        name = run.state.setdefault(
            "name", f"{run.name}-{uuid.uuid4().hex[:6]}"
        )  # trackio identifies runs by their names
        settings = {key: _plain(value) for key, value in run.settings.items()}
        self.run = trackio.init(
            PROJECT, name=name, group=run.data, config=settings, resume="allow" if goes_on else "never", embed=False
        )
        self.markdown, self.finish = trackio.Markdown, trackio.finish
        self.where = f"trackio show --project {PROJECT}"
        return max(0, self.run._next_step - 1)  # values that a killed process had not sent yet are missing

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            texts = {} if row.text is None else {SAMPLE: self.markdown(textwrap.indent(row.text, "    "))}
            self.run.log({**row.numbers, **texts}, step=row.step)

    def end(self, status: str, scores: Mapping[str, float], step: int) -> None:
        if scores:
            self.run.log(dict(scores), step=step)
        self.finish()


STORES: dict[str, type[LogStore]] = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow, "trackio": Trackio}


def _plain(value: object) -> str | int | float | bool:
    """Return a setting in a type that the tables of TensorBoard and trackio accept."""
    return value if isinstance(value, str | int | float | bool) else str(value)


def _pieces(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield consecutive slices of at most `size` values."""
    return (values[start : start + size] for start in range(0, len(values), size))


# --- the loggers of a run ---


STATES = "loggers.json"
"""File in a run's folder with the state of each logger by name: its ids, and the last step that it received."""


def asked_loggers(given: str | Iterable[str] | None, run: Run | None) -> tuple[str, ...]:
    """Return the names of the requested loggers; by default those of the resumed run."""
    names = logger_names(given)
    return names if names is not None else () if run is None else tuple(_read_states(run))


def _read_states(run: Run) -> dict[str, JsonObject]:
    if not (run.path / STATES).is_file():
        return {}
    with contextlib.suppress(RunError):
        states = read_json(run.path / STATES)
        return {name: state for name, state in states.items() if name in LOGGERS and isinstance(state, dict)}
    return {}


class Loggers:
    """The loggers of a training run. A logger that fails is removed, and training continues."""

    def __init__(self, run: Run, names: Iterable[str] = (), fail: Say = silent) -> None:
        self.run, self.names, self.fail = run, tuple(names), fail
        self.open: dict[str, LogStore] = {}
        self.states: dict[str, JsonObject] = {}
        self.rows = Rows()

    def begin(self, card: Mapping[str, Any], step: int, *, same: bool) -> None:
        """Open all loggers.

        `step`: step from which training resumes. `same`: the settings are unchanged, so that training repeats later
        steps exactly and they need not be sent again.
        """
        if not self.names:
            return
        before = _read_states(self.run)
        settings = flatten(card["config"])
        for name in self.names:
            state = self.states[name] = before.get(name, {})
            logged = LoggedRun(self.run.path, _short_name(self.run), str(card["data"]["name"]), settings, state, step)
            with self._guard(name):
                if missing := missing_package(name):
                    raise RunError(missing)
                self._keep_states()
                store = STORES[name]()
                last = store.begin(logged)
                state["step"] = last if same or not store.takes_again else min(last, step)
                self._keep_states()
                self.open[name] = store
                say(f"logging to {name}: {store.where}")
        self.add(self.run.read_metrics() if step else [])

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Send lines of metrics.jsonl to all loggers; the lines of one step are sent together."""
        if self.open and (rows := list(self.rows.take(lines))):
            self._add(rows)

    def _add(self, rows: list[Row]) -> None:
        for name, store in list(self.open.items()):
            state = self.states[name]
            if new := [row for row in rows if row.step > state["step"]]:
                with self._guard(name):
                    store.add(new)
                    state["step"] = new[-1].step
                    self._keep_states()

    def end(self, status: str = "failed", parts: Mapping[str, Mapping[str, float]] | None = None) -> None:
        """Close all loggers. `parts`: scores of each part of the data that was evaluated."""
        self._add(list(self.rows.rest()))
        scores = {f"final/{part}/{name}": value for part, metrics in (parts or {}).items()
                  for name, value in _numbers(metrics)}  # fmt: skip
        for name, store in list(self.open.items()):
            with self._guard(name):
                store.end(status, scores, self.states[name]["step"])
        self.open = {}

    @contextlib.contextmanager
    def _guard(self, name: str) -> Iterator[None]:
        """Remove a logger that fails, and suppress its output, because stdout is for the result of a command."""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        except Exception as error:
            self.open.pop(name, None)
            if is_strict():
                raise
            self.fail(f"logging to {name} stops here, the training goes on: {error_line(error)}")

    def _keep_states(self) -> None:
        write_json(self.run.path / STATES, self.states)


class Rows:
    """Conversion of the lines of the log to rows, one per step."""

    def __init__(self) -> None:
        self.row: Row | None = None
        self.tokens, self.seconds = 0, 0.0

    def take(self, lines: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
        """Yield the complete rows: those of steps after which another step has begun."""
        for line in lines:
            event = line["event"]
            if event not in ("step", "validation", "sample"):
                continue
            if self.row is not None and self.row.step != line["step"]:
                yield from self.rest()
            self.row = self.row or Row(line["step"], {})
            if event == "step":
                self.row.numbers |= self._step_numbers(line)
            elif event == "validation":
                self.row.numbers |= {f"validation/{name}": value for name, value in _numbers(line) if name != "step"}
            else:
                self.row.text = line["text"]

    def rest(self) -> Iterator[Row]:
        row, self.row = self.row, None
        if row is not None:
            yield row

    def _step_numbers(self, line: Mapping[str, Any]) -> dict[str, float]:
        logged = ("loss", "lr", "gradient_norm")
        numbers = {f"train/{name}": line[name] for name in logged if line[name] is not None}
        tokens, seconds = line["tokens"] - self.tokens, line["seconds"] - self.seconds
        self.tokens, self.seconds = line["tokens"], line["seconds"]
        if tokens > 0 and seconds > 0:
            numbers["train/tokens_per_second"] = tokens / seconds
        return numbers


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in values.items() if type(value) in (int, float))


def _short_name(run: Run) -> str:
    """Return the path of a run relative to runs/; outside of runs/, the name of its folder."""
    path, above = run.path.resolve(), RUNS.resolve()
    return path.relative_to(above).as_posix() if path.is_relative_to(above) else path.name
