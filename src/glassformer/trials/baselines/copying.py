"""The source as its own translation: what names, numbers and equal words are worth."""

from glassformer.config.errors import DataError
from glassformer.tasks.base import Evaluation
from glassformer.tasks.translation import Translating, judge


def judge_copies(task: Translating, part: str) -> Evaluation:
    pairs = task.parts[part]
    if not len(pairs):
        raise DataError(f"the {part} part holds no pair")
    records = [
        {"source": source, "target": target, "output": source, "exact": source == target}
        for source, target in zip(pairs.sources, pairs.targets, strict=True)
    ]
    return judge(records, "the source itself")
