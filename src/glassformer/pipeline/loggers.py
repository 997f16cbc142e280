"""A training's log for the eyes of others: TensorBoard, Weights & Biases, MLflow, trackio (`pipeline/log_stores.py`).

They are told the lines of metrics.jsonl. A run that goes on after a kill goes on in the same place: its `loggers.json`
holds the ids. What a place lacks of the log is told again, and what it has is not, since a run that goes on repeats its
updates; so no step is missing and none is there twice.
"""

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from glassformer.config.errors import RunError, Say, error_line, is_strict, silent
from glassformer.config.loggers import LOGGERS, logger_names, missing_package
from glassformer.config.resolve import flatten
from glassformer.pipeline.log_stores import STORES, LoggedRun, LogStore, Row
from glassformer.runs.files import read_json, write_json
from glassformer.runs.run import RUNS, Run

STATES = "loggers.json"
"""The file in a run's folder that says where it is logged: ids by name, and the last step that was told."""


def asked_loggers(given: str | Iterable[str] | None, run: Run | None) -> tuple[str, ...]:
    """Those that were asked for; where nobody said anything, those of the run that goes on."""
    names = logger_names(given)
    return names if names is not None else () if run is None else tuple(_read_states(run))


def _read_states(run: Run) -> dict[str, dict[str, Any]]:
    if not (run.path / STATES).is_file():
        return {}
    with contextlib.suppress(RunError):
        states = read_json(run.path / STATES)
        return {name: state for name, state in states.items() if name in LOGGERS and isinstance(state, dict)}
    return {}


class Loggers:
    """All that a training is logged to. One that fails is left out from then on, and the training goes on."""

    def __init__(self, run: Run, names: Iterable[str] = (), say: Say = silent, fail: Say = silent) -> None:
        self.run, self.names, self.say, self.fail = run, tuple(names), say, fail
        self.open: dict[str, LogStore] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.rows = Rows()

    def begin(self, card: Mapping[str, Any], step: int, *, same: bool) -> None:
        """Open them all. `step`: where the training goes on from; `same`: with the settings that it had, so that it
        repeats what was told of later steps."""
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
                self.say(f"logging to {name}: {store.where}")
        self.add(self.run.read_metrics() if step else [])

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Lines of the log, of which those of one step are told together."""
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
        """Close them all, with the scores of each part of the data, where it was judged."""
        self._add(list(self.rows.rest()))
        scores = {f"final/{part}/{name}": value for part, metrics in (parts or {}).items()
                  for name, value in _numbers(metrics)}  # fmt: skip
        for name, store in list(self.open.items()):
            with self._guard(name):
                store.end(status, scores, self.states[name]["step"])
        self.open = {}

    @contextlib.contextmanager
    def _guard(self, name: str) -> Iterator[None]:
        """A logger that fails is left out. What it prints is not heard: stdout is for the result of a command."""
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
    """Makes rows of the log's lines: everything about one step."""

    def __init__(self) -> None:
        self.row: Row | None = None
        self.tokens, self.seconds = 0, 0.0

    def take(self, lines: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
        """The rows that are whole: a later step has begun."""
        for line in lines:
            if (read := KINDS.get(line["event"])) is None:
                continue
            if self.row is not None and self.row.step != line["step"]:
                yield from self.rest()
            if self.row is None:
                self.row = Row(line["step"], {})
            read(self, self.row, line)

    def rest(self) -> Iterator[Row]:
        row, self.row = self.row, None
        if row is not None:
            yield row

    def _step(self, row: Row, line: Mapping[str, Any]) -> None:
        for name in ("loss", "lr", "gradient_norm"):
            if line[name] is not None:
                row.numbers[f"train/{name}"] = line[name]
        tokens, seconds = line["tokens"] - self.tokens, line["seconds"] - self.seconds
        self.tokens, self.seconds = line["tokens"], line["seconds"]
        if tokens > 0 and seconds > 0:
            row.numbers["train/tokens_per_second"] = tokens / seconds

    def _validation(self, row: Row, line: Mapping[str, Any]) -> None:
        row.numbers.update({f"validation/{name}": value for name, value in _numbers(line) if name != "step"})

    def _sample(self, row: Row, line: Mapping[str, Any]) -> None:
        row.text = line["text"]


KINDS: dict[str, Callable[[Rows, Row, Mapping[str, Any]], None]] = {
    "step": Rows._step,
    "validation": Rows._validation,
    "sample": Rows._sample,
}
"""What is told of the log, by the kind of line."""


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in values.items() if type(value) in (int, float))


def _short_name(run: Run) -> str:
    """A run as people call it: its folder as seen from runs/, or that folder's name alone."""
    path, above = run.path.resolve(), RUNS.resolve()
    return path.relative_to(above).as_posix() if path.is_relative_to(above) else path.name
