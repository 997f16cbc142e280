"""Families of classification, multilabel classification and regression. They predict one answer per example."""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import presets
from glassformer.config.data_section import POINT
from glassformer.config.errors import Misuse, SettingError, refuse_unknown
from glassformer.config.messages import Say, say, say_or_warn, takes_listener
from glassformer.config.progress import counting_on
from glassformer.config.resolve import KINDS_IN_WORDS, Config
from glassformer.config.sections import TrainingSettings
from glassformer.data.columns.inference import choose_columns
from glassformer.data.columns.labels import as_text, label_columns, labels_in
from glassformer.data.columns.numbers import spelled_with
from glassformer.data.columns.schema import ignored_in_words
from glassformer.data.features.build import learn_features, read_features
from glassformer.data.features.inputs import Features, Inputs
from glassformer.data.io.memory import held_name
from glassformer.data.io.pictures import read_pictures
from glassformer.data.io.table import ROWS_AT_ONCE, prefetch, read_table
from glassformer.data.split import labelled
from glassformer.data.split.rows import skipped_lines
from glassformer.data.wording import counted
from glassformer.families import requests, schema
from glassformer.families.base import EvaluatedPart, Loaded, OwnModel, Prepared, Processor, make_own_model
from glassformer.families.build import say_tokens, tokenizer_of_texts
from glassformer.families.capabilities import Labels as PredictsLabels
from glassformer.families.embedding import ExampleFamily, row_input
from glassformer.families.predict import (
    InputNotes,
    Prediction,
    part_of,
    pieces_of,
    predict_inputs,
    say_cut,
    say_read,
    texts_in,
)
from glassformer.families.recognition import recognise_images, recognise_table
from glassformer.models.build import build_predictor
from glassformer.models.modules import BagPredictor
from glassformer.notebook.display import progress_bar
from glassformer.runs.run import CARD, Run
from glassformer.tasks.answers import Answers, Classes, Labels, Scale, read_answers
from glassformer.tasks.base import Task
from glassformer.tasks.labelling import Labelling, fast_tokens, head_learns_alone, on_frozen_features
from glassformer.tasks.prediction import AVERAGE_PRECISION, Classification, Multilabel, Regression

EXAMPLES = {
    presets.TEXT: "'A text'",
    presets.TABLE: "--file rows.csv",
    presets.IMAGE: "image.png",
    presets.MIXED: "--file rows.csv",
}
"""Example argument of `predict`, by kind of examples."""


@dataclass(frozen=True, repr=False)
class LoadedPredictor(Loaded, PredictsLabels):
    """A trained classifier or regressor."""

    features: Features
    answers: Answers

    @overload
    def predict(self, texts: str | Mapping[str, Any], *, say: Say = say) -> Prediction: ...
    @overload
    def predict(self, texts: Iterable[Any], *, say: Say = say) -> list[Prediction]: ...
    @progress_bar()
    @takes_listener
    def predict(self, texts: requests.Example | Iterable[Any], *, say: Say = say) -> Prediction | list[Prediction]:
        """Return the prediction for an example, or for each example in a list, an array or a DataFrame.

        A run that reads texts takes texts. A run that reads images takes their files or arrays of pixels. A run that
        reads columns takes rows, as dicts by column name or as a DataFrame.

        Ignored columns and values that are not in the training data are reported to `say`; without `say`, they are a
        warning. Each `Prediction` lists such values in `outside_range`, `unseen_categories` and `unknown_text`.

        Raise `DataError` if a column is missing, or a value has another type or is too large. A run that reads texts
        also raises it for an empty text.
        """
        reader = schema.reader_of(self, "predict")
        part = part_of(self.features, self.config, reader.examples(texts), say_or_warn)
        if line := ignored_in_words(held_name(texts), reader.ignored(texts)):
            say_or_warn(line)
        found = self.predict_part(part, say_or_warn)
        return found[0] if reader.is_one(texts) else found

    def predict_part(self, part: labelled.Labelled, remark: Say = say) -> list[Prediction]:
        """Return the prediction for each example. Report cut texts to `say`, and unusual values to `remark`."""
        notes = InputNotes()
        if len(part) <= ROWS_AT_ONCE:  # a second thread is not worth its cost
            found = predict_inputs(self.model, self.answers, notes.read(self.features, part))
        else:
            found = [one for some in self.predict_parts(pieces_of(part), notes, len(part), "example") for one in some]
        notes.tell(self.config, remark)
        return found

    def predict_parts(
        self, parts: Iterable[labelled.Labelled], notes: InputNotes, total: int, unit: str
    ) -> Iterator[list[Prediction]]:
        """Yield the predictions for each part. A second thread prepares the next part while the model computes.

        `total`, `unit`: number of all examples and their unit, for the progress bar.
        """
        done = 0
        for inputs in prefetch(notes.read(self.features, part) for part in parts):
            with counting_on(done, total, unit):
                found = predict_inputs(self.model, self.answers, inputs)
            yield found
            done += len(inputs)


class LabellingFamily(ExampleFamily):
    """Base class of classification, multilabel classification and regression."""

    noun = "example"
    labels_examples = True
    loaded_class = LoadedPredictor

    def recognise(self, request: requests.ConfigRequest) -> requests.Recognition:
        recognition = recognise_images(request) or recognise_table(request)
        if recognition is None:
            raise SettingError(requests.NO_DATA)
        return recognition

    def split_data(self, config: Config, rows: Any = None) -> labelled.LabelledCorpus:
        data = config.data
        if data.path is None:
            raise SettingError(requests.NO_DATA)
        if data.kind == presets.IMAGE:
            return labelled.split_pictures(rows or read_pictures(data.path, data.size_of_images()), data)
        table = rows or read_table(data.path, data)
        return labelled.split_table(table, choose_columns(table, data, self.label_kind), data)

    @abstractmethod
    def answers_of(self, corpus: labelled.LabelledCorpus, training: TrainingSettings) -> Answers:
        """Return the possible answers, learned from the training part."""

    def check_corpus(self, config: Config, corpus: labelled.LabelledCorpus) -> None:
        self.answers_of(corpus, config.training)

    def prepare(self, config: Config, corpus: labelled.LabelledCorpus, known: Processor) -> Prepared:
        tokenizer = known.tokenizer
        if tokenizer is None and corpus.columns.text is not None:
            tokenizer = tokenizer_of_texts(corpus.parts["train"].texts, config)
        answers = self.answers_of(corpus, config.training)
        features = learn_features(config, corpus.parts["train"], tokenizer, corpus.columns)
        held_out = {name: part.labels for name, part in corpus.parts.items() if name != "train"}
        evaluated = answers.with_unknown(chain.from_iterable(held_out.values()))
        learned = {
            name: (evaluated if name in held_out else answers).learned(part.labels)
            for name, part in corpus.parts.items()
        }
        parts = {name: features.inputs(part, learned[name]) for name, part in corpus.parts.items()}
        if config.data.kind != presets.TEXT:
            say_read(features, parts)
        if tokenizer is not None:
            texts = {name: words for name, part in parts.items() if (words := texts_in(part)) is not None}
            counts = {name: len(part.ids) for name, part in texts.items()}
            say_tokens(tokenizer, counts, {name: part.unknown for name, part in texts.items()})
            cut, total = sum(text.cut for text in texts.values()), sum(map(len, texts.values()))
            say_cut(cut, total, config.model.context, " (--model.context)")
        tokens = {name: int(part.lengths.sum()) for name, part in parts.items()}
        task = self.task_on(config, parts, evaluated)
        return Prepared(
            corpus=corpus, tokenizer=tokenizer, tokens=tokens, task=task, answers=answers, features=features
        )

    @abstractmethod
    def task_on(self, config: Config, parts: Mapping[str, Inputs], answers: Any) -> Labelling:
        """Return the task on these parts. Without a training part, it can only evaluate."""

    def class_counts(self, task: Any) -> dict[str, int]:
        """Return the number of training examples of each class; empty if an example has no single class."""
        return {}

    def build_model(self, config: Config, processor: Any) -> nn.Module:
        outputs, seed = processor.answers.outputs, config.training.seed
        return build_predictor(config.model, shape=processor.shape, outputs=outputs, seed=seed)

    def own_model(self, config: Config, processor: Any, own: OwnModel) -> nn.Module:
        shape = processor.shape
        reads = shape.vocab if config.data.kind == presets.TEXT else shape
        return make_own_model(own, reads, processor.answers.outputs, config.training.seed)

    def learn_from_data(self, model: nn.Module, prepared: Prepared) -> None:
        """Let a bag of words learn the frequency of each word."""
        if isinstance(model, BagPredictor):
            model.bag.learn_frequencies((ids, mask) for _, (ids, mask) in prepared.task.parts["train"].batches())

    def training_task(self, task: Any, model: nn.Module, config: Config) -> Task:
        """Return a task on precomputed features if only the head is trained, else the task itself."""
        return on_frozen_features(task, model) if config.is_finetuned and head_learns_alone(model) else task

    def read_processor(self, run: Run, config: Config) -> Processor:
        card, where, tokenizer = run.card(), str(run.path / CARD), run.tokenizer()
        answers = read_answers(card.get("labels"), config.training.loss, where, card.get("positive"))
        features = read_features(card.get("features"), tokenizer, config, where)
        return Processor(tokenizer=tokenizer, features=features, answers=answers)

    def whole_part(self, loaded: Any, options: requests.EvaluateOptions) -> labelled.Labelled:
        settings, classes = options.settings(loaded.config), getattr(loaded.answers, "names", None)
        in_memory = not isinstance(options.data, str)
        if loaded.config.data.kind == presets.IMAGE:
            pictures = schema.labelled_pictures(loaded, options.data)
            return labelled.whole_pictures(pictures, "given", classes or (), settings)
        if in_memory:
            table, settings, names = schema.labelled_table(loaded, options.data, settings)
        else:
            table = read_table(options.data, settings)
            names = list(table.columns)
        if loaded.config.data.kind == presets.TEXT:
            columns = choose_columns(table, replace(settings, extra_columns=None), self.label_kind)
        else:  # use the columns and types of training, even if the columns look different here
            columns = schema.needed(loaded.features, loaded.config, table)
            label = ",".join(label_columns(table.name, str(settings.label), table.columns))
            columns = replace(columns, label=label, separator=settings.label_separator)
            settings = schema.as_learned(loaded.features, settings)
        decimals = schema.learned_decimals(loaded, columns.label)
        table, columns = spelled_with(table, decimals), replace(columns, decimals=decimals)
        part = labelled.whole_table(table, columns, "given", classes, settings)
        ignored = self.schema(loaded, replace(settings, label=columns.label)).ignored(names, columns.text)
        return replace(part, ignored=tuple(ignored))

    def evaluate_part(
        self, loaded: LoadedPredictor, part: labelled.Labelled, options: requests.EvaluateOptions
    ) -> EvaluatedPart:
        answers = loaded.answers.with_unknown(part.labels)
        examples = loaded.features.inputs(part, answers.learned(part.labels))
        say(f"{part.name} part: {counted(len(part.texts), examples.noun)}")
        notes = InputNotes()
        notes.note(examples)
        for remark in (*skipped_lines(part.skipped, part.noun), *part.remarks):
            say(remark)
        if ignored := ignored_in_words(part.origin, part.ignored):
            say_or_warn(ignored)
        notes.tell(loaded.config)
        task = self.task_on(loaded.config, {part.name: examples}, answers)
        tokens = fast_tokens(examples, loaded.model)
        evaluation = task.evaluate(loaded.model, part.name, batch_tokens=tokens).with_skipped(part.skipped)
        details = {**evaluation.details, "inputs": notes.counts.differences()}
        return EvaluatedPart(loaded, part, examples, replace(evaluation, details=details))

    def held_out_examples(
        self, loaded: LoadedPredictor, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[requests.ModelInput]:
        rows, inputs = prepared.corpus.parts[part], prepared.task.parts[part]
        short = np.flatnonzero(inputs.lengths <= max_tokens)
        if len(short) < count:  # the lengths of images count pixels
            short = np.sort(np.argsort(inputs.lengths, kind="stable")[:count])
        for row in requests.evenly_chosen(short, count):
            example = row_input(loaded, rows, inputs, row)
            if len(example.tokens) <= (max_patches if example.square is not None else max_tokens):
                yield example

    def example_target(self, loaded: LoadedPredictor, example: requests.ModelInput, answer: str | None) -> Tensor:
        """Return the target of an example: `answer` if it is set, else the answer of the whole model."""
        if answer is not None:
            return self.learned_answer(loaded, answer)
        return self.own_answer(loaded.answers, loaded.model(*example.inputs).float().cpu())

    def training_target(self, loaded: Any, example: requests.ModelInput, answer: str | None) -> tuple[Tensor, str]:
        return self.learned_answer(loaded, answer), "squared"

    def output_names(self, loaded: Any) -> list[str]:
        return []

    @abstractmethod
    def learned_answer(self, loaded: LoadedPredictor, answer: str | None) -> Tensor:
        """Return a user's answer to one example as the target that the model learns."""

    @abstractmethod
    def own_answer(self, answers: Any, scores: Tensor) -> Tensor:
        """Return the answer that scores imply as the target that the model learns."""

    def describe(self, config: Config) -> str:
        return f"{self.title} {KINDS_IN_WORDS[config.data.kind]}"

    def example_argument(self, run: Path, config: Config) -> str:
        return EXAMPLES[config.data.kind]

    def batches(self, config: Config) -> dict[str, int]:
        return {"batch_size": config.training.batch_size, "seed": config.training.seed}


# --- classes, label sets and numbers ---


RARE_SHARE = 0.1
"""Share of the training rows below which a class is rare."""


def rare_class(counts: Mapping[str, int]) -> str | None:
    """Return the class with the fewest examples if it is rare, else None.

    With more than five classes, a class is rare if it has less than half of an equal share.
    """
    rarest = min(counts, key=counts.__getitem__)
    return rarest if counts[rarest] < min(RARE_SHARE, 0.5 / len(counts)) * max(1, sum(counts.values())) else None


class ClassificationFamily(LabellingFamily):
    task = presets.CLASSIFICATION
    title = "A classifier of"
    primary = "accuracy"
    label_kind = presets.CLASS

    def answers_of(self, corpus: labelled.LabelledCorpus, training: TrainingSettings) -> Classes:
        classes = Classes.of(corpus.classes or (), training.loss)
        if training.choose_by != AVERAGE_PRECISION:
            return classes
        count = len(classes.names)
        if count != 2:
            raise SettingError(f"training.choose_by average_precision is for two classes, but there are {count}")
        counts = Counter(corpus.parts["train"].labels)
        positive = min(reversed(classes.names), key=counts.__getitem__)  # if both are equally large, the second
        validation = corpus.parts.get("validation")
        if validation is not None and positive not in validation.labels:
            raise SettingError(f"training.choose_by average_precision needs a validation row of class '{positive}'")
        return replace(classes, positive=positive)

    def task_on(self, config: Config, parts: Mapping[str, Inputs], answers: Classes) -> Classification:
        training = config.training
        weights = training.class_weights if "train" in parts else None
        batches, smoothing = self.batches(config), training.label_smoothing
        return Classification(
            parts, answers, **batches, smoothing=smoothing, class_weights=weights, choose_by=training.choose_by
        )

    def prepare(self, config: Config, corpus: labelled.LabelledCorpus, known: Processor) -> Prepared:
        prepared = super().prepare(config, corpus, known)
        task: Any = prepared.task
        counts = self.class_counts(task)
        rarest = rare_class(counts)
        if rarest is not None and config.training.choose_by == "accuracy":
            share = counts[rarest] / max(1, sum(counts.values()))
            advice = "--training.choose_by macro_f1 weights all classes equally"
            say(f"class '{rarest}' has {share:.1%} of the training rows, so it hardly affects accuracy: {advice}")
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

    def training_target(self, loaded: Any, example: requests.ModelInput, answer: str | None) -> tuple[Tensor, str]:
        return self.learned_answer(loaded, answer), loaded.answers.loss

    def output_names(self, loaded: Any) -> list[str]:
        return list(loaded.answers.names)

    def own_answer(self, answers: Classes, scores: Tensor) -> Tensor:
        return answers.probabilities(scores).argmax(-1)

    def example_loss(self, loaded: Any, example: requests.ModelInput, target: Tensor) -> Tensor:
        scores = loaded.model(*example.inputs).float().cpu()
        return -loaded.answers.probabilities(scores)[0, target[0]].log()

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        labels = card.get("labels")
        if not isinstance(labels, list) or len(labels) < 2:
            return None, ""
        return math.log(len(labels)), f"ln of {len(labels):,} classes"


class MultilabelFamily(LabellingFamily):
    task = presets.MULTILABEL
    title = "A classifier, with several labels, of"
    primary = "micro_f1"
    label_kind = presets.LABEL_SET

    def answers_of(self, corpus: labelled.LabelledCorpus, training: TrainingSettings) -> Labels:
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

    def example_loss(self, loaded: Any, example: requests.ModelInput, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(loaded.model(*example.inputs).float().cpu(), target)

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        return math.log(2), "ln of 2, for each label yes or no"


class RegressionFamily(LabellingFamily):
    task = presets.REGRESSION
    title = "A regressor on"
    primary, lower_is_better = "rmse", True
    label_kind = presets.NUMBER

    def answers_of(self, corpus: labelled.LabelledCorpus, training: TrainingSettings) -> Scale:
        decimal = corpus.columns.decimals.get(corpus.columns.label or "", POINT)
        return Scale.of(np.array([float(label) for label in corpus.parts["train"].labels]), training.loss, decimal)

    def task_on(self, config: Config, parts: Mapping[str, Inputs], answers: Scale) -> Regression:
        return Regression(parts, answers, **self.batches(config))

    def learned_answer(self, loaded: LoadedPredictor, answer: str | None) -> Tensor:
        try:
            learned = loaded.answers.learned([answer or ""])
        except ValueError:
            learned = np.array([np.nan])
        if not np.isfinite(learned).all():
            raise Misuse(f"this run learned numbers: --answer must be a number, not {answer or 'unset'}")
        return torch.from_numpy(learned)

    def own_answer(self, answers: Scale, scores: Tensor) -> Tensor:
        return scores[:, 0]

    def example_loss(self, loaded: Any, example: requests.ModelInput, target: Tensor) -> Tensor:
        scores = loaded.model(*example.inputs).float().cpu()
        return (scores[0, 0] - target[0]).square()

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        return 1.0, "always the mean"


FAMILIES = (ClassificationFamily(), MultilabelFamily(), RegressionFamily())
