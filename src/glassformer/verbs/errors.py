"""Where a run is wrong: what it confuses, on what its errors lie, and how they differ from another run's."""

from collections.abc import Mapping
from typing import Any

from glassformer.config.errors import Say, silent
from glassformer.error_analysis.analysis import check_request, comparison_view, error_view
from glassformer.families.base import AnyRun
from glassformer.families.evaluate import evaluate_run
from glassformer.families.requests import EvaluateOptions
from glassformer.rendering.view import View


def errors(
    run: AnyRun,
    data: str | None = None,
    *,
    part: str | None = None,
    versus: AnyRun | None = None,
    accuracy: float | None = None,
    stride: int | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    device: str = "auto",
    reading: Mapping[str, Any] | None = None,
    say: Say = silent,
) -> View:
    """Where a run is wrong on `data`, or without it on a part of its own: test if it has one, else validation.

    `versus`: a second run of the same task, judged on the same examples. `accuracy`: which share of a classifier's
    answers should be right (0.95); the view tells below which probability a person should look instead. The rest is
    as in `evaluate`.
    """
    check_request(run, versus, accuracy)
    options = EvaluateOptions(
        data=data, part=part, stride=stride, beam=beam, length_penalty=length_penalty, reading=dict(reading or {})
    )
    evaluated = evaluate_run(run, options, device, say)
    if versus is None:
        return error_view(evaluated, accuracy, say)
    return comparison_view(evaluated, versus, options, device, say)
