"""What a classifier's config.json says of its labels, and what ours says there."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from glassformer.config.presets import CLASSIFICATION, MULTILABEL, REGRESSION
from glassformer.exchange.huggingface.architecture import Unsupported, short, whole_number
from glassformer.tasks.answers import Answers, Classes, Labels

PROBLEMS = {
    "single_label_classification": CLASSIFICATION,
    "multi_label_classification": MULTILABEL,
    "regression": REGRESSION,
}
MOST = 2**20
"""Labels of a file that is no file of labels any more."""


class Labelled(NamedTuple):
    task: str
    labels: Any
    """What `Answers.to_json` writes."""
    loss: str | None


def read_labels(config: Mapping[str, Any], name: str) -> Labelled:
    """What a model of theirs says of a text: one score is a number, several are classes unless they say otherwise."""
    names = _names(config)
    problem = config.get("problem_type")
    if problem is None:
        problem = "regression" if len(names) == 1 else "single_label_classification"
    if not isinstance(problem, str) or problem not in PROBLEMS:
        raise Unsupported(f"{name} with problem_type {short(problem)} is not supported: only {', '.join(PROBLEMS)}")
    task = PROBLEMS[problem]
    if task == REGRESSION:
        if len(names) != 1:
            raise Unsupported(f"{name} that says {len(names)} numbers of a text is not supported: only one")
        return Labelled(task, {"mean": 0.0, "spread": 1.0}, None)
    if task == MULTILABEL:
        return Labelled(task, {"labels": names}, None)
    if len(names) < 2:
        raise Unsupported(f"{name} with one class is not supported: there is nothing to choose from")
    return Labelled(task, names, "softmax")


def _names(config: Mapping[str, Any]) -> list[str]:
    """By their numbers; transformers counts two where nobody says."""
    named = config.get("id2label")
    if named is None:
        count = whole_number(config, "num_labels", default=2, most=MOST)
        return [f"LABEL_{number}" for number in range(count)]
    if not isinstance(named, dict) or not 0 < len(named) <= MOST:
        raise Unsupported("config.json: id2label must hold a name for each number of a label")
    names = [named.get(str(number)) for number in range(len(named))]
    if not all(isinstance(one, str) and one for one in names) or len(set(names)) != len(names):
        raise Unsupported(f"config.json: id2label must name {len(names)} different labels, by the numbers from 0")
    return [str(one) for one in names]


def write_labels(answers: Answers) -> dict[str, Any]:
    """For config.json."""
    problem = {CLASSIFICATION: "single_label_classification", MULTILABEL: "multi_label_classification"}
    if isinstance(answers, Classes | Labels):
        task = CLASSIFICATION if isinstance(answers, Classes) else MULTILABEL
        names, kind = answers.names, problem[task]
    else:
        names, kind = ("LABEL_0",), "regression"
    return {
        "problem_type": kind,
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
