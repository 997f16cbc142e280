"""Going on with a run: what may change, and where it stands."""

from typing import Any

from glassformer.config.errors import Misuse, Say, SettingError
from glassformer.config.resolve import BUDGETS, DATA_PATHS, FIXED, Config, flatten, resolve
from glassformer.families.base import Prepared
from glassformer.runs.run import DONE, Run
from glassformer.training.checkpointer import Snapshot, restore
from glassformer.training.schedule import total_steps


def resumed_config(run: Run, flags: dict[str, Any], *, may_change: bool = True) -> Config:
    """The run's own settings; how to train may change, but not what the optimiser remembers. Unless it `may_change`,
    how long to train alone.

    So may the place of the data: that it is the same is told by its fingerprint.
    """
    if "imported" in run.card():
        raise Misuse(f"{run.path} was imported and never trained here: train DATA --from {run.path} starts from it")
    run.verify_resumable()
    saved = run.config().to_dict()
    before = flatten(saved)
    free = {*DATA_PATHS, *BUDGETS, *(key for key in before if may_change and key.startswith("training."))} - {*FIXED}
    other = [key for key, value in flags.items() if key not in free and before.get(key) != value]
    if other:
        named = [key if len(other) > 1 else "it" for key in other]
        what = "; ".join(
            f"{name} was {before.get(key)!r}, not {flags[key]!r}" for name, key in zip(named, other, strict=True)
        )
        how = any(key.startswith("training.") and key not in FIXED for key in other)
        hint = f" (how to train may: --resume --out {run.path}, without DATA)" if how else ""
        raise SettingError(f"{', '.join(other)} cannot change when a run goes on: {what}{hint}")
    return resolve(saved, {key: value for key, value in flags.items() if before.get(key) != value})


def same_settings(one: Config, other: Config) -> bool:
    """Whether two runs' settings are the same, wherever their data lies."""
    first, second = (flatten(config.to_dict()) for config in (one, other))
    return all(first[key] == second[key] for key in first if key not in DATA_PATHS)


def snapshot_to_resume(
    run: Run, config: Config, prepared: Prepared, say: Say, *, same: bool = False
) -> Snapshot | None:
    """Where the run stands, if there is something left to do. `same`: nothing else was asked for, only its papers."""
    finished = run.card().get("status") in DONE
    found = run.newest_checkpoint(say)
    if found is None:
        if finished:
            raise Misuse(f"{run.path} had finished and has no checkpoint to go on from: --overwrite trains it anew")
        say("no checkpoint to go on from: starting again from the first step")
        return None
    snapshot = restore(*found)
    done, wanted = snapshot.progress.step, total_steps(config.training, prepared.task)
    if wanted is not None and (wanted < done or (finished and wanted == done and not same)):
        raise Misuse(f"{run.path} has made {done:,} updates, so {wanted:,} leave nothing to do: ask for more")
    _say_average(run.config().training.average, config.training.average, snapshot, say)
    return snapshot


def _say_average(before: int | None, span: int | None, snapshot: Snapshot, say: Say) -> None:
    """What becomes of the average of the weights, where it is not as it was."""
    if span is not None and not snapshot.average:
        say("training.average: the checkpoint holds no average yet, so it starts from the weights as they are")
    elif span is None and snapshot.average:
        say("training.average is unset: the checkpoint's average is dropped, and the weights are used as they are")
    elif span is not None and span != before:
        say(f"training.average: the average goes on, from here over about {span} updates")
