"""Error analysis of a run: in full, in short for a report, and in comparison with a second run.

Each family of tasks registers functions of its own, or uses those of its base class; `Family` itself lists the worst
records.
"""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np
import torch

from glassformer.config.errors import Misuse
from glassformer.config.messages import say
from glassformer.config.presets import CLASS
from glassformer.data.wording import counted
from glassformer.error_analysis import labelling, language, translations
from glassformer.error_analysis.calibration import ACCURACY
from glassformer.error_analysis.comparison import PairedScores, RunPair, compare_scores, shared_part, training_overlap
from glassformer.error_analysis.finding import (
    ErrorFinding,
    ErrorRequest,
    ReportedPart,
    panels_of,
    sentence,
    sentences,
    worst,
)
from glassformer.families.base import FAMILIES, AnyRun, EvaluatedPart, Family
from glassformer.families.evaluate import OwnDataGone, evaluate_part, own_corpus
from glassformer.families.labelling import ClassificationFamily, MultilabelFamily, RegressionFamily
from glassformer.families.language import LanguageFamily, StreamFamily
from glassformer.families.load import loaded_run, opened_run
from glassformer.families.requests import EvaluateOptions
from glassformer.families.translation import TranslationFamily
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Rows, Table
from glassformer.rendering.view import View
from glassformer.runs.run import Run
from glassformer.text.display import cut

# --- analyses by family ---


@singledispatch
def error_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    """Return findings on the errors of a run on an evaluated part."""
    return worst_records(family, request.records)


@singledispatch
def brief_errors(family: Family, report: ReportedPart) -> list[Panel]:
    """Return a few panels on the errors of a run on a part, for its report."""
    return panels_of(worst_records(family, report.records))


@singledispatch
def compare_errors(family: Family, pair: RunPair) -> list[ErrorFinding]:
    """Return findings on the differences between the errors of two runs on the same part."""
    first, second = pair.first.evaluation.records, pair.second.evaluation.records
    measure = record_measure(family, first)
    if measure is None or len(first) != len(second):
        return []
    values = [np.array([record[measure] for record in records], float) for records in (first, second)]
    lower = measure == LOSS or family.lower_is_better
    scores = PairedScores(values, pair.names, measure, family.noun, lower_is_better=lower)
    columns = record_columns(first)
    return compare_scores(scores, columns, record_rows(first, columns))


for kind, findings_of, brief_of, comparison_of in (
    (StreamFamily, language.stream_findings, language.stream_brief, compare_errors.dispatch(Family)),
    (LanguageFamily, language.language_findings, language.language_brief, language.compare_language_models),
    (
        ClassificationFamily,
        labelling.classification_findings,
        labelling.classification_brief,
        labelling.compare_classes,
    ),
    (MultilabelFamily, labelling.multilabel_findings, labelling.multilabel_brief, labelling.compare_classes),
    (RegressionFamily, labelling.regression_findings, labelling.regression_brief, labelling.compare_numbers),
    (
        TranslationFamily,
        translations.translation_findings,
        translations.translation_brief,
        translations.compare_translations,
    ),
):
    error_findings.register(kind, findings_of)
    brief_errors.register(kind, brief_of)
    compare_errors.register(kind, comparison_of)


# --- families without an analysis of their own ---

LOSS = "loss"


def worst_records(family: Family, records: Records) -> list[ErrorFinding]:
    """Return the records with the largest loss or the worst primary metric; none if they have neither."""
    measure = record_measure(family, records)
    if measure is None:
        return []
    sign = 1 if measure == LOSS or family.lower_is_better else -1
    farthest = worst(records, lambda record: sign * record[measure])
    columns = record_columns(records)
    rows = record_rows(farthest, columns)
    mean = np.mean([record[measure] for record in records])
    facts = {"examples": counted(len(records), family.noun), "measure": measure, "last": farthest[0][measure]}
    table = Table(title=f"Worst by {measure}", columns=columns, rows=rows)
    return [ErrorFinding([table], sentence("worst", **facts, mean=mean))]


def record_measure(family: Family, records: Records) -> str | None:
    """Return the key of a record's error: the loss, or else the primary metric; None if it has neither."""
    return next((name for name in (LOSS, family.primary) if records and name in records[0]), None)


def record_columns(records: Records) -> list[str]:
    """Return the fields of records that fit into a table."""
    return [name for name, value in records[0].items() if isinstance(value, str | int | float)]


def record_rows(records: Records, columns: Sequence[str]) -> Rows:
    values = [[record.get(name) for name in columns] for record in records]
    return [[cut(value) if isinstance(value, str) else value for value in row] for row in values]


# --- views ---


def check_request(run: AnyRun, second_run: AnyRun | None, accuracy: float | None) -> None:
    """Raise `Misuse` for options that do not fit the run or the two runs."""
    if accuracy is not None and not 0 < accuracy < 1:
        raise Misuse(f"--accuracy {accuracy:g} is the share of answers that should be right: between 0 and 1, as 0.95")
    first = opened_run(run)
    family = FAMILIES[first.config().task]
    if accuracy is not None and (second_run is not None or family.label_kind != CLASS):
        alone = "" if family.label_kind == CLASS else f" ({first.path} learned {family.task})"
        raise Misuse(f"--accuracy is for --errors of one classifier{alone}: leave it out")
    if second_run is None:
        return
    second = opened_run(second_run)
    other = FAMILIES[second.config().task]
    if other is not family:
        raise Misuse(
            f"--second-run {second.path} learned {other.task}, and {first.path} {family.task}: only runs of one "
            "task can be compared"
        )


def error_view(evaluated: EvaluatedPart, accuracy: float | None = None) -> View:
    """Return the view of a run's errors on an evaluated part."""
    loaded, name = evaluated.loaded, evaluated.loaded.run.path.name
    corpus, missing = evaluated.corpus, ""
    if corpus is None:
        try:
            corpus = own_corpus(loaded)
        except OwnDataGone as gone:
            missing = gone.why
            say(f"{missing}: what training had, and what would be fitted on validation, cannot be told")
    with torch.inference_mode():
        findings = error_findings(loaded.family, ErrorRequest(evaluated, corpus, missing, accuracy or ACCURACY))
    return View(
        title=f"Errors of {name}",
        panels=panels_of(findings),
        note=sentences(findings),
        about=f"{name}: {loaded.family.task}, {evaluated.part.name} part. {evaluated.evaluation.summary}.",
    )


def comparison_view(first: EvaluatedPart, second_run: AnyRun, options: EvaluateOptions, device: str = "auto") -> View:
    """Return the view of the differences between the errors of two runs."""
    second = loaded_run(second_run, device)
    family = first.loaded.family
    part = shared_part(family, first, second, options)
    try:
        if warning := training_overlap(family, first, second, part, own_corpus(second)):
            say(warning)
    except OwnDataGone:
        say(f"warning: the data of {second.run.path} is not there: it may have learned from these examples")
    names = _names(first.loaded.run, second.run)
    say(f"{names[1]}:")
    pair = RunPair(first, evaluate_part(second, part, options), names)
    findings = compare_errors(family, pair)
    return View(
        title=f"Errors of {names[0]} and {names[1]}",
        panels=panels_of(findings),
        note=sentences(findings),
        about=f"{names[0]}: {first.evaluation.summary}. {names[1]}: {pair.second.evaluation.summary}.",
    )


def _names(first: Run, second: Run) -> tuple[str, str]:
    """Return the names of the runs' folders, or their paths if the names are equal."""
    one, other = first.path.resolve(), second.path.resolve()
    if one.name != other.name:
        return one.name, other.name
    return (str(first.path), str(second.path)) if one != other else (one.name, f"{one.name} (again)")
