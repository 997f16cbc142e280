"""The log of a training: metrics.jsonl, and samples on the way."""

import time
from dataclasses import asdict
from typing import Any

from torch import nn

from glassformer.config.presets import TRANSLATION
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
        self.writer = None
        if config.training.samples and isinstance(model, LanguageModel):
            assert prepared.tokenizer is not None
            if prepared.tokenizer.start is not None:  # samples begin with START
                self.writer = Writer(model, prepared.tokenizer)
        self.translations = config.training.samples and config.task == TRANSLATION
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
            if (text := self._sample(event)) is not None:
                self.lines.append({"event": "sample", "step": event.step, "text": text})
                self.listen(Sampled(event.step, text))
        if isinstance(event, Ended) or time.monotonic() - self.flushed > 1:
            self.flush()

    def _sample(self, event: Validated) -> str | None:
        """What the model writes by now, or how it translates one of the sources held out."""
        if self.writer is not None:
            return self.writer.generate(tokens=60, temperature=0.8, seed=event.step)
        if not self.translations:
            return None
        record = event.evaluation.records[event.step % len(event.evaluation.records)]
        right = "" if record["exact"] else f"   ({record['target']})"
        return f"{record['source']} → {record['output']}{right}"

    def flush(self) -> None:
        self.run.add_metrics(*self.lines)
        self.lines, self.flushed = [], time.monotonic()
