"""What trials came to, for a person and for a program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.trials.results.metrics import titled
from glassformer.trials.tuning.optional import optuna
from glassformer.trials.tuning.search import MODEL, Search

OUTCOME = "outcome"
"""Of a trial that is done: its metrics, and why it is not whole."""
State = optuna.trial.TrialState
SAID = {State.COMPLETE: "", State.PRUNED: "stopped early", State.FAIL: "failed", State.RUNNING: "under way"}


@dataclass(frozen=True)
class Tried:
    """One trial."""

    number: int
    state: str
    """complete, pruned or failed."""
    value: float | None
    """The primary metric on the validation part; of a trial stopped early, the last there was."""
    settings: dict[str, Any]
    """What was searched, as this one had it."""
    words: str
    """The same for a person: what is not as it starts."""
    why: str = ""
    parameters: int | None = None
    steps: int | None = None
    seconds: float | None = None


def best_of(study: "optuna.Study", search: Search) -> "optuna.trial.FrozenTrial | None":
    return best_among(study.get_trials(deepcopy=False), search)


def best_among(trials: "Sequence[optuna.trial.FrozenTrial]", search: Search) -> "optuna.trial.FrozenTrial | None":
    """The best score; of equal ones, the one with the smaller loss, then the earlier."""
    whole = [trial for trial in trials if trial.state == State.COMPLETE]
    sign = 1 if search.lower_is_better else -1

    def rank(trial: "optuna.trial.FrozenTrial") -> tuple[float, float, int]:
        assert trial.value is not None
        return sign * trial.value, trial.user_attrs[OUTCOME]["metrics"].get("loss", 0.0), trial.number

    return min(whole, key=rank, default=None)


def tried(trial: "optuna.trial.FrozenTrial", search: Search) -> Tried:
    last = None if trial.last_step is None else trial.intermediate_values[trial.last_step]
    value = trial.value if trial.state == State.COMPLETE else last
    held, settings = trial.user_attrs.get(OUTCOME, {}), trial.user_attrs.get("settings", {})
    return Tried(
        number=trial.number,
        state={State.COMPLETE: "complete", State.PRUNED: "pruned"}.get(trial.state, "failed"),
        value=value,
        settings=settings,
        words=in_words(settings, search, start="start" in trial.user_attrs),
        why=held.get("why", ""),
        parameters=held.get("parameters"),
        steps=held.get("steps"),
        seconds=held.get("seconds"),
    )


def line_of(trial: "optuna.trial.FrozenTrial", study: "optuna.Study", search: Search) -> str:
    """A trial that has just finished: its score, the best so far, and what it tried."""
    best = best_of(study, search)
    one = tried(trial, search)
    if one.state == "complete":
        score = f"{titled(trial.user_attrs[OUTCOME]['primary'])} {one.value:.4f}" + (f", {one.why}" if one.why else "")
    else:
        score = f"{SAID[trial.state]}: {one.why}"
    so_far = ""
    if best is not None:
        so_far = "  (best so far)" if best.number == trial.number else f"  (best {best.value:.4f}, trial {best.number})"
    return f"trial {one.number}: {score}{so_far}  {one.words}"


def in_words(settings: dict[str, Any], search: Search, *, start: bool = False) -> str:
    """What is not as it starts: `lr 0.002, dropout 0.3`; the model where there are several."""
    model = [str(settings[MODEL])] if len(search.models) > 1 and MODEL in settings else []
    if start:
        return ", ".join([*model, "settings as they start"])
    starts = search.starts.get(settings.get(MODEL, ""), {})
    other = {key: value for key, value in settings.items() if key != MODEL and starts.get(key) != value}
    return ", ".join([*model, *(f"{short(key)} {said(value)}" for key, value in other.items())])


def short(key: str) -> str:
    return key.split(".")[-1]


def said(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
