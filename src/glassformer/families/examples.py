"""Labelled examples of any kind on their way to a task."""

from collections.abc import Mapping

import numpy as np

from glassformer.config.errors import DataError, SettingError
from glassformer.config.presets import CLASSIFICATION, IMAGE, LABEL_SET
from glassformer.config.resolve import KINDS_IN_WORDS, Config
from glassformer.config.say import Say
from glassformer.data.columns.inference import Columns
from glassformer.data.features.build import MixedInputs
from glassformer.data.features.inputs import Features, Inputs
from glassformer.data.features.texts import Examples
from glassformer.data.split.labelled import LabelledCorpus
from glassformer.tasks.answers import Answers, Classes, Labels, Scale
from glassformer.tasks.classification import Classification
from glassformer.tasks.multilabel import Multilabel
from glassformer.tasks.regression import Regression


def answers_of(corpus: LabelledCorpus, loss: str | None) -> Answers:
    if corpus.classes is not None and corpus.columns.label_kind == LABEL_SET:
        return Labels.of(corpus.classes, loss)
    if corpus.classes is not None:
        return Classes.of(corpus.classes, loss)
    return Scale.of(np.array([float(label) for label in corpus.parts["train"].labels]), loss)


def labelling_task(
    config: Config, parts: Mapping[str, Inputs], answers: Answers
) -> Classification | Multilabel | Regression:
    """The task on these parts; without a training part, one to evaluate with."""
    training = config.training
    order = {"batch_size": training.batch_size, "seed": training.seed}
    if isinstance(answers, Scale):
        return Regression(parts, answers, **order)
    if isinstance(answers, Labels):
        return Multilabel(parts, answers, **order)
    weights = training.class_weights if "train" in parts else None
    return Classification(parts, answers, **order, smoothing=training.label_smoothing, class_weights=weights)


def words_in(inputs: Inputs) -> Examples | None:
    """The texts among what a model reads of examples, if there are any."""
    if isinstance(inputs, MixedInputs):
        return inputs.text
    return inputs if isinstance(inputs, Examples) else None


def say_read(features: Features, parts: Mapping[str, Inputs], say: Say) -> None:
    """What is read of examples that are more than texts, and what is odd about them."""
    say(f"read: {features.words}")
    for remark in features.remarks:
        say(remark)
    for name, part in parts.items():
        for remark in part.remarks:
            say(f"{name}: {remark}")


def say_cut(parts: Mapping[str, Inputs], context: int, say: Say, advice: str = "") -> None:
    """How many texts are longer than the model reads."""
    texts = [words for part in parts.values() if (words := words_in(part)) is not None]
    if cut := sum(part.cut for part in texts):
        of = sum(len(part) for part in texts)
        say(f"{cut:,} of {of:,} texts are longer than {context:,} tokens and cut there{advice}")


def agreed(kind: str | None, columns: Columns, name: str) -> None:
    """Refuse a kind of examples that was asked for and is not there."""
    if kind not in (None, columns.kind):
        raise SettingError(
            f"data.kind {kind}: {name} holds {KINDS_IN_WORDS[columns.kind]} as it is read here ({columns.why}): leave "
            "--data.kind unset"
        )


def only_classes(name: str, task: str | None) -> None:
    """Of pictures in folders, only classes can be learned."""
    if task not in (None, CLASSIFICATION):
        raise DataError(
            f"{name} holds pictures with a class each, and {task} is asked for: numbers of pictures come from a table "
            f"whose column --image names their files ({IMAGE} and mixed data: --task {CLASSIFICATION})"
        )
