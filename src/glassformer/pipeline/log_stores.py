"""Where a training can be logged: one class each for TensorBoard, Weights & Biases, MLflow and trackio.

Their packages are imported when a training begins, and only then.
"""

import contextlib
import html
import os
import struct
import textwrap
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from glassformer.runs.run import DONE

T = TypeVar("T")
PROJECT = "glassformer"
BLOCK = 32768
"""Bytes of a block of a .wandb file, over which no header goes."""
SAMPLE = "sample"
"""What a text that the model wrote on the way is called."""


@dataclass
class Row:
    """Everything about one step."""

    step: int
    numbers: dict[str, float]
    text: str | None = None


@dataclass(frozen=True)
class LoggedRun:
    """What a store is told of a run at its beginning."""

    path: Path
    name: str
    data: str
    settings: dict[str, Any]
    state: dict[str, Any]
    """What the store has to know when the run goes on: it is written into the run's folder."""
    step: int
    """Where the training goes on from."""

    @property
    def told(self) -> int:
        """The last step that this store was told."""
        step = self.state.get("step")
        return step if isinstance(step, int) else 0


class LogStore(ABC):
    where: str
    """How a person gets to see it."""
    takes_again = True
    """Whether it can be told a step that it holds."""

    @abstractmethod
    def begin(self, run: LoggedRun) -> int:
        """Open it, where the run was before if it goes on; gives the last step that it holds."""

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def end(self, status: str, scores: Mapping[str, float], step: int) -> None: ...


class TensorBoard(LogStore):
    """Event files in RUN/tensorboard. Steps after a checkpoint that a run goes on from are purged: none shows twice."""

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
    """A run of the project glassformer, as WANDB_MODE, WANDB_DIR and so on say.

    Offline, a run that goes on has a second folder of the same id, which `wandb sync` adds to the first. What was
    logged cannot be logged again: after a change of settings, steps that are trained once more show their first values.
    """

    takes_again = False

    def begin(self, run: LoggedRun) -> int:
        import wandb

        known = run.state.setdefault("id", uuid.uuid4().hex[:12])
        self.html = wandb.Html
        settings = wandb.Settings(silent=True, console="off")
        while any(Path(settings.wandb_dir).glob(f"offline-run-{time.strftime('%Y%m%d_%H%M%S')}-{known}")):
            time.sleep(0.1)  # its folders are named by the second: one that goes on at once would lose what it logs
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
    """Of a .wandb file, of which a kill may have cut the end: seven bytes, then a log as LevelDB writes it."""
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
        if kind in (1, 4):  # a whole record, or its last piece
            with contextlib.suppress(DecodeError):
                steps = [
                    item.value_json for item in Record.FromString(record).history.item if "_step" in item.nested_key
                ]
                last = max([last, *map(int, steps)])
            record = b""
    return last


class MLflow(LogStore):
    """A run in the experiment of the data's name, where MLFLOW_TRACKING_URI says or MLflow's default is.

    What was logged cannot be taken back: after a change of settings, steps that are trained once more show both values,
    and a changed setting, which is a parameter for ever, becomes a tag of its name.
    """

    STEP = "glassformer.step"
    """The tag with the last step that is whole: the store itself knows it."""
    MOST = 1000
    """Numbers that MLflow takes at once."""

    def begin(self, run: LoggedRun) -> int:
        for name, value in (("MAX_RETRIES", "2"), ("TIMEOUT", "20")):  # a training does not wait minutes for a server
            os.environ.setdefault(f"MLFLOW_HTTP_REQUEST_{name}", value)
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
        if changed:
            self.client.log_batch(self.id, tags=changed)
        return int(data.tags.get(self.STEP, 0))

    def _known(self, known: str | None) -> Any:
        """What the run holds so far; None, where there is none."""
        from mlflow.exceptions import MlflowException

        if known is None:
            return None
        try:
            return self.client.get_run(known).data
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None

    def _experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        if (found := self.client.get_experiment_by_name(name)) is not None:
            return found.experiment_id
        try:
            return self.client.create_experiment(name)
        except MlflowException:
            if (found := self.client.get_experiment_by_name(name)) is None:
                raise
            return found.experiment_id  # another training was faster

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
    """A run of the project glassformer, where TRACKIO_DIR or TRACKIO_SPACE_ID says or trackio's default is.

    What was logged cannot be taken back: after a change of settings, steps that are trained once more show both values.
    """

    def begin(self, run: LoggedRun) -> int:
        import trackio

        goes_on = "name" in run.state
        name = run.state.setdefault("name", f"{run.name}-{uuid.uuid4().hex[:6]}")  # trackio finds runs by their names
        settings = {key: _plain(value) for key, value in run.settings.items()}
        self.run = trackio.init(
            PROJECT, name=name, group=run.data, config=settings, resume="allow" if goes_on else "never", embed=False
        )
        self.markdown, self.finish = trackio.Markdown, trackio.finish
        self.where = f"trackio show --project {PROJECT}"
        return max(0, self.run._next_step - 1)  # what was still on its way when a process was killed is not there

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
    """A setting as TensorBoard's and trackio's tables take it."""
    return value if isinstance(value, str | int | float | bool) else str(value)


def _pieces(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """So many at a time."""
    return (values[start : start + size] for start in range(0, len(values), size))
