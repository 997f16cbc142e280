"""Which settings mattered: how far the values of the best trials stand from those of all (PED-ANOVA)."""

import warnings

from glassformer.trials.tuning.optional import optuna
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.tried import best_of

LEAST = 8
"""Trials that are whole: of fewer, nothing can be said."""
BEST = 0.25
"""The share of them that counts as the best."""


def mattered(study: "optuna.Study", search: Search) -> dict[str, float]:
    """A share for each setting of the best model that all its trials have, the largest first; empty: too few trials."""
    best = best_of(study, search)
    if best is None:
        return {}
    alike = [trial for trial in study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)) if trial.params]
    if len(search.models) > 1:
        alike = [trial for trial in alike if trial.params.get("model") == best.params.get("model")]
    if len(alike) < LEAST:
        return {}
    common = set.intersection(*(set(trial.params) for trial in alike))
    varied = {name for name in common if len({str(trial.params[name]) for trial in alike}) > 1}
    if not varied or len({trial.value for trial in alike}) < 3:  # nothing to tell the best from
        return {}
    copy = optuna.create_study(direction="minimize" if search.lower_is_better else "maximize")
    for trial in alike:
        copy.add_trial(
            optuna.trial.create_trial(
                value=trial.value,
                params={name: trial.params[name] for name in sorted(varied)},
                distributions={name: trial.distributions[name] for name in sorted(varied)},
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Target and region quantiles")  # many equal scores
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=BEST)
        shares = optuna.importance.get_param_importances(copy, evaluator=evaluator)
    return {name.split(": ")[-1]: float(share) for name, share in shares.items()}
