"""What is asked of a family: to recognise data and complete a configuration, or to evaluate a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from glassformer.config.resolve import BUDGETS, Config, flatten, resolve, with_new_names
from glassformer.config.say import Say
from glassformer.config.sections import DataSettings
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.io.aligned import is_tmx
from glassformer.data.io.place import find
from glassformer.finetuning.settings import Finetuning

NO_DATA = "no data: name a text file, a folder, a table, or an embedded data set (`glassformer data` lists them)"


class Recognition(NamedTuple):
    """What the data turned out to be for."""

    config: Config
    rows: Any = None
    """The table, pairs or images, where they had to be read."""


@dataclass(frozen=True)
class ConfigRequest:
    """Settings as a person gave them, to be completed by what the data looks like."""

    file: Mapping[str, Any]
    flags: Mapping[str, Any]
    say: Say = field(repr=False)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """File and flags by dotted key; flags win."""
        return {**flatten(self.file), **flatten(self.flags)}

    @property
    def task(self) -> str | None:
        return self.settings.get("task")

    @property
    def path(self) -> str | None:
        return self.settings.get("data.path")

    @cached_property
    def data(self) -> DataSettings:
        reading = {key: value for key, value in self.settings.items() if key.startswith("data.")}
        return DataSettings(**{key.removeprefix("data."): value for key, value in reading.items()})

    @cached_property
    def finetuning(self) -> Finetuning | None:
        """The runs that it starts from."""
        return Finetuning.of(self.settings)

    @property
    def has_budget(self) -> bool:
        return any(self.settings.get(budget) is not None for budget in BUDGETS)

    @property
    def starts(self) -> Mapping[str, Any]:
        """Where settings start for an embedded data set."""
        return {} if self.path is None or find(self.path) is not None else open_dataset(self.path).settings

    def resolve(
        self, found: Mapping[str, Any], *, starts: Mapping[str, Any] | None = None, rows: int | None = None
    ) -> Config:
        """The whole configuration. `found`: what the data says."""
        if self.finetuning is None:
            return resolve(self.file, self.flags, found, starts=starts)
        more = self.finetuning.settings(self.task or found["task"], rows)
        return self.finetuning.finish(resolve(self.file, self.flags, {**found, **more}, starts=starts))


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What to evaluate on, and how."""

    data: str | None = None
    part: str | None = None
    stride: int | None = None
    beam: int | None = None
    length_penalty: float | None = None
    lowercase: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Data settings that differ from the run's."""

    @property
    def other_data(self) -> bool:
        """Whether it is data that the run may not know."""
        return self.data is not None or self.files

    @property
    def files(self) -> bool:
        return any(name in self.reading for name in ("source_file", "target_file"))

    def settings(self, config: Config) -> DataSettings:
        """How the data is read: as the run's was, but for what is said."""
        if not self.other_data:
            return config.data
        place = {"path": self.data, "source_file": None, "target_file": None}
        settings = replace(config.data, **{**place, **with_new_names(self.reading)})
        if is_tmx(self.data or "") and not is_tmx(config.data.path or ""):  # no columns: languages
            return replace(settings, source=self.reading.get("source"), target=self.reading.get("target"))
        return settings
