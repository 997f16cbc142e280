"""The request for a training run, and its result."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from glassformer.config.encoders import OWN
from glassformer.config.errors import Misuse
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import silent
from glassformer.config.model_section import ModelSettings
from glassformer.config.units import duration
from glassformer.data.wording import counted
from glassformer.families.base import FAMILIES, OwnModel
from glassformer.families.card import learned_of
from glassformer.families.recognition import file_settings, flag_settings
from glassformer.models.build import sized
from glassformer.notebook.html import facts, line, table
from glassformer.pipeline.continuing import continued_run
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.training.budget import Clock, Stopwatch
from glassformer.training.events import Listener


@dataclass(frozen=True)
class Trained:
    """The result of a training run."""

    run: str
    task: str
    model: str
    parameters: int
    learned: int
    """Number of trained parameters."""
    steps: int
    seconds: float
    """Seconds of all updates, without validations."""
    reason: str
    """Reason for its end: finished, patience, or interrupted."""
    validation: dict[str, float]
    """Scores of the kept weights on the whole validation set."""
    summary: str
    """These scores as text."""
    best: dict[str, float]
    """Scores of the best validation during training, and its step."""
    test: dict[str, float] | None = None
    before_refit: JsonObject | None = None
    """Scores on held-out rows of the run before a refit."""
    lr: float | None = None
    """The learning rate of a run that continues a language model."""
    old_text: JsonObject | None = None
    """The loss on the validation text of that language model, `before` and `after`, with its `unit` and the number of
    `windows`; None if it was not measured."""
    skipped: dict[str, int] | None = None
    """Number of rows that were skipped, by reason; None if the data are not rows."""
    signal: int | None = field(default=None, compare=False)
    """The signal that stopped it, if any. Not part of `to_dict`."""
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """Lines about the data: columns, validation set and skipped rows; and about the language model that was continued.
    `to_dict` has only the warnings among them. A run that had finished before has none."""
    evaluations: dict[str, Evaluation] = field(default_factory=dict, repr=False, compare=False)
    """The same parts with a record for each example; they are not part of `to_dict`. A run that had finished before has
    none."""

    @classmethod
    def from_card(
        cls,
        run: Run,
        card: Mapping[str, Any],
        evaluations: dict[str, Evaluation] | None = None,
        remarks: tuple[str, ...] = (),
    ) -> Self:
        """Return the result that a run's card describes."""
        config, source = run.config(), card.get("from")
        continues = continued_run(config, source) is not None
        return cls(
            run=str(run.path),
            task=card["task"],
            model=FAMILIES[card["task"]].model_name(config),
            parameters=card["parameters"],
            learned=learned_of(card),
            steps=card["steps"],
            seconds=round(card["seconds"], 2),
            reason=REASONS.get(card["status"], card["status"]),
            validation=card.get("validation", {}),
            summary=card["words"].get("validation", ""),
            best=card.get("best", {}),
            test=card.get("test"),
            before_refit=card.get("before_refit"),
            lr=config.training.lr if continues else None,
            old_text=(source or {}).get("forgetting"),
            skipped=card["data"].get("skipped"),
            remarks=remarks,
            evaluations=evaluations or {},
        )

    def __fspath__(self) -> str:
        return self.run

    @property
    def line(self) -> str:
        """Summary in one line."""
        if self.before_refit is not None:
            how_good = f"before the refit, on rows held out: {self.before_refit['words']}"
        elif self.validation:
            how_good = f"validation {self.summary}"
        else:
            how_good = "nothing of the data was held out for validation"
        size, updates = sized(self.parameters, self.learned), counted(self.steps, "update")
        return f"{self.run}: {self.model}, {size}, {updates} in {self.seconds:.0f} s; {how_good}"

    def to_dict(self) -> JsonObject:
        named = (field.name for field in fields(self) if field.name not in ("evaluations", "remarks"))
        told = {name: value for name in named if (value := getattr(self, name)) is not None}
        warnings = [remark.removeprefix(WARNING) for remark in self.remarks if remark.startswith(WARNING)]
        return told | ({"warnings": warnings} if warnings else {})

    def _repr_html_(self) -> str:
        told = {"run": self.run, "task": self.task, "model": self.model, "size": sized(self.parameters, self.learned),
                "training": f"{counted(self.steps, 'update')} in {duration(self.seconds)}, {self.reason}"}  # fmt: skip
        scores = {name: part for name, part in (("validation", self.validation), ("test", self.test)) if part}
        names = dict.fromkeys(name for part in scores.values() for name in part)
        rows = [[name, *(part.get(name) for part in scores.values())] for name in names]
        return facts(told) + (table(("", *scores), rows) if rows else "") + "".join(map(line, self.remarks))


WARNING = "warning: "
"""Beginning of a remark that is a warning."""
REASONS = {"stopped early": "patience"}
"""Reasons for the end by the card's status; other reasons equal the status."""
BeforeRefit = Mapping[str, Any]
"""The runs before a refit: `words`, their `runs`, the `steps` of the refit, and scores."""


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A request for a training run."""

    data: str | Path | None = None
    out: str | Path | None = None
    config: str | Path | None = None
    """A file of settings."""
    model: str | ModelSettings | OwnModel | None = None
    resume: bool = False
    """Resume the run in `out`; start it if there is none and data is named."""
    overwrite: bool = False
    draft: bool = False
    """Whether the run is one of many: without test scores, pictures and report."""
    listen: Listener = field(default=silent, repr=False)
    command: str | None = None
    log_to: str | Sequence[str] | None = None
    """Names of loggers; None: a resumed run keeps its loggers."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=Stopwatch, repr=False)
    """Seconds since the command began."""
    expects_refit: bool = False
    """Whether a refit follows."""
    before_refit: BeforeRefit | None = None
    """The runs before this refit, which are in the same folder."""

    @property
    def own_model(self) -> OwnModel | None:
        return None if self.model is None or isinstance(self.model, str | dict | ModelSettings) else self.model

    @property
    def folder(self) -> Path | None:
        """Folder of the run; None for a new name under runs/."""
        if self.out is not None or not self.resume:
            return None if self.out is None else Path(self.out)
        if self.names_data:
            raise Misuse("--resume with DATA starts a run or goes on with it: name its folder with --out")
        return Run.last().path

    def flags(self) -> JsonObject:
        """Return the settings by dotted key, with absolute paths."""
        settings = dict(self.settings)
        if self.model is not None:
            settings["model"] = self.model if self.own_model is None else OWN
        return flag_settings(self.data, settings)

    @functools.cached_property
    def file(self) -> JsonObject:
        """The settings of the file, which is read only once, because it may be a pipe."""
        return file_settings(self.config)

    def all_settings(self) -> JsonObject:
        """Return the settings of the file, overridden by those given by name."""
        return {**self.file, **self.flags()}

    @property
    def names_data(self) -> bool:
        """Whether the request names data, so that it can start a run."""
        settings = self.all_settings()
        return any(settings.get(key) is not None for key in ("data.path", "data.source_file"))
