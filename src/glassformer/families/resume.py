"""Resume a run: settings that may change, and the checkpoint to continue from."""

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
    """Return the run's settings with the allowed changes: budgets, data paths and, if `may_change`, training settings.

    The fingerprint shows whether data at another path is the same data.
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
    """Return whether the settings of two runs are equal, apart from the paths of their data."""
    first, second = (flatten(config.to_dict()) for config in (one, other))
    return all(first[key] == second[key] for key in first if key not in DATA_PATHS)


def snapshot_to_resume(run: Run, config: Config, prepared: Prepared, *, same: bool = False) -> Snapshot | None:
    """Return the checkpoint to continue from; None to start again from the first step.

    Raise `Misuse` if there is nothing left to do. `same`: the settings are unchanged, so that a finished run only
    writes its reports again.
    """
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
