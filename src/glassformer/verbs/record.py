"""The log of a training: metrics.jsonl, and samples on the way."""

import time
from dataclasses import asdict
from typing import Any

from torch import nn

from glassformer.config.resolve import Config
from glassformer.models.language_model import LanguageModel
from glassformer.runs.run import Run
from glassformer.training.events import Ended, Event, Listener, Sampled, Stepped, Validated
from glassformer.verbs.prepare import Prepared
from glassformer.verbs.write import Writer


class Recorder:
    """Writes metrics.jsonl and samples, and passes every event on."""

    def __init__(self, run: Run, model: nn.Module, prepared: Prepared, config: Config, listen: Listener) -> None:
        self.run = run
        samples = config.training.samples and prepared.tokenizer.start is not None  # they begin with START
        self.writer = Writer(model, prepared.tokenizer) if samples and isinstance(model, LanguageModel) else None
        self.listen = listen
        self.lines: list[dict[str, Any]] = []
        self.flushed = time.monotonic()

    def __call__(self, event: Event) -> None:
        self.listen(event)
        if isinstance(event, Stepped):
            self.lines.append({"event": "step", **asdict(event)})
        elif isinstance(event, Validated):
            self.lines.append(
                {"event": "validation", "step": event.step, "best": event.best, **event.evaluation.metrics}
            )
            if self.writer is not None:
                text = self.writer.generate(tokens=60, temperature=0.8, seed=event.step)
                self.lines.append({"event": "sample", "step": event.step, "text": text})
                self.listen(Sampled(event.step, text))
        if isinstance(event, Ended) or time.monotonic() - self.flushed > 1:
            self.flush()

    def flush(self) -> None:
        self.run.add_metrics(*self.lines)
        self.lines, self.flushed = [], time.monotonic()
