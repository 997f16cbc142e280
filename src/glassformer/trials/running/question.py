"""What a comparison asks: its rows, and every training that they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.resolve import BUDGETS, check_ranges, resolve, that_writes
from glassformer.config.say import Say, silent
from glassformer.families.infer import infer_config
from glassformer.trials.baselines.names import floors_of, references_of
from glassformer.trials.outcome import FLOOR, GIVEN, REFERENCE, TRAINED, Cell
from glassformer.trials.running.ablate import ablations
from glassformer.trials.running.begun import begun_rows
from glassformer.trials.running.ladder import few, ladder, rung
from glassformer.trials.running.shared import Shared, settings_for, share
from glassformer.trials.running.vary import grid
from glassformer.trials.running.width import width_for

LADDER, FRACTIONS, SIZES, VARY, ABLATION = "ladder", "fractions", "sizes", "vary", "ablation"
SEEDS = 3
FRACTION, SIZE = "data.train_fraction", "model.size"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a person asks for, beside the data and its settings."""

    models: tuple[str, ...] = ()
    """None: the ladder, or the Transformer where settings are varied."""
    varied: Mapping[str, Sequence[Any]]
    """By dotted key; `FRACTION` and `SIZE` among them."""
    ablate: bool = False
    seeds: int = SEEDS
    folds: int | None = None
    parameters: int | None = None
    floors: bool = True
    references: bool = True
    runs: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    """Runs to begin from."""

    def __post_init__(self) -> None:
        for flag, there in (("--ablate", self.ablate), ("--parameters", self.parameters is not None)):
            if self.begun and there:
                raise Misuse(
                    f"{flag} decides how models are built, and --from keeps the body of a run: give one of them"
                )
        if self.ablate and self.varied:
            raise Misuse(f"--ablate takes parts out one by one: it does not go with varying {next(iter(self.varied))}")
        if self.ablate and any(rung(name)["model.encoder"] != "transformer" for name in self.models):
            raise Misuse("--ablate takes the Transformer apart: leave --models and --model away")
        for key in (SIZE, "model.width"):
            if self.parameters is not None and key in self.varied:
                raise Misuse(f"--parameters chooses model.width for each model: it does not go with varying {key}")

    @property
    def mode(self) -> str:
        if self.ablate:
            return ABLATION
        if not self.varied:
            return LADDER
        (only, *more) = self.varied
        return VARY if more else {FRACTION: FRACTIONS, SIZE: SIZES}.get(only, VARY)

    @property
    def repeats(self) -> int:
        return self.folds or self.seeds


@dataclass(frozen=True)
class Question:
    """Rows, trainings, and what may not change while one adds to them."""

    asked: Asked
    shared: Shared
    cells: list[Cell]
    """In the order in which they are best done: what is quick first, then every model with the first seed, …"""
    widths: dict[str, int]
    """What `parameters` came to, by model."""

    @property
    def same(self) -> dict[str, Any]:
        """The comparison's identity: what is in its folder belongs together as long as this is equal."""
        return {
            "data": self.shared.fingerprint,
            "settings": self.shared.settings,
            "mode": self.asked.mode,
            "folds": self.asked.folds,
            "parameters": self.asked.parameters,
            "part": self.shared.part,
        }

    @property
    def budget(self) -> str:
        """How long each model is trained, in words."""
        said = self.shared.settings
        words = "each model's usual number of updates"
        if set(BUDGETS) & set(self.asked.varied):
            words = "as long as each row says"
        for key, unit in (("steps", "update"), ("epochs", "epoch"), ("minutes", "minute")):
            if (value := said.get(f"training.{key}")) is not None:
                words = f"{value:,} {unit}{'s' * (value != 1)} each".replace(".0 ", " ")
        if self.asked.parameters is not None:
            words += f"; about {self.asked.parameters:,} parameters each"
        return words


def ask(said: Mapping[str, Any], asked: Asked, say: Say) -> Question:
    """From what was said to what is to be done. What no model could use is refused here, before anything is trained."""
    check_ranges(said)
    folded = {} if asked.folds is None else {"data.folds": asked.folds, "data.fold": 0}
    if asked.folds is not None and "data.validation_fraction" in said:
        raise Misuse("--folds says how much is held out for validation: leave --data.validation_fraction away")
    if asked.folds is not None and asked.runs:
        raise Misuse("--runs are judged on one part of the data, and --folds has several: give one of them")
    for key in ("training.last_blocks", "training.layer_decay"):
        if asked.begun and said.get(key) is not None:
            raise Misuse(
                f"--{key}: a comparison has each run fine-tuned and frozen, beside models that begin from nothing: "
                "leave it away"
            )
    shared = share({**said, **folded}, asked.models or ("transformer",), list(asked.varied), say)
    task, kind = shared.config.task, shared.config.data.kind
    models = asked.models or _models(asked.mode, task, kind)
    rows = ablations(_ablated(shared, models[0])) if asked.ablate else grid(asked.varied)
    own = {name: rung(name) for name in models}
    widths = {}
    if asked.parameters is not None:
        widths = width_for(asked.parameters, {name: settings_for(shared, own[name])[0] for name in models}, shared, say)
        for name, (key, width) in widths.items():
            own[name][key] = width
    _used_by_some(said, [own[name] for name in models], shared, say)
    begun = begun_rows(asked.begun, shared, say)
    cells = [*_counted(asked, shared, rows), *_given(asked, shared)]
    for repeat in range(asked.repeats):
        for name in models:
            for varied in rows:
                settings, _ = settings_for(shared, {**own[name], **varied})
                cell = Cell(name=name, kind=TRAINED, settings=settings, varied=varied, repeat=repeat)
                cells.append(_repeated(cell, asked))
        for row in begun:
            for varied in rows:
                settings = row.settings(shared, varied)
                cell = Cell(name=row.name, settings=settings, varied=varied, repeat=repeat, begins=row.weights)
                cells.append(_repeated(cell, asked))
    _refuse_all_refused([cell for cell in cells if cell.kind == TRAINED and cell.repeat == 0], shared)
    return Question(asked, shared, cells, {name: width for name, (_, width) in widths.items()})


def _models(mode: str, task: str, kind: str) -> tuple[str, ...]:
    if mode == LADDER:
        return ladder(task, kind)
    return few(task, kind) if mode == FRACTIONS else ("transformer",)


def _ablated(shared: Shared, name: str) -> Any:
    """The whole Transformer's configuration."""
    settings, _ = settings_for(shared, rung(name))
    return resolve({}, {**settings, "task": shared.config.task, "data.kind": shared.config.data.kind}, strict=False)


def _repeated(cell: Cell, asked: Asked) -> Cell:
    """With its own seed, or its own fold."""
    if asked.folds is not None:
        return replace(cell, settings={**cell.settings, "data.fold": cell.repeat})
    seed = cell.settings.get("training.seed", 0) + cell.repeat
    return replace(cell, settings={**cell.settings, "training.seed": seed})


def _counted(asked: Asked, shared: Shared, rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Floors and references: once, or for every fold and every part of the data that is learned from."""
    task, kind = shared.config.task, shared.config.data.kind
    names = [(name, FLOOR) for name in floors_of(task, kind)] if asked.floors else []
    if asked.references and asked.mode in (LADDER, FRACTIONS):
        names += [(name, REFERENCE) for name in references_of(task, kind)]
    of_data = [varied for varied in rows if varied and set(varied) == {FRACTION}] or [{}]
    repeats = asked.folds or 1
    folds = [{"data.fold": fold} if asked.folds else {} for fold in range(repeats)]
    return [
        Cell(
            name=name,
            kind=what,
            settings={**shared.of_data, **varied, **fold},
            varied=dict(varied),
            repeat=repeat,
        )
        for repeat, fold in enumerate(folds)
        for name, what in names
        for varied in of_data
    ]


def _given(asked: Asked, shared: Shared) -> list[Cell]:
    """Runs that were there before: judged on the same examples, of every fold the same."""
    where = {run: str(Path(run).resolve()) for run in asked.runs}
    return [Cell(name=run, kind=GIVEN, settings={**shared.of_data, "run": where[run]}) for run in asked.runs]


def _refuse_all_refused(rows: Sequence[Cell], shared: Shared) -> None:
    """One model of several that cannot be is a row with its reason; where none can be, that is the answer."""
    found = {"task": shared.config.task, "data.kind": shared.config.data.kind}
    for cell in rows:
        try:
            that_writes(resolve({}, cell.settings, found))
        except SettingError:
            continue
        return
    infer_config({}, rows[0].settings, silent)  # as its training would: it says why


def _used_by_some(said: Mapping[str, Any], models: list[dict[str, Any]], shared: Shared, say: Say) -> None:
    """A setting that some models have no use for is left out there, and said; one that none uses is an error."""
    idle = [settings_for(shared, own)[1] for own in models]
    for key in said:
        without = [own["model.encoder"] for own, unused in zip(models, idle, strict=True) if key in unused]
        if without and len(without) == len(models):
            raise SettingError(idle[0][key])
        if without:
            say(f"{key} is not used by {', '.join(dict.fromkeys(without))}: left out there")
