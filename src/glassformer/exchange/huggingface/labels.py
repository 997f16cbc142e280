"""Labels: what config.json says of the scores of a classifier or regressor."""

from dataclasses import replace
from typing import Any

from glassformer.config.presets import CLASSIFICATION, MULTILABEL, REGRESSION
from glassformer.exchange.huggingface.architecture import ConfigValues, ParsedConfig, Unsupported, short
from glassformer.tasks.answers import Answers, Classes, Labels

PROBLEMS = {
    "single_label_classification": CLASSIFICATION,
    "multi_label_classification": MULTILABEL,
    "regression": REGRESSION,
}
MOST = 2**20
"""Labels of a file that is no file of labels any more."""


def with_labels(body: ParsedConfig, values: ConfigValues) -> ParsedConfig:
    """What a model of theirs says of a text: one score is a number, several are classes unless they say otherwise."""
    names = _names(values)
    problem = values.get("problem_type", "regression" if len(names) == 1 else "single_label_classification")
    if not isinstance(problem, str) or problem not in PROBLEMS:
        only = ", ".join(PROBLEMS)
        raise Unsupported(f"{values.name} with problem_type {short(problem)} is not supported: only {only}")
    task = PROBLEMS[problem]
    if task == REGRESSION:
        if len(names) != 1:
            raise Unsupported(f"{values.name} that says {len(names)} numbers of a text is not supported: only one")
        return replace(body, task=task, labels={"mean": 0.0, "spread": 1.0})
    if task == MULTILABEL:
        return replace(body, task=task, labels={"labels": names})
    if len(names) < 2:
        raise Unsupported(f"{values.name} with one class is not supported: there is nothing to choose from")
    return replace(body, task=task, labels=names, loss="softmax")


def _names(values: ConfigValues) -> list[str]:
    """Labels by their numbers; transformers counts two where nobody says."""
    by_number = values.get("id2label")
    if by_number is None:
        return [f"LABEL_{number}" for number in range(values.size("num_labels", 2, MOST))]
    if not isinstance(by_number, dict) or not 0 < len(by_number) <= MOST:
        raise Unsupported("config.json: id2label must hold a name for each number of a label")
    names = [by_number.get(str(number)) for number in range(len(by_number))]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise Unsupported(f"config.json: id2label must name {len(names)} different labels, by the numbers from 0")
    return [str(name) for name in names]


def label_settings(answers: Answers) -> dict[str, Any]:
    """What config.json says of the labels of a run of ours."""
    task = CLASSIFICATION if isinstance(answers, Classes) else MULTILABEL if isinstance(answers, Labels) else REGRESSION
    names = answers.names if isinstance(answers, Classes | Labels) else ("LABEL_0",)
    return {
        "problem_type": next(problem for problem, learned in PROBLEMS.items() if learned == task),
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
