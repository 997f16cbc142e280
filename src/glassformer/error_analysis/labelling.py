"""Errors of classifiers (with one label or several) and regressors, on texts, tables, images and combinations."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.messages import listening, silent
from glassformer.data.features.inputs import Inputs
from glassformer.data.wording import counted
from glassformer.error_analysis import comparison, traits
from glassformer.error_analysis.calibration import ScoredExamples, calibration_finding
from glassformer.error_analysis.finding import (
    LABELS,
    MAX_ERRORS,
    ErrorFinding,
    ErrorRequest,
    ReportedPart,
    ends,
    is_wrong,
    panels_of,
    percent,
    sentence,
    span,
    table_or_words,
    worst,
    wrong_rows,
)
from glassformer.families.base import Family
from glassformer.families.evaluate import evaluate_part
from glassformer.families.predict import images_in, texts_in
from glassformer.families.requests import EvaluateOptions
from glassformer.rendering.confusion import confusion
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Gallery, Panel, Points, Rows, Table
from glassformer.statistics.intervals import mean_interval, share_interval, weighted_mean_interval
from glassformer.tasks.base import Evaluation
from glassformer.text.display import cut

VALIDATION = "validation"
MAX_POINTS = 800
"""Maximum number of points of a panel; of more points, every n-th is drawn."""
MAX_NAME_CHARS = 60
"""Maximum number of characters of a class's name."""
MAX_PIXELS = 96
"""Maximum number of pixels along the longer side of an image."""

# --- one classifier ---


def classification_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, inputs = request.records, request.evaluated.inputs
    examples = scored(request.evaluated.evaluation, inputs)
    validation, missing = _validation_scores(request)
    return [
        error_count(records, inputs.noun),
        ErrorFinding([confusion(**request.evaluated.evaluation.details["confusion"])]),
        confusions(records, inputs.noun),
        surest_mistakes(records, inputs),
        *error_traits(request),
        calibration_finding(examples, validation, inputs.noun, request.accuracy, missing),
    ]


def multilabel_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, noun = request.records, request.evaluated.inputs.noun
    least_expected = ErrorFinding([least_expected_labels(records, noun)])
    return [error_count(records, noun), least_expected, *error_traits(request)]


def error_traits(request: ErrorRequest) -> list[ErrorFinding]:
    """Return findings on what wrong examples have in common: lengths, words and columns."""
    inputs, wrong = request.evaluated.inputs, wrong_rows(request.records)
    if not wrong.any():
        return []
    findings = text_findings(request.records, inputs)
    if (texts := texts_in(inputs)) is not None:
        unknown = traits.unknown_tokens(texts.tokens, request.loaded.tokenizer)
        train = None if request.train is None else request.train.texts
        findings.append(traits.rare_and_unknown(texts.texts, wrong, inputs.noun, unknown=unknown, train=train))
    columns = traits.column_groups(request.loaded.features, request.evaluated.part)
    return [*findings, traits.error_rates("Errors by column", columns, wrong, inputs.noun)]


def text_findings(records: Records, inputs: Inputs) -> list[ErrorFinding]:
    """Return findings on the words and lengths of wrong texts; none if no text is wrong."""
    texts, wrong = texts_in(inputs), wrong_rows(records)
    if texts is None or not wrong.any():
        return []
    return [
        traits.errors_by_length(texts.texts, wrong, inputs.noun),
        traits.over_represented_words(texts.texts, wrong, inputs.noun),
    ]


def surest_mistakes(records: Records, inputs: Inputs) -> ErrorFinding:
    """Return the most confident errors, for images also as pictures."""
    images = images_in(inputs)
    pictures = [] if images is None else confident_error_images(records, lambda place: images.pixels[place])
    return ErrorFinding([confident_errors(records, inputs.noun), *pictures])


def scored(evaluation: Evaluation, inputs: Inputs) -> ScoredExamples:
    return ScoredExamples.of(evaluation.arrays["scores"], inputs.answers)


def _validation_scores(request: ErrorRequest) -> tuple[ScoredExamples | None, str]:
    """Return scores of the validation part without the evaluated rows, to fit temperature and threshold.

    Return None and the reason if there are none; the reason is empty if the validation part itself is evaluated.
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
    with listening(silent):
        evaluated = evaluate_part(request.loaded, validation.select(validation.name, others), EvaluateOptions())
    return scored(evaluated.evaluation, evaluated.inputs), ""


# --- a classifier in a report ---


def classification_brief(family: Family, report: ReportedPart) -> list[Panel]:
    inputs, records, evaluations = report.inputs, report.records, report.evaluations
    validation, missing = None, "" if report.part == VALIDATION else "nothing else was held out"
    if report.part != VALIDATION and VALIDATION in evaluations:
        validation = scored(evaluations[VALIDATION], report.prepared.task.parts[VALIDATION])
    examples = scored(evaluations[report.part], inputs)
    sureness = calibration_finding(examples, validation, inputs.noun, missing=missing)
    return panels_of([surest_mistakes(records, inputs), *text_findings(records, inputs), sureness])


def multilabel_brief(family: Family, report: ReportedPart) -> list[Panel]:
    return [least_expected_labels(report.records, report.inputs.noun)]


# --- two classifiers ---


def compare_classes(family: Family, pair: comparison.RunPair) -> list[ErrorFinding]:
    first, second = comparison.match_records(pair, lambda side: side.part.lines)
    own = pair.first.inputs.noun
    noun = own if own in first[0] and own in second[0] else "example"
    first, second = ([{**record, noun: example_name(record)} for record in records] for records in (first, second))
    sides = comparison.right_and_wrong(~wrong_rows(first), ~wrong_rows(second), pair.names, noun)
    return [sides, ErrorFinding(comparison.only_one_gets(first, second, pair.names, noun))]


def example_name(record: Mapping[str, Any]) -> str:
    """Return the name of an example in a record, whatever its key."""
    return str(record.get("text", record.get("example", "")))


# --- regressors ---


def regression_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    records, inputs = request.records, request.evaluated.inputs
    groups = traits.column_groups(request.loaded.features, request.evaluated.part)
    if (texts := texts_in(inputs)) is not None:
        lengths, unit = traits.lengths_of(texts.texts)
        groups = [*traits.quartiles(unit, lengths), *groups]
    return [
        mean_error(records, inputs.noun),
        errors_by_group(records, groups, inputs.noun),
        ErrorFinding([largest_errors(records, inputs.noun), residuals(records, inputs.noun)]),
    ]


def regression_brief(family: Family, report: ReportedPart) -> list[Panel]:
    return [largest_errors(report.records, report.inputs.noun)]


def compare_numbers(family: Family, pair: comparison.RunPair) -> list[ErrorFinding]:
    first, second = comparison.match_records(pair, lambda side: side.part.lines)
    sizes = [np.abs([record["error"] for record in records]) for records in (first, second)]
    rows: Rows = [[cut(example_name(record)), record["number"]] for record in first]
    return comparison.compare_scores(
        comparison.PairedScores(sizes, pair.names, "error", "example"), ["example", "true"], rows
    )


def largest_errors(records: Records, noun: str) -> Table:
    """Return the examples with the largest errors of a regressor."""
    return Table(
        title="Farthest off",
        columns=[noun, "true", "predicted", "difference"],
        rows=[
            [cut(record[noun]), record["number"], record["predicted"], record["error"]]
            for record in worst(records, lambda record: abs(record["error"]))
        ],
    )


def mean_error(records: Records, noun: str) -> ErrorFinding:
    """Return the mean error (bias) and the mean absolute error."""
    errors = np.array([record["error"] for record in records], float)
    bias, size = mean_interval(errors.tolist()), weighted_mean_interval(np.abs(errors))
    table = Table(
        title="How far off",
        columns=["mean difference", "value", "from", "to"],
        rows=[
            ["predicted less true (bias)", float(errors.mean()), *((None, None) if bias is None else ends(bias))],
            ["without its sign", size.value, *ends(size)],
        ],
        note=sentence("mean error: note"),
    )
    facts = {"examples": counted(len(records), noun), "size": size.value, "bias": float(errors.mean())}
    return ErrorFinding([table], sentence("mean error", **facts))


def errors_by_group(records: Records, groups: Sequence[traits.Group], noun: str) -> ErrorFinding:
    """Return the mean absolute error of each group, such as a quartile of a column."""
    sizes = np.abs(np.array([record["error"] for record in records], float))
    return traits.means("How far off, by group", groups, sizes, noun, "mean absolute error")


def residuals(records: Records, noun: str) -> Points:
    """Return the predictions and their differences to the true values."""
    stride = -(-len(records) // MAX_POINTS)
    sample = records[::stride]
    return Points(
        title="Predicted, and how far off",
        points=np.array([[record["predicted"], record["error"]] for record in sample], np.float32),
        labels=[cut(str(record[noun]), 60) for record in sample],
        x_name="predicted",
        y_name="predicted less true",
        note="" if stride == 1 else f"Every {stride}-th of {counted(len(records), noun)}.",
    )


# --- wrong classes ---


def error_count(records: Records, noun: str) -> ErrorFinding:
    """Return a sentence with the number of errors."""
    errors = int(wrong_rows(records).sum())
    key = "errors: none" if not errors else "errors: all" if errors == len(records) else "errors: some"
    share = share_interval(errors, len(records))
    facts = {"share": percent(share.value), "span": span(share), "whole": counted(len(records), noun)}
    return ErrorFinding(sentence=sentence(key, errors=errors, verb="is" if errors == 1 else "are", **facts))


def confusions(records: Records, noun: str) -> ErrorFinding:
    """Return the pairs of confused classes, the most frequent first."""
    pairs = Counter((record["label"], record["predicted"]) for record in records if is_wrong(record))
    if not pairs:
        return ErrorFinding()
    errors, sizes = pairs.total(), Counter(record["label"] for record in records)
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    table = Table(
        title="The most frequent confusions",
        columns=["true", "predicted", f"{noun}s", "of the errors", f"of that class's {noun}s"],
        rows=[
            [cut(true, MAX_NAME_CHARS), cut(other, MAX_NAME_CHARS), count, count / errors, count / sizes[true]]
            for (true, other), count in ordered[:MAX_ERRORS]
        ],
        bars=("of the errors", f"of that class's {noun}s"),
        note=f"{len(pairs):,} kinds of confusion, {counted(errors, 'error')}." if len(pairs) > MAX_ERRORS else "",
    )
    (true, taken), count = ordered[0]
    summary = sentence("confusion", share=percent(count / errors), count=count, true=true, taken=taken)
    return ErrorFinding([table], summary if count > 1 else "")


def confident_errors(records: Records, noun: str) -> Panel:
    """Return the most confident errors of a classifier."""
    columns = [noun, "true", "predicted", "probability", "probability of the true one"]
    wrong = int(wrong_rows(records).sum())
    return table_or_words(
        "Most confidently wrong",
        columns,
        [
            [cut(record[noun]), record["label"], record["predicted"], record["probability"], _true_probability(record)]
            for record in worst(records, _misplaced_confidence)
        ],
        nothing=f"None of the {counted(len(records), noun)} was taken for something else.",
        bars=columns[3:],
        takeaway=f"{wrong:,} of {counted(len(records), noun)} {'is' if wrong == 1 else 'are'} wrong",
    )


def _true_probability(record: Mapping[str, Any]) -> float | None:
    """Return the probability of the true class; None if the model does not know that class."""
    return None if record["loss"] is None else math.exp(-record["loss"])


def _misplaced_confidence(record: Mapping[str, Any]) -> float | None:
    return record["probability"] if is_wrong(record) else None


def confident_error_images(records: Records, images: Callable[[int], NDArray[np.uint8]]) -> list[Panel]:
    """Return the most confident errors as pictures; `images` returns the image at a position."""
    places = worst(range(len(records)), lambda place: _misplaced_confidence(records[place]))
    if not places:
        return []
    captions = [
        f"{record['label']}, taken for {record['predicted']} ({record['probability']:.2f})"
        for record in (records[place] for place in places)
    ]
    pictures = [thumbnail(images(place)) for place in places]
    return [Gallery(title="Most confidently wrong, as pictures", images=pictures, captions=captions)]


def thumbnail(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return every n-th pixel of a large image."""
    stride = math.ceil(max(image.shape[:2]) / MAX_PIXELS)
    return image[::stride, ::stride]


# --- wrong sets of labels ---


def least_expected_labels(records: Records, noun: str) -> Panel:
    """Return the wrong examples with the largest loss."""
    return table_or_words(
        "Least expected labels",
        [noun, "true", "predicted", "loss"],
        [
            [cut(record[noun]), "; ".join(record[LABELS]), "; ".join(record["predicted"]), record["loss"]]
            for record in worst(records, lambda record: record["loss"] if is_wrong(record) else None)
        ],
        nothing=f"All labels of the {counted(len(records), noun)} are right.",
        note=f"Of {wrong_rows(records).sum():,} of {counted(len(records), noun)} not all labels are right.",
    )
