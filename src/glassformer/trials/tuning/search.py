"""A search: what is given, what is searched, and where the settings start. Every process of it reads the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import PACKED, REGRESSION
from glassformer.config.resolve import BUDGETS, Config, flatten, keys
from glassformer.config.say import Say, silent
from glassformer.families.infer import infer_config
from glassformer.families.resume import PATHS
from glassformer.families.settings import RUNS, read_config, with_vectors
from glassformer.finetuning.begin import Beginning
from glassformer.finetuning.source import weights_digest
from glassformer.runs.run import Run
from glassformer.trials.settings import read_settings, refuse_reserved
from glassformer.trials.tuning.space import Dimension, plain, read_space
from glassformer.trials.tuning.space_defaults import default_space

MODEL = "model"
"""The name of the dimension that chooses among several models."""
LOWER = (*PACKED, REGRESSION)
"""The tasks whose primary metric is a loss or an error."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """Many trainings that differ in what is searched."""

    task: str
    settings: dict[str, Any]
    """ModelInput, by dotted key: the same in every trial."""
    spaces: dict[str, list[Dimension]]
    """By model, as a person names it."""
    starts: dict[str, dict[str, Any]]
    """By model, every setting as it would be if nothing were searched."""
    seeds: int = 1
    """Trainings whose mean is a trial's score."""
    folds: int | None = None
    """Each of them with another fold held out, instead of another seed."""
    prune: bool = True
    begins: dict[str, str] = field(default_factory=dict)
    """A digest of the weights of each run that is begun from, by the setting that names it."""

    @property
    def lower_is_better(self) -> bool:
        return self.task in LOWER

    @property
    def models(self) -> list[str]:
        return list(self.spaces)

    @property
    def repeats(self) -> list[dict[str, Any]]:
        """What tells the trainings of a trial from each other."""
        if self.folds is not None:
            return [{"data.folds": self.folds, "data.fold": fold} for fold in range(self.folds)]
        first = int(self.settings.get("training.seed", 0))
        return [{"training.seed": first + number} for number in range(self.seeds)]

    def name_of(self, model: str, dimension: Dimension) -> str:
        """Of a dimension among all; models may share a setting, but not its range."""
        return dimension.name if len(self.spaces) == 1 else f"{model}: {dimension.name}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "settings": self.settings,
            "spaces": {model: plain(space) for model, space in self.spaces.items()},
            "starts": self.starts,
            "seeds": self.seeds,
            "folds": self.folds,
            "prune": self.prune,
            "begins": self.begins,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        spaces = {model: read_space(space, model) for model, space in value["spaces"].items()}
        return cls(**{**value, "spaces": spaces})

    def identity(self) -> dict[str, Any]:
        """What two searches must share to be one, wherever their data and the runs they begin from lie; values that
        conditions look up are not.
        """
        settings = {key: Path(value).name if key in PATHS else value for key, value in self.settings.items()}
        settings |= {key: f"a run with weights {digest}" for key, digest in self.begins.items()}
        flat = {f"--{key}": value for key, value in settings.items()}
        for model, space in self.spaces.items():
            flat |= {f"the space of {model}: {key}": value for key, value in plain(space).items()}
        return {"--model": ",".join(self.models), "--seeds": self.seeds, "--folds": self.folds, **flat}


def differs(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """In words, the first thing in which a search that is asked for is not the one that was begun."""
    for name in {**other, **one}:
        if one.get(name) != other.get(name):
            return f"{name} was {_said(other.get(name))}, and now is {_said(one.get(name))}"
    return None


def _said(value: Any) -> str:
    return "not given" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def plan_search(
    data: str | Path | None,
    models: Sequence[str],
    settings: Mapping[str, Any],
    *,
    config: str | Path | None,
    space: str | Path | Mapping[str, Any] | None,
    seeds: int,
    folds: int | None = None,
    prune: bool,
    say: Say,
) -> Search:
    """From what a person asked for; looks at the data, to learn what it is for."""
    given = {key: value for key, value in read_settings(data, config, settings).items() if value is not None}
    refuse_reserved(given, "tune")
    begun = Beginning.of(given)
    usual = "transformer" if begun is None else begun.encoder
    models = list(dict.fromkeys(models)) or [given.pop("model.encoder", usual)]
    given.pop("model.encoder", None)
    configs = {}
    for number, model in enumerate(models):
        said = flatten({**given, "model": model})
        configs[model], _ = infer_config({}, with_vectors(said, said), silent if number else say)
    first = configs[models[0]]
    spaces = _spaces(space, configs, given)
    return Search(
        task=first.task,
        settings={**given, "task": first.task},
        spaces=spaces,
        starts={model: {key: one.get(key) for key in keys()} for model, one in configs.items()},
        seeds=seeds,
        folds=folds,
        prune=prune,
        begins={key: weights_digest(Run.open(given[key]).path)[:12] for key in RUNS if key in given},
    )


def _spaces(
    space: str | Path | Mapping[str, Any] | None, configs: Mapping[str, Config], given: Mapping[str, Any]
) -> dict[str, list[Dimension]]:
    variants = {model: {*given, *flatten({"model": model})} for model in configs}
    if space is None:
        return {model: default_space(config, variants[model]) for model, config in configs.items()}
    where = str(space) if isinstance(space, str | Path) else "space"
    whole = read_config(space) if isinstance(space, str | Path) else dict(space)
    own = {model: whole.pop(model) for model in configs if isinstance(whole.get(model), dict)}
    out = {}
    for model, config in configs.items():
        said = read_space({**whole, **own.get(model, {})}, where)
        _check_task(said, config, where)
        out[model] = _usable(said, config, variants[model], where, alone=len(configs) == 1)
    for key in whole:
        if len(configs) > 1 and not any(dimension.key == key for dims in out.values() for dimension in dims):
            raise SettingError(f"{where}: {key} is given, or used by none of {', '.join(configs)}")
    return out


def _check_task(space: Sequence[Dimension], config: Config, where: str) -> None:
    for dimension in space:
        if config.task in PACKED and dimension.key.startswith("tokenizer."):
            raise SettingError(
                f"{where}: {dimension.key} changes what a token is, and losses per token could not be compared: "
                f"give one with --{dimension.key}"
            )


def _usable(space: Sequence[Dimension], config: Config, given: set[str], where: str, *, alone: bool) -> list[Dimension]:
    """Without what is given, and for one model of several, without what others use."""
    out = []
    for dimension in space:
        if dimension.key in BUDGETS and not given.isdisjoint(BUDGETS):  # any of them says how long to train
            continue
        why = None if dimension.when else config.idle(dimension.key)
        searched = {other.key for other in space}
        if why is not None and alone and not any(f" {key} " in why for key in searched - {dimension.key}):
            raise SettingError(f"{where}: {why}")
        if dimension.key not in given and (why is None or alone):
            out.append(dimension)
    if not out:
        raise Misuse(f"{where}: every setting in it is given as well, so nothing is left to search")
    return out
