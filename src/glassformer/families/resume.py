"""Going on with a run: what may change, and where it stands."""

from typing import Any

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import say
from glassformer.config.resolve import BOUND_TRAINING_KEYS, BUDGETS, DATA_PATHS, Config, flatten, resolve
from glassformer.config.setting import value_text
from glassformer.families.base import Prepared
from glassformer.runs.run import DONE, Run
from glassformer.training.checkpointer import Snapshot, restore
from glassformer.training.schedule import total_steps


def resumed_config(run: Run, flags: dict[str, Any], *, may_change: bool = True) -> Config:
    """Return the run's own settings with those that may change: budgets, data paths and, if it `may_change`, training.

    The fingerprint tells whether data at another path is the same.
    """
    if "imported" in run.card():
        raise Misuse(f"{run.path} was imported and never trained here: train DATA --from {run.path} starts from it")
    run.verify_resumable()
    saved = run.config().to_dict()
    before = flatten(saved)
    free = {*DATA_PATHS, *BUDGETS, *(key for key in before if may_change and key.startswith("training."))} - {
        *BOUND_TRAINING_KEYS
    }
    other = [key for key, value in flags.items() if key not in free and before.get(key) != value]
    if other:
        changes = "; ".join(f"{key} was {before.get(key)!r}, not {flags[key]!r}" for key in other)
        hint = "" if may_change else f"; training settings may change without DATA: --resume --out {run.path}"
        raise SettingError(f"{', '.join(other)} cannot change when a run goes on: {changes}{hint}")
    return resolve(saved, {key: value for key, value in flags.items() if before.get(key) != value})


def same_settings(one: Config, other: Config) -> bool:
    """Whether two runs' settings are the same, wherever their data lies."""
    first, second = (flatten(config.to_dict()) for config in (one, other))
    return all(first[key] == second[key] for key in first if key not in DATA_PATHS)


def snapshot_to_resume(run: Run, config: Config, prepared: Prepared, *, same: bool = False) -> Snapshot | None:
    """Where the run stands, if there is something left to do. `same`: nothing else was asked for, only its papers."""
    finished = run.card().get("status") in DONE
    found = run.newest_checkpoint()
    if found is None:
        if finished:
            raise Misuse(f"{run.path} had finished and has no checkpoint to go on from: --overwrite trains it anew")
        say("no checkpoint to go on from: starting again from the first step")
        return None
    snapshot = restore(*found)
    done, wanted = snapshot.progress.step, total_steps(config.training, prepared.task)
    if wanted is not None and (wanted < done or (finished and wanted == done and not same)):
        raise Misuse(f"{run.path} has made {done:,} updates, so {wanted:,} leave nothing to do: ask for more")
    before, span = run.config().training.average, config.training.average
    if span != before:
        start = "continues" if snapshot.average and span else "starts" if span else "is dropped"
        say(f"training.average was {value_text(before)} and is {value_text(span)}: the average {start} from here")
    return snapshot
