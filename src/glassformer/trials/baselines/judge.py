"""Floors and references, judged as a model is: by the task itself, on the same examples."""

from glassformer.config.errors import SettingError
from glassformer.config.names import unknown
from glassformer.config.resolve import Config
from glassformer.families.base import Prepared
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.language_model import LanguageModelling
from glassformer.tasks.masked_language_model import MaskedModelling
from glassformer.tasks.translation import Translating
from glassformer.trials.baselines.copying import judge_copies
from glassformer.trials.baselines.hidden import judge_hidden
from glassformer.trials.baselines.labels import constant_scores
from glassformer.trials.baselines.language import judge_ngrams, judge_unigrams
from glassformer.trials.baselines.names import UNIGRAM, floors_of, references_of
from glassformer.trials.baselines.scikit import fit_and_score


def judge_floor(name: str, config: Config, prepared: Prepared, part: str) -> tuple[Evaluation, int]:
    """The floor on a part, and how many numbers it learned or counted."""
    _known("floor", name, floors_of(config.task, config.data.kind))
    task = prepared.task
    if isinstance(task, LanguageModelling):
        assert prepared.tokenizer is not None
        size = prepared.tokenizer.vocab_size
        return judge_unigrams(task, part, size) if name == UNIGRAM else judge_ngrams(task, part, size)
    if isinstance(task, MaskedModelling):
        return judge_hidden(task, part)
    if isinstance(task, Translating):
        return judge_copies(task, part), 0
    assert isinstance(task, Labelling)
    scores, learned = constant_scores(name, task, len(task.parts[part]))
    return task.judge(task.parts[part], scores), learned


def judge_reference(name: str, config: Config, prepared: Prepared, part: str) -> tuple[Evaluation, int, float]:
    """The reference on a part, the numbers that it learned, and the seconds that this took."""
    _known("reference", name, references_of(config.task, config.data.kind))
    task = prepared.task
    assert isinstance(task, Labelling)
    scores, learned, seconds = fit_and_score(name, task, part)
    return task.judge(task.parts[part], scores), learned, seconds


def _known(what: str, name: str, names: dict[str, str]) -> None:
    if name not in names:
        raise SettingError(unknown(f"{what} for this task", name, names))
