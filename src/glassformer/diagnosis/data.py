"""What the data shows before the first update, of every task."""

from collections.abc import Iterator

import numpy as np

from glassformer.config.presets import PACKED
from glassformer.config.resolve import Config
from glassformer.diagnosis.advice import Advice
from glassformer.diagnosis.classes import imbalance
from glassformer.diagnosis.reading import cut_off, memorised, repeated, unknown
from glassformer.families.base import Prepared
from glassformer.families.predict import texts_in
from glassformer.finetuning.model_settings import bound_positions
from glassformer.tasks.answers import Classes
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.translation import Translating
from glassformer.tasks.windows import OnWindows
from glassformer.training.finding import Finding
from glassformer.training.schedule import total_steps


def data_findings(config: Config, prepared: Prepared, parameters: int) -> Iterator[Finding | None]:
    task, advise = prepared.task, Advice(config)
    bound = config.is_finetuned and bound_positions(config)
    yield repeated(prepared.corpus.remarks)
    yield unknown(_unknown(prepared), advise)
    if isinstance(task, Labelling):
        texts = [words for part in task.parts.values() if (words := texts_in(part)) is not None]
        yield cut_off(
            sum(part.cut for part in texts), sum(len(part) for part in texts), config.model.context, bound=bound
        )
        if isinstance(prepared.answers, Classes) and task.parts["train"].answers.ndim == 1:
            names = prepared.answers.names
            counts = np.bincount(task.parts["train"].answers, minlength=len(names)).tolist()
            yield imbalance(names, counts, advise)
    elif isinstance(task, Translating):
        cut, dropped = (sum(getattr(part, name) for part in task.parts.values()) for name in ("cut", "dropped"))
        pairs = sum(len(part) for part in task.parts.values()) + dropped
        yield cut_off(cut or dropped, pairs, config.model.context, dropped=not cut, bound=bound)
    elif config.task in PACKED:
        total = total_steps(config.training, task)
        times = None if total is None else total / task.steps_per_epoch
        yield memorised(prepared.tokens["train"], parameters, times, advise)


def _unknown(prepared: Prepared) -> dict[str, float]:
    """The share of unknown tokens in each part."""
    task = prepared.task
    if isinstance(task, OnWindows):
        counts = {name: (part.unknown, len(part.ids)) for name, part in task.parts.items()}
    elif isinstance(task, Translating):
        counts = {name: (sum(part.unknown), len(part.source.ids) + len(part.target.ids))
                  for name, part in task.parts.items()}  # fmt: skip
    elif isinstance(task, Labelling):
        texts = {name: words for name, part in task.parts.items() if (words := texts_in(part)) is not None}
        counts = {name: (part.unknown, len(part.ids)) for name, part in texts.items()}
    else:
        return {}
    return {name: some / of for name, (some, of) in counts.items() if of}
