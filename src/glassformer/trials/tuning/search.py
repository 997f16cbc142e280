"""A search: its fixed settings, its spaces and the defaults. All of its processes read the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import listening, silent
from glassformer.config.resolve import (
    BUDGETS,
    DATA_PATHS,
    Config,
    flatten,
    full_key,
    keys,
    read_config,
)
from glassformer.config.setting import value_text
from glassformer.data.io.table import Table
from glassformer.families.base import FAMILIES
from glassformer.families.recognition import RUNS, infer_config, with_vectors
from glassformer.finetuning.settings import Finetuning
from glassformer.pipeline.request import TrainRequest
from glassformer.runs.run import Run
from glassformer.runs.weight_files import digest_of
from glassformer.trials.settings import read_settings, refuse_reserved
from glassformer.trials.tuning.space import Dimension, default_space, dotted, plain, read_space

MODEL = "model"
"""Name of the dimension for the choice of the model."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """Many training runs that differ in the searched settings."""

    task: str
    settings: dict[str, Any]
    """Fixed settings by dotted key: the same in every trial."""
    spaces: dict[str, list[Dimension]]
    """Search space by name of the model."""
    starts: dict[str, dict[str, Any]]
    """Default of every setting by model."""
    seeds: int = 1
    """Number of training runs whose mean is a trial's score."""
    folds: int | None = None
    """Number of folds, which replace the seeds."""
    prune: bool = True
    begins: dict[str, str] = field(default_factory=dict)
    """Digest of the weights of each run that is fine-tuned from, by the setting that names the run."""

    @property
    def lower_is_better(self) -> bool:
        return FAMILIES[self.task].lower_is_better or self.settings.get("training.choose_by") == "loss"

    @property
    def models(self) -> list[str]:
        return list(self.spaces)

    @property
    def repeats(self) -> list[dict[str, Any]]:
        """Settings in which the training runs of a trial differ."""
        if self.folds is not None:
            return [{"data.folds": self.folds, "data.fold": fold} for fold in range(self.folds)]
        first = int(self.settings.get("training.seed", 0))
        return [{"training.seed": first + number} for number in range(self.seeds)]

    def name_of(self, model: str, dimension: Dimension) -> str:
        """Return a dimension's name in the study; models may share a setting, but not its range."""
        return dimension.name if len(self.spaces) == 1 else f"{model}: {dimension.name}"

    def start_of(self, model: str) -> dict[str, Any] | None:
        """Return the defaults of a model as values of the dimensions; None if a dimension excludes its default."""
        starts = self.starts[model]
        used = {dimension.key: dimension for dimension in reversed(self.spaces[model]) if dimension.applies(starts)}
        if not all(dimension.holds(starts[key]) for key, dimension in used.items()):
            return None
        named = {
            self.name_of(model, dimension): int(starts[key]) if dimension.whole else starts[key]
            for key, dimension in used.items()
        }
        return {MODEL: model, **named} if len(self.spaces) > 1 else named

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "spaces": {model: plain(space) for model, space in self.spaces.items()}}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{**value, "spaces": {model: read_space(space, model) for model, space in value["spaces"].items()}})

    def identity(self) -> dict[str, Any]:
        """Return the facts in which two calls must agree to belong to the same search; paths may differ."""
        settings = {key: Path(value).name if key in DATA_PATHS else value for key, value in self.settings.items()}
        settings |= {key: f"a run with weights {digest}" for key, digest in self.begins.items()}
        spaces = {
            f"the space of {model}: {key}": value
            for model, space in self.spaces.items()
            for key, value in plain(space).items()
        }
        head = {"--model": ",".join(self.models), "--seeds": self.seeds, "--folds": self.folds}
        return {**head, **{f"--{key}": value for key, value in settings.items()}, **spaces}

    def difference(self, before: Mapping[str, Any]) -> str | None:
        """Return the first difference to a search with another identity as a phrase; None if there is none."""

        def text(value: Any) -> str:
            return "not set" if value is None else value_text(value)

        now = self.identity()
        for name in {**before, **now}:
            if now.get(name) != before.get(name):
                return f"{name} was {text(before.get(name))}, and now is {text(now.get(name))}"
        return None


def plan_search(
    data: str | Path | None,
    models: Sequence[str],
    settings: Mapping[str, Any],
    *,
    config: str | Path | None = None,
    space: str | Path | Mapping[str, Any] | None = None,
) -> Search:
    """Return the requested search; it reads the data to infer the task."""
    requested = read_settings(TrainRequest(data=data, config=config, settings=settings))
    fixed = {key: value for key, value in requested.items() if value is not None}
    refuse_reserved(fixed, "tune")
    source = Finetuning.of(fixed)
    encoder = fixed.pop("model.encoder", "transformer" if source is None else source.encoder)
    configs: dict[str, Config] = {}
    characters = None
    for model in models or [encoder]:
        whole = flatten({**fixed, "model": model})
        with listening(silent if configs else None):
            configs[model], rows = infer_config({}, with_vectors(whole, whole))
        if isinstance(rows, Table):
            text = configs[model].data.text
            characters = sum(map(len, rows.texts(text))) if text is not None else None
    task = next(iter(configs.values())).task
    fixed_of = {model: {*fixed, *flatten({"model": model})} for model in configs}
    if space is None:
        spaces = {model: default_space(start, fixed_of[model], characters) for model, start in configs.items()}
    else:
        spaces = _read_spaces(space, configs, fixed_of)
    return Search(
        task=task,
        settings={**fixed, "task": task},
        spaces=spaces,
        starts={model: {key: start.get(key) for key in keys()} for model, start in configs.items()},
        begins={key: digest_of(Run.open(fixed[key]).path)[:12] for key in RUNS if key in fixed},
    )


def _read_spaces(
    space: str | Path | Mapping[str, Any], configs: Mapping[str, Config], fixed_of: Mapping[str, set[str]]
) -> dict[str, list[Dimension]]:
    where = str(space) if isinstance(space, str | Path) else "space"
    whole = read_config(space) if isinstance(space, str | Path) else dict(space)
    own = {model: whole.pop(model) for model in configs if isinstance(whole.get(model), dict)}
    out = {}
    for model, config in configs.items():
        dimensions = read_space({**whole, **own.get(model, {})}, where)
        out[model] = _usable(dimensions, config, fixed_of[model], where, alone=len(configs) == 1)
    searched = {dimension.key for usable in out.values() for dimension in usable}
    for key in dotted(whole) if len(configs) > 1 else ():
        if full_key(key) not in searched:
            raise SettingError(f"{where}: {key} is fixed, or used by none of {', '.join(configs)}")
    return out


def _usable(space: Sequence[Dimension], config: Config, fixed: set[str], where: str, *, alone: bool) -> list[Dimension]:
    """Return a space without fixed settings; with several models, also without settings that this one does not use."""
    out = []
    for dimension in space:
        key = dimension.key
        if FAMILIES[config.task].reads_stream and key.startswith("tokenizer."):
            raise SettingError(
                f"{where}: {key} changes the tokens, so losses per token would not compare: give one value with --{key}"
            )
        if key in BUDGETS and not fixed.isdisjoint(BUDGETS):  # another budget already determines the length of training
            continue
        why = None if dimension.when else config.idle(key)
        others = {other.key for other in space} - {key}
        if why is not None and alone and not any(f" {other} " in why for other in others):
            raise SettingError(f"{where}: {why}")
        if key not in fixed and (why is None or alone):
            out.append(dimension)
    if not out:
        raise Misuse(f"{where}: every setting in it is fixed, so nothing is left to search")
    return out
