"""Evaluate a run and analyse its errors: `gf.evaluate` and `gf.errors`."""

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
    """Evaluate a run on `data`; without it on a part of the run's own data: test if it has one, else validation.

    `data` is a file, the name of a data set, or data in memory as for `train`. Data in memory may be a table (a
    DataFrame, a Dataset, a list of rows) with the columns that the run learned from. It may also be pairs (text, label)
    or (source, target), arrays (images, labels), or for language models a list of texts.

    `part` names a part of the run's own data. `stride` is for language models. Translators also have `beam` (5),
    `length_penalty` (1), `lowercase` (also report BLEU of lower-cased texts) and `bleu_tokenizer`. The BLEU tokenizer
    is 13a, char, zh, intl or ja-mecab; the default is char for scripts without spaces, else 13a.

    Rows that cannot be scored are counted by reason in `details["skipped"]`. Columns that the run does not read are
    reported to `say`; without `say`, they are a warning. `precision`: precision of the loaded run, as in `load`.
    `reading`: data settings that differ from the run's, such as `{"encoding": "latin-1"}`.
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
    """Return a view of a run's errors on `data`; without it on its own test part, or its validation part.

    `second_run`: a second run of the same task, evaluated on the same examples. `accuracy` (0.95): desired share of
    correct answers for a classifier. The view shows the probability below which a person should check an answer. The
    other options are those of `evaluate`.
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
    """Return the evaluation of a run, with a view of its errors or of the differences between two runs."""
    check_request(run, second_run, accuracy)
    evaluated = evaluate_run(run, options, device)
    if second_run is None:
        return evaluated.evaluation, error_view(evaluated, accuracy)
    return evaluated.evaluation, comparison_view(evaluated, second_run, options, device)
