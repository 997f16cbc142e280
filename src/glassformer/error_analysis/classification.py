"""Where a classifier is wrong, with one label or several: of texts, tables, images and mixtures."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from glassformer.data.features.inputs import Inputs
from glassformer.error_analysis.calibration import ScoredExamples, calibrate
from glassformer.error_analysis.classes import (
    confident_error_images,
    confident_errors,
    confusions,
    error_count,
    errors_by_class,
    errors_by_label,
    least_expected_labels,
    wrong_rows,
)
from glassformer.error_analysis.comparison import RunPair, match_records, only_one_gets, right_and_wrong
from glassformer.error_analysis.finding import ErrorFinding, ErrorRequest, panels_of
from glassformer.error_analysis.groups import column_groups, error_rates
from glassformer.error_analysis.words import (
    errors_by_length,
    over_represented_words,
    rare_and_unknown,
    unknown_tokens,
    word_counts,
)
from glassformer.families.base import Family, Prepared
from glassformer.families.evaluate import evaluate_part
from glassformer.families.predict import images_in, texts_in
from glassformer.families.requests import EvaluateOptions
from glassformer.rendering.confusion import confusion
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel
from glassformer.tasks.base import Evaluation

VALIDATION = "validation"


# --- one run ---


def classification_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, inputs = request.records, request.evaluated.inputs
    return [
        error_count(records, inputs.noun),
        ErrorFinding([confusion(**request.evaluated.evaluation.details["confusion"])]),
        confusions(records, inputs.noun),
        errors_by_class(records, inputs.noun),
        surest_mistakes(records, inputs),
        *error_traits(request),
        _calibration(request),
    ]


def multilabel_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, noun = request.records, request.evaluated.inputs.noun
    names = list(request.evaluated.evaluation.details["per_label"])
    labels = ErrorFinding([errors_by_label(records, names, noun), least_expected_labels(records, noun)])
    return [error_count(records, noun), labels, *error_traits(request)]


def error_traits(request: ErrorRequest) -> list[ErrorFinding]:
    """What examples have in common that are wrong: their lengths, words, columns."""
    inputs, wrong = request.evaluated.inputs, wrong_rows(request.records)
    if not wrong.any():
        return []
    findings = text_findings(request.records, inputs)
    if (texts := texts_in(inputs)) is not None:
        unknown = unknown_tokens(texts.tokens, request.loaded.tokenizer)
        seen = None if request.train is None else word_counts(request.train.texts)
        findings.append(rare_and_unknown(texts.texts, wrong, inputs.noun, unknown=unknown, seen=seen))
    columns = column_groups(request.evaluated.part)
    return [*findings, error_rates("Errors by column", columns, wrong, inputs.noun)]


def text_findings(records: Records, inputs: Inputs) -> list[ErrorFinding]:
    """The words and lengths of errors, where examples are texts."""
    if (texts := texts_in(inputs)) is None:
        return []
    wrong = wrong_rows(records)
    return [
        errors_by_length(texts.texts, wrong, inputs.noun),
        over_represented_words(texts.texts, wrong, inputs.noun),
    ]


def surest_mistakes(records: Records, inputs: Inputs) -> ErrorFinding:
    """The most confidently wrong, images as pictures too."""
    images = images_in(inputs)
    pictures = [] if images is None else confident_error_images(records, lambda place: images.pixels[place])
    return ErrorFinding([confident_errors(records, inputs.noun), *pictures])


def scored(evaluation: Evaluation, inputs: Inputs) -> ScoredExamples:
    return ScoredExamples.of(evaluation.arrays["scores"], inputs.answers)


def _calibration(request: ErrorRequest) -> ErrorFinding:
    """Temperature and threshold come from the run's validation part, less what of it is shown."""
    examples = scored(request.evaluated.evaluation, request.evaluated.inputs)
    validation, missing = _validation_scores(request)
    return calibrate(examples, validation, request.evaluated.inputs.noun, request.accuracy, missing)


def _validation_scores(request: ErrorRequest) -> tuple[ScoredExamples | None, str]:
    """The scores of the validation part, less what is shown; or why there are none, if it is not shown itself."""
    part, corpus = request.evaluated.part, request.corpus
    if request.loaded.config.data.refit:
        return None, "the run was refitted: it learned from validation too"
    if corpus is None or VALIDATION not in corpus.parts:
        return None, request.missing or "the run's data has no validation part"
    validation = corpus.parts[VALIDATION]
    if part is validation:
        return None, ""
    others = np.flatnonzero(~np.isin(validation.digests, part.digests)).tolist()
    if not others:
        return None, "all of the validation part is shown here"
    evaluated = evaluate_part(request.loaded, validation.select(validation.name, others), EvaluateOptions())
    return scored(evaluated.evaluation, evaluated.inputs), ""


# --- in a report ---


def classification_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    inputs, records = prepared.task.parts[part], evaluations[part].records
    findings = [surest_mistakes(records, inputs)]
    if wrong_rows(records).any():
        findings += text_findings(records, inputs)
    examples = scored(evaluations[part], inputs)
    validation, missing = None, ""
    if part != VALIDATION and VALIDATION in evaluations:
        validation = scored(evaluations[VALIDATION], prepared.task.parts[VALIDATION])
    elif part != VALIDATION:
        missing = "nothing else was held out"
    return panels_of([*findings, calibrate(examples, validation, inputs.noun, missing=missing)])


def multilabel_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    return [least_expected_labels(evaluations[part].records, prepared.task.parts[part].noun)]


# --- two runs ---


def compare_classes(family: Family, pair: RunPair) -> list[ErrorFinding]:
    first, second = match_records(pair, lambda side: side.part.lines)
    own = pair.first.inputs.noun
    noun = own if own in first[0] and own in second[0] else "example"
    first, second = ([{**record, noun: example_name(record)} for record in records] for records in (first, second))
    sides = right_and_wrong(~wrong_rows(first), ~wrong_rows(second), pair.names, noun)
    return [sides, ErrorFinding(only_one_gets(first, second, pair.names, noun))]


def example_name(record: Mapping[str, Any]) -> str:
    """What an example is known by, whatever the run calls it."""
    return str(record.get("text", record.get("example", "")))
