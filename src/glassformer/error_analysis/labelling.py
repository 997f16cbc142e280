"""Where a classifier is wrong, with one label or several, or a regressor: of texts, tables, images and mixtures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from glassformer.data.features.inputs import Inputs
from glassformer.data.wording import counted
from glassformer.error_analysis.calibration import ScoredExamples, calibration
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
from glassformer.error_analysis.comparison import (
    PairedScores,
    RunPair,
    compare_scores,
    match_records,
    only_one_gets,
    right_and_wrong,
)
from glassformer.error_analysis.finding import CHANCE, ErrorFinding, ErrorRequest, ends, panels_of, worst
from glassformer.error_analysis.traits import (
    Group,
    column_groups,
    error_rates,
    errors_by_length,
    lengths_of,
    means,
    over_represented_words,
    quartiles,
    rare_and_unknown,
    unknown_tokens,
)
from glassformer.families.base import Family, Prepared
from glassformer.families.evaluate import evaluate_part
from glassformer.families.predict import images_in, texts_in
from glassformer.families.requests import EvaluateOptions
from glassformer.rendering.confusion import confusion
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Points, Rows, Table
from glassformer.statistics.intervals import mean_interval, weighted_mean_interval
from glassformer.statistics.paired import difference_p
from glassformer.tasks.base import Evaluation
from glassformer.text.display import cut

VALIDATION = "validation"
MOST_POINTS = 800
"""Points of a picture; of more, every so-manieth."""


# --- one classifier ---


def classification_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, inputs = request.records, request.evaluated.inputs
    examples = scored(request.evaluated.evaluation, inputs)
    validation, missing = _validation_scores(request)
    return [
        error_count(records, inputs.noun),
        ErrorFinding([confusion(**request.evaluated.evaluation.details["confusion"])]),
        confusions(records, inputs.noun),
        errors_by_class(records, inputs.noun),
        surest_mistakes(records, inputs),
        *error_traits(request),
        calibration(examples, validation, inputs.noun, request.accuracy, missing),
    ]


def multilabel_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, noun = request.records, request.evaluated.inputs.noun
    by_label = errors_by_label(records, list(request.evaluated.evaluation.details["per_label"]), noun)
    labels = ErrorFinding([by_label, least_expected_labels(records, noun)])
    return [error_count(records, noun), labels, *error_traits(request)]


def error_traits(request: ErrorRequest) -> list[ErrorFinding]:
    """What examples have in common that are wrong: their lengths, words, columns."""
    inputs, wrong = request.evaluated.inputs, wrong_rows(request.records)
    if not wrong.any():
        return []
    findings = text_findings(request.records, inputs)
    if (texts := texts_in(inputs)) is not None:
        unknown = unknown_tokens(texts.tokens, request.loaded.tokenizer)
        train = None if request.train is None else request.train.texts
        findings.append(rare_and_unknown(texts.texts, wrong, inputs.noun, unknown=unknown, train=train))
    columns = column_groups(request.loaded.features, request.evaluated.part)
    return [*findings, error_rates("Errors by column", columns, wrong, inputs.noun)]


def text_findings(records: Records, inputs: Inputs) -> list[ErrorFinding]:
    """The words and lengths of errors, where examples are texts and some are wrong."""
    texts, wrong = texts_in(inputs), wrong_rows(records)
    if texts is None or not wrong.any():
        return []
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


def _validation_scores(request: ErrorRequest) -> tuple[ScoredExamples | None, str]:
    """The scores of the validation part, less what is shown: temperature and threshold come from them; or why there are
    none, if it is not shown itself.
    """
    part, corpus = request.evaluated.part, request.corpus
    if request.loaded.config.data.refit:
        return None, "the run was refitted: it learned from validation too"
    if corpus is None or VALIDATION not in corpus.parts:
        return None, request.missing or "the run's data has no validation part"
    validation = corpus.parts[VALIDATION]
    if part is validation:
        return None, ""
    others = np.flatnonzero(~np.isin(validation.keys, part.keys)).tolist()
    if not others:
        return None, "all of the validation part is shown here"
    evaluated = evaluate_part(request.loaded, validation.select(validation.name, others), EvaluateOptions())
    return scored(evaluated.evaluation, evaluated.inputs), ""


# --- a classifier in a report ---


def classification_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    inputs, records = prepared.task.parts[part], evaluations[part].records
    validation, missing = None, "" if part == VALIDATION else "nothing else was held out"
    if part != VALIDATION and VALIDATION in evaluations:
        validation = scored(evaluations[VALIDATION], prepared.task.parts[VALIDATION])
    sureness = calibration(scored(evaluations[part], inputs), validation, inputs.noun, missing=missing)
    return panels_of([surest_mistakes(records, inputs), *text_findings(records, inputs), sureness])


def multilabel_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    return [least_expected_labels(evaluations[part].records, prepared.task.parts[part].noun)]


# --- two classifiers ---


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


# --- regressors ---


def regression_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, inputs = request.records, request.evaluated.inputs
    groups = column_groups(request.loaded.features, request.evaluated.part)
    if (texts := texts_in(inputs)) is not None:
        lengths, unit = lengths_of(texts.texts)
        groups = [*quartiles(unit, lengths), *groups]
    return [
        mean_error(records, inputs.noun),
        errors_by_group(records, groups, inputs.noun),
        ErrorFinding([largest_errors(records, inputs.noun), residuals(records, inputs.noun)]),
    ]


def regression_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    return [largest_errors(evaluations[part].records, prepared.task.parts[part].noun)]


def compare_numbers(family: Family, pair: RunPair) -> list[ErrorFinding]:
    first, second = match_records(pair, lambda side: side.part.lines)
    sizes = [np.abs([record["error"] for record in records]) for records in (first, second)]
    rows: Rows = [[cut(example_name(record)), record["number"]] for record in first]
    return compare_scores(PairedScores(sizes, pair.names, "error", "example"), ["example", "true"], rows)


def largest_errors(records: Records, noun: str) -> Table:
    """Where a regressor was farthest off."""
    return Table(
        title="Farthest off",
        columns=[noun, "true", "predicted", "difference"],
        rows=[
            [cut(record[noun]), record["number"], record["predicted"], record["error"]]
            for record in worst(records, lambda record: abs(record["error"]))
        ],
    )


def mean_error(records: Records, noun: str) -> ErrorFinding:
    """The mean error with its sign (bias) and without it."""
    errors = np.array([record["error"] for record in records], float)
    bias, size = mean_interval(errors.tolist()), weighted_mean_interval(np.abs(errors))
    table = Table(
        title="How far off",
        columns=["mean difference", "value", "from", "to"],
        rows=[
            ["predicted less true (bias)", float(errors.mean()), *((None, None) if bias is None else ends(bias))],
            ["without its sign", size.value, *ends(size)],
        ],
        note="The true mean lies between “from” and “to” in 95 of 100 cases; of a single example nobody knows.",
    )
    sentence = f"{counted(len(records), noun)}: {size.value:.4g} off on average"
    if bias is not None and not bias.low <= 0 <= bias.high:
        than = "large" if bias.value > 0 else "small"
        sentence += f", and too {than} by {abs(bias.value):.3g} ({bias.low:.3g} to {bias.high:.3g})"
    return ErrorFinding([table], f"{sentence}.")


def errors_by_group(records: Records, groups: Sequence[Group], noun: str) -> ErrorFinding:
    """The mean absolute error of each group, such as a quarter of a column."""
    sizes = np.abs(np.array([record["error"] for record in records], float))
    panels = means("How far off, by group", groups, sizes, noun, "mean absolute error")
    compared = [(difference_p(sizes[group.rows], sizes[~group.rows]), group) for group in groups if group.size > 1]
    far_off = [
        (p, group) for p, group in compared if p * len(compared) < CHANCE and sizes[group.rows].mean() > sizes.mean()
    ]
    if not far_off:
        return ErrorFinding(panels)
    _, group = min(far_off, key=lambda pair: pair[0])
    sentence = f"Where {group.of} is {group.name}, it is {sizes[group.rows].mean():.3g} off, against "
    return ErrorFinding(panels, f"{sentence}{sizes.mean():.3g} of all.")


def residuals(records: Records, noun: str) -> Points:
    """What was predicted, and how far above the truth that is."""
    stride = -(-len(records) // MOST_POINTS)
    sample = records[::stride]
    return Points(
        title="Predicted, and how far off",
        points=np.array([[record["predicted"], record["error"]] for record in sample], np.float32),
        labels=[cut(str(record[noun]), 60) for record in sample],
        x_name="predicted",
        y_name="predicted less true",
        note="" if stride == 1 else f"Every {stride}th of {counted(len(records), noun)}.",
    )
