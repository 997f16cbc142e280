"""What is said of a whole example: a class, several labels, or a number."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config.data_section import POINT
from glassformer.config.errors import Misuse, Say, SettingError, refuse_unknown
from glassformer.config.presets import CLASS, CLASSIFICATION, LABEL_SET, MULTILABEL, NUMBER, REGRESSION
from glassformer.config.resolve import Config
from glassformer.config.sections import TrainingSettings
from glassformer.data.columns.labels import as_text, labels_in
from glassformer.data.features.inputs import Inputs
from glassformer.data.split.labelled import LabelledCorpus
from glassformer.families.base import Prepared, Processor
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.families.requests import ModelInput
from glassformer.tasks.answers import Classes, Labels, Scale
from glassformer.tasks.prediction import AVERAGE_PRECISION, Classification, Multilabel, Regression

RARE = 0.1
"""Share of the training rows below which a class is rare."""


def rare_class(counts: Mapping[str, int]) -> str | None:
    """Return the class with the fewest examples if it is rare, else None.

    Of more than five classes, a class is rare if it has less than half of an equal share.
    """
    rarest = min(counts, key=counts.__getitem__)
    return rarest if counts[rarest] < min(RARE, 0.5 / len(counts)) * max(1, sum(counts.values())) else None


class ClassificationFamily(LabellingFamily):
    task = CLASSIFICATION
    title = "A classifier of"
    primary = "accuracy"
    label_kind = CLASS

    def answers_of(self, corpus: LabelledCorpus, training: TrainingSettings) -> Classes:
        classes = Classes.of(corpus.classes or (), training.loss)
        if training.choose_by != AVERAGE_PRECISION:
            return classes
        if len(classes.names) != 2:
            raise SettingError(
                f"training.choose_by average_precision is for two classes, but there are {len(classes.names)}; use "
                "macro_f1"
            )
        counts = Counter(corpus.parts["train"].labels)
        positive = min(reversed(classes.names), key=counts.__getitem__)  # of equally large classes, the second
        validation = corpus.parts.get("validation")
        if validation is not None and positive not in validation.labels:
            raise SettingError(
                f"training.choose_by average_precision needs a validation row of class '{positive}', but there is none"
            )
        return replace(classes, positive=positive)

    def task_on(self, config: Config, parts: Mapping[str, Inputs], answers: Classes) -> Classification:
        training = config.training
        weights = training.class_weights if "train" in parts else None
        return Classification(
            parts,
            answers,
            **self.batches(config),
            smoothing=training.label_smoothing,
            class_weights=weights,
            choose_by=training.choose_by,
        )

    def prepare(self, config: Config, corpus: LabelledCorpus, known: Processor, say: Say) -> Prepared:
        prepared = super().prepare(config, corpus, known, say)
        task: Any = prepared.task
        counts = self.class_counts(task)
        rarest = rare_class(counts)
        if rarest is not None and config.training.choose_by == "accuracy":
            share = counts[rarest] / max(1, sum(counts.values()))
            say(
                f"class '{rarest}' has {share:.1%} of the training rows, so it hardly affects accuracy: "
                "--training.choose_by macro_f1 weights all classes equally"
            )
        return prepared

    def selection(self, config: Config) -> tuple[str, bool]:
        return config.training.choose_by, config.training.choose_by == "loss"

    def class_counts(self, task: Classification) -> dict[str, int]:
        names = task.answers.names
        counts = np.bincount(task.parts["train"].answers, minlength=len(names)).tolist()
        return dict(zip(names, counts, strict=True))

    def learned_answer(self, loaded: Any, answer: str | None) -> Tensor:
        names = loaded.answers.names
        if answer is None:
            raise Misuse(f"a training step needs what the example should be: --answer, one of {', '.join(names)}")
        refuse_unknown("class", answer, names, Misuse)
        return torch.from_numpy(loaded.answers.learned([answer]))

    def training_target(self, loaded: Any, example: ModelInput, answer: str | None) -> tuple[Tensor, str]:
        return self.learned_answer(loaded, answer), loaded.answers.loss

    def output_names(self, loaded: Any) -> list[str]:
        return list(loaded.answers.names)

    def own_answer(self, answers: Classes, scores: Tensor) -> Tensor:
        return answers.probabilities(scores).argmax(-1)

    def example_loss(self, loaded: Any, example: ModelInput, target: Tensor) -> Tensor:
        scores = loaded.model(*example.inputs).float().cpu()
        return -loaded.answers.probabilities(scores)[0, target[0]].log()

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        labels = card.get("labels")
        if not isinstance(labels, list) or len(labels) < 2:
            return None, ""
        return math.log(len(labels)), f"ln of {len(labels):,} classes"


class MultilabelFamily(LabellingFamily):
    task = MULTILABEL
    title = "A classifier, with several labels, of"
    primary = "micro_f1"
    label_kind = LABEL_SET

    def answers_of(self, corpus: LabelledCorpus, training: TrainingSettings) -> Labels:
        return Labels.of(corpus.classes or (), training.loss)

    def task_on(self, config: Config, parts: Mapping[str, Inputs], answers: Labels) -> Multilabel:
        return Multilabel(parts, answers, **self.batches(config))

    def learned_answer(self, loaded: Any, answer: str | None) -> Tensor:
        named = labels_in(answer or "", loaded.config.data.label_separator or ";")
        for name in named:
            refuse_unknown("label", name, loaded.answers.names, Misuse)
        return torch.from_numpy(loaded.answers.learned([as_text(named)]))

    def own_answer(self, answers: Labels, scores: Tensor) -> Tensor:
        return (scores > 0).float()

    def example_loss(self, loaded: Any, example: ModelInput, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(loaded.model(*example.inputs).float().cpu(), target)

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        return math.log(2), "ln of 2, for each label yes or no"


class RegressionFamily(LabellingFamily):
    task = REGRESSION
    title = "A regressor on"
    primary, lower_is_better = "rmse", True
    label_kind = NUMBER

    def answers_of(self, corpus: LabelledCorpus, training: TrainingSettings) -> Scale:
        decimal = corpus.columns.decimals.get(corpus.columns.label or "", POINT)
        return Scale.of(np.array([float(label) for label in corpus.parts["train"].labels]), training.loss, decimal)

    def task_on(self, config: Config, parts: Mapping[str, Inputs], answers: Scale) -> Regression:
        return Regression(parts, answers, **self.batches(config))

    def learned_answer(self, loaded: LoadedPredictor, answer: str | None) -> Tensor:
        if answer is None:
            raise Misuse("a training step needs what the example should be: --answer, a number")
        if not _is_number(answer):
            raise Misuse(f"--answer {answer}: this run learned numbers")
        return torch.from_numpy(loaded.answers.learned([answer]))

    def own_answer(self, answers: Scale, scores: Tensor) -> Tensor:
        return scores[:, 0]

    def example_loss(self, loaded: Any, example: ModelInput, target: Tensor) -> Tensor:
        scores = loaded.model(*example.inputs).float().cpu()
        return (scores[0, 0] - target[0]).square()

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        return 1.0, "always the mean"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


FAMILIES = (ClassificationFamily(), MultilabelFamily(), RegressionFamily())
