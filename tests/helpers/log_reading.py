"""What stands in the stores that trainings are logged to, read by their own readers where they have one."""

import html
import json
import sqlite3
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.runs.files import read_json


class Stored(NamedTuple):
    """One run as a store has it."""

    numbers: dict[str, list[tuple[int, float]]]
    """By name: steps and values, as often as they are there."""
    texts: dict[int, str]
    settings: dict[str, Any]
    final: dict[str, float]


def state_of(run: Path, name: str) -> dict[str, Any]:
    state: dict[str, Any] = read_json(run / "loggers.json")[name]
    return state


def split(numbers: dict[str, list[tuple[int, float]]]) -> tuple[dict[str, list[tuple[int, float]]], dict[str, float]]:
    """What was told on the way, and the last scores."""
    final = {name: values[-1][1] for name, values in numbers.items() if name.startswith("final/")}
    return {name: sorted(values) for name, values in numbers.items() if name not in final}, final


def read_tensorboard(run: Path) -> Stored:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    numbers = {tag: [(entry.step, entry.value) for entry in events.Scalars(tag)] for tag in tags["scalars"]}
    texts = {
        entry.step: entry.tensor_proto.string_val[0].decode()
        for tag in tags["tensors"]
        if tag.startswith("sample")
        for entry in events.Tensors(tag)
    }
    told = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    settings = {
        key: getattr(value, value.WhichOneof("kind"))
        for key, value in HParamsPluginData.FromString(told).session_start_info.hparams.items()
    }
    return Stored(*_with_texts(numbers, {step: text.replace("    ", "") for step, text in texts.items()}, settings))


def read_mlflow(run: Path) -> Stored:
    from mlflow import MlflowClient

    client, known = MlflowClient(), state_of(run, "mlflow")["run"]
    entry = client.get_run(known)
    numbers = {
        name: [(metric.step, metric.value) for metric in client.get_metric_history(known, name)]
        for name in entry.data.metrics
    }
    folder = Path(client.download_artifacts(known, "samples")) if client.list_artifacts(known) else None
    files = [] if folder is None else sorted(folder.iterdir())
    texts = {int(file.stem.removeprefix("step-")): file.read_text(encoding="utf-8") for file in files}
    return Stored(*_with_texts(numbers, texts, entry.data.params))


def read_trackio(run: Path) -> Stored:
    import trackio.utils

    name, numbers, texts = state_of(run, "trackio")["name"], defaultdict(list), {}
    with sqlite3.connect(trackio.utils.TRACKIO_DIR / "glassformer.db") as store:
        rows = store.execute("SELECT step, metrics FROM metrics WHERE run_name = ?", (name,)).fetchall()
        (settings,) = store.execute("SELECT config FROM configs WHERE run_name = ?", (name,)).fetchone()
    for step, values in rows:
        for key, value in json.loads(values).items():
            if key == "sample":
                texts[step] = value["_value"].replace("    ", "")
            else:
                numbers[key].append((step, value))
    return Stored(*_with_texts(dict(numbers), texts, json.loads(settings)))


def read_wandb(run: Path) -> Stored:
    """The offline folders of its id, the earlier one first."""
    known, numbers, texts = state_of(run, "wandb")["id"], defaultdict(list), {}
    settings: dict[str, Any] = {}
    final: dict[str, float] = {}
    files = sorted(Path("wandb").glob(f"offline-run-*-{known}/*.wandb"))
    until = time.monotonic() + 60
    while not any(record.HasField("exit") for record in _wandb_records(files[-1])) and time.monotonic() < until:
        time.sleep(0.1)  # W&B's own process may still write after `finish`
    for file in files:
        for record in _wandb_records(file):
            values = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in (*record.history.item, *record.summary.update)
            }
            settings |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            if record.WhichOneof("record_type") == "summary":
                final |= {key: value for key, value in values.items() if key.startswith("final/")}
            for key, value in values.items() if record.WhichOneof("record_type") == "history" else ():
                if key == "sample/path":
                    page = (file.parent / "files" / value).read_text(encoding="utf-8")
                    texts[values["_step"]] = html.unescape(page.partition("<pre>")[2].partition("</pre>")[0])
                elif not key.startswith(("_", "sample/")):
                    numbers[key].append((values["_step"], value))
    return Stored({name: sorted(values) for name, values in numbers.items()}, texts, settings, final)


def _wandb_records(file: Path) -> Iterator[Any]:
    """A .wandb file is a log as LevelDB writes it, after seven bytes of its own."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (room := 32768 - at % 32768) < 7:
            at += room
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last piece
            yield Record.FromString(whole)
            whole = b""


def _with_texts(
    numbers: dict[str, list[tuple[int, float]]], texts: dict[int, str], settings: dict[str, Any]
) -> tuple[Any, ...]:
    on_the_way, final = split(numbers)
    return on_the_way, texts, settings, final


READERS: dict[str, Callable[[Path], Stored]] = {
    "tensorboard": read_tensorboard,
    "wandb": read_wandb,
    "mlflow": read_mlflow,
    "trackio": read_trackio,
}
