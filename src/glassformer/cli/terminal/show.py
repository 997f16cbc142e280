"""What a person sees: results on stdout, everything else on stderr."""

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from glassformer.training.events import (
    Checkpointed,
    Diverged,
    Ended,
    Event,
    FindingReported,
    Noted,
    Sampled,
    Started,
    Stepped,
    Validated,
)
from glassformer.training.finding import NOTE

WIDE = 160  # where there is no terminal to fit into

errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
results = Console(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)


def say(text: str) -> None:
    errors.print(Text(text))


def say_next(where: str) -> None:
    """What to do with a run."""
    from glassformer.families.base import FAMILIES
    from glassformer.runs.run import Run

    run = Run.open(where)
    say(f"next: {FAMILIES[run.config().task].command(run.path, run.config())}")


CONTROL = {code: "·" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Without what would steer a terminal: a model may write any byte."""
    return text.translate(CONTROL)


def visible(text: str) -> str:
    """Line ends and tabs as signs, so that a token stays on its line."""
    return text.replace("\n", "⏎").replace("\t", "⇥")


def print_json(value: dict[str, Any]) -> None:
    """One object on one line, the last of stdout."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def table(*columns: str) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 else "right")
    return made


class Watcher:
    """Shows a training as it goes: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.task: TaskID
        self.smooth: float | None = None
        self.validation = ""
        self.said = time.monotonic()
        self.began: tuple[int, float] | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Noted):
            say(event.text)
        elif isinstance(event, Started):
            self._start(event)
        elif isinstance(event, Stepped):
            self._step(event)
        elif isinstance(event, Validated):
            evaluation = event.evaluation
            self.validation = f"validation {evaluation.metrics[evaluation.primary]:.4f}"
            self._line(f"step {event.step:,}: validation {evaluation.summary}{'  best so far' if event.best else ''}")
        elif isinstance(event, Sampled):
            self._line("  │ " + printable(event.text).strip("\n").replace("\n", "\n  │ "))
        elif isinstance(event, FindingReported):
            if event.finding.severity != NOTE:  # those are for the report, and for glassformer doctor
                self._line(f"doctor: {printable(event.finding.line)}")
        elif isinstance(event, Ended):
            self.close()
        else:
            assert isinstance(event, Checkpointed | Diverged)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _start(self, event: Started) -> None:
        budget = f"{event.steps:,} updates" if event.steps is not None else f"{event.minutes:g} minutes"
        gone = f", going on after {event.step:,}" if event.step else ""
        say(f"training: {budget}{gone}; {'; '.join(event.notes)}")
        if errors.is_terminal:
            self.bar = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(compact=True),
                console=errors,
                transient=True,
            )
            self.task = self.bar.add_task("", total=1.0, text="")
            self.bar.start()

    def _step(self, event: Stepped) -> None:
        self.smooth = event.loss if self.smooth is None else 0.95 * self.smooth + 0.05 * event.loss
        if self.began is None:
            self.began = (event.tokens, event.seconds)
        tokens, seconds = event.tokens - self.began[0], event.seconds - self.began[1]
        speed = f"{tokens / seconds:,.0f} tokens/s" if seconds > 0 else ""
        text = "  ".join(
            part for part in (f"step {event.step:,}", f"loss {self.smooth:.4f}", self.validation, speed) if part
        )
        if self.bar is not None:
            self.bar.update(self.task, completed=event.done, text=text)
        elif time.monotonic() - self.said > 10:
            self._line(f"{event.done:4.0%}  {text}")

    def _line(self, text: str) -> None:
        self.said = time.monotonic()
        if self.bar is not None:
            self.bar.console.print(Text(text))
        else:
            say(text)
