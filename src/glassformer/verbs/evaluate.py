"""How good a run is: `gf.evaluate`."""

from collections.abc import Mapping
from typing import Any

from glassformer.config.errors import Say, silent
from glassformer.families.base import AnyRun
from glassformer.families.evaluate import evaluate_run
from glassformer.families.requests import EvaluateOptions
from glassformer.tasks.base import Evaluation


def evaluate(
    run: AnyRun,
    data: str | None = None,
    *,
    part: str | None = None,
    stride: int | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    lowercase: bool = False,
    device: str = "auto",
    reading: Mapping[str, Any] | None = None,
    say: Say = silent,
) -> Evaluation:
    """A full pass over `data`, or without it over a part of the run's own: test if it has one, else validation.

    `stride` is for language models; `beam` (5), `length_penalty` (1) and `lowercase` (one more BLEU, of lower-cased
    texts) for translators. `reading`: data settings that differ from the run's, such as `{"encoding": "latin-1"}`.
    """
    options = EvaluateOptions(
        data=data,
        part=part,
        stride=stride,
        beam=beam,
        length_penalty=length_penalty,
        lowercase=lowercase,
        reading=dict(reading or {}),
    )
    return evaluate_run(run, options, device, say).evaluation
