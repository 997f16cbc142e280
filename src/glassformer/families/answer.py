"""What an example should be, as a person says it and as a model learns it."""

import math

import torch
from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.config.names import unknown
from glassformer.data.columns.label_sets import as_text, labels_in
from glassformer.families.load import LoadedPredictor
from glassformer.tasks.answers import Classes, Labels


def learned_answer(loaded: LoadedPredictor, answer: str | None) -> Tensor:
    """The answer of one example as the run's model learns it."""
    answers = loaded.answers
    if isinstance(answers, Labels):
        named = labels_in(answer or "", loaded.config.data.label_separator or ";")
        if odd := next((name for name in named if name not in answers.names), None):
            raise Misuse(unknown("label", odd, answers.names))
        return torch.from_numpy(answers.learned([as_text(named)]))
    if answer is None:
        which = f"one of {', '.join(answers.names)}" if isinstance(answers, Classes) else "a number"
        raise Misuse(f"a training step needs what the example should be: --answer, {which}")
    if isinstance(answers, Classes):
        if answer not in answers.names:
            raise Misuse(unknown("class", answer, answers.names))
    elif not _is_number(answer):
        raise Misuse(f"--answer {answer}: this run learned numbers")
    return torch.from_numpy(answers.learned([answer]))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
