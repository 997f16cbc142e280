"""How good a run is, and where it is wrong: `gf.evaluate` and `gf.errors`."""

from typing import Any, Unpack

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse
from glassformer.config.messages import Say, say, takes_listener
from glassformer.data.io.memory import keep
from glassformer.error_analysis.analysis import check_request, comparison_view, error_view
from glassformer.families.base import AnyRun, Loaded
from glassformer.families.evaluate import evaluate_run
from glassformer.families.load import load
from glassformer.families.requests import EvaluateArguments, EvaluateOptions
from glassformer.notebook.display import progress_bar
from glassformer.rendering.view import View
from glassformer.tasks.base import Evaluation


@progress_bar()
@check_arguments
@takes_listener
def evaluate(
    run: AnyRun,
    data: Any = None,
    *,
    device: str = "auto",
    precision: str = "fp32",
    say: Say = say,
    **arguments: Unpack[EvaluateArguments],
) -> Evaluation:
    """A full pass over `data`, or without it over a part of the run's own: test if it has one, else validation.

    `data` is a file, the name of a data set, or what `train` takes: a table in memory (a DataFrame, a Dataset, a list
    of rows) with the columns that the run learned from, pairs (text, label) or (source, target), arrays (images,
    labels); for language models a list of texts.
    `part` names a part of the run's own data. `stride` is for language models. `beam` (5), `length_penalty` (1),
    `lowercase` (also BLEU of lower-cased texts) and `bleu_tokenizer` (13a, char, zh, intl or ja-mecab; char for scripts
    without spaces, else 13a) are for translators.
    Rows that cannot be scored are counted by reason in `details["skipped"]`. Columns that the run does not read are
    reported to `say`; without `say`, they are a warning. `precision`: precision of the loaded
    run, as in `load`. `reading`: data settings that differ from the run's, such as `{"encoding": "latin-1"}`.
    """
    options = _options("evaluate", data, arguments)
    if precision != "fp32":
        if isinstance(run, Loaded):
            raise Misuse(f"precision={precision!r} is for a run's folder; this one is loaded in {run.precision}")
        run = load(run, device, precision=precision)
    return evaluate_run(run, options, device).evaluation


def _options(verb: str, data: Any, arguments: EvaluateArguments) -> EvaluateOptions:
    return EvaluateOptions(**{**arguments, "data": keep(data, verb), "reading": dict(arguments.get("reading") or {})})


@progress_bar()
@check_arguments
@takes_listener
def errors(
    run: AnyRun,
    data: Any = None,
    *,
    second_run: AnyRun | None = None,
    accuracy: float | None = None,
    device: str = "auto",
    say: Say = say,
    **arguments: Unpack[EvaluateArguments],
) -> View:
    """Where a run is wrong on `data`, or without it on a part of its own: test if it has one, else validation.

    `second_run`: a second run of the same task, judged on the same examples. `accuracy`: which share of a classifier's
    answers should be right (0.95); the view tells below which probability a person should look instead. The rest is
    as in `evaluate`.
    """
    options = _options("errors", data, arguments)
    return evaluate_errors(run, options, second_run=second_run, accuracy=accuracy, device=device)[1]


def evaluate_errors(
    run: AnyRun,
    options: EvaluateOptions,
    *,
    second_run: AnyRun | None,
    accuracy: float | None,
    device: str,
) -> tuple[Evaluation, View]:
    """How good a run is, with a view of where it is wrong, or of what only one of two runs gets."""
    check_request(run, second_run, accuracy)
    evaluated = evaluate_run(run, options, device)
    if second_run is None:
        return evaluated.evaluation, error_view(evaluated, accuracy)
    return evaluated.evaluation, comparison_view(evaluated, second_run, options, device)
