"""Where a run is wrong: what it confuses, on what its errors lie, and how they differ from another run's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from glassformer.config.errors import DataError, Misuse
from glassformer.config.presets import CLASSIFICATION, MULTILABEL, REGRESSION
from glassformer.config.say import Say, silent
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.pairs import PairExamples
from glassformer.data.packing.shards import Ids
from glassformer.data.packing.store import Tokens, pack
from glassformer.data.split.labelled import Labelled, LabelledCorpus
from glassformer.data.split.part import Part
from glassformer.error_analysis.comparison import versus_view
from glassformer.error_analysis.finding import Found, panels_of, sentences
from glassformer.error_analysis.labelling import (
    ACCURACY,
    calibration_of,
    class_findings,
    number_findings,
    scored,
    unknown_in,
)
from glassformer.error_analysis.language import language_findings, masked_findings
from glassformer.error_analysis.translations import (
    MOST_LOOKED_AT,
    bad_translations,
    by_source_length,
    how_good,
    oddities,
    sentence_scores,
)
from glassformer.error_analysis.words import counts_of
from glassformer.families.base import AnyRun, EvaluatedPart, Loaded
from glassformer.families.evaluate import OwnDataGone, evaluate_part, evaluate_run, own_corpus
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.masked import LoadedMasked
from glassformer.families.requests import EvaluateOptions
from glassformer.families.translation import LoadedTranslator
from glassformer.rendering.view import View
from glassformer.runs.run import Run

OwnData = Any


def errors(
    run: AnyRun,
    data: str | None = None,
    *,
    part: str | None = None,
    versus: AnyRun | None = None,
    accuracy: float | None = None,
    stride: int | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    device: str = "auto",
    reading: Mapping[str, Any] | None = None,
    say: Say = silent,
) -> View:
    """Where a run is wrong on `data`, or without it on a part of its own: test if it has one, else validation.

    `versus`: a second run of the same task, judged on the same examples. `accuracy`: which share of a classifier's
    answers should be right (0.95); the view tells below which probability a person should look instead. The rest is
    as in `evaluate`.
    """
    check(run, versus, accuracy)
    asked = EvaluateOptions(
        data=data, part=part, stride=stride, beam=beam, length_penalty=length_penalty, reading=dict(reading or {})
    )
    one = evaluate_run(run, asked, device, say)
    return errors_in(one, asked, versus=versus, accuracy=accuracy, device=device, say=say)


def check(run: AnyRun, versus: AnyRun | None, accuracy: float | None) -> None:
    """Before anything is computed: whether this can be asked of the run, or of the two."""
    if accuracy is not None and not 0 < accuracy < 1:
        raise Misuse(f"--accuracy {accuracy:g} is the share of answers that should be right: between 0 and 1, as 0.95")
    one = _opened(run)
    task = one.config().task
    if accuracy is not None and (task != CLASSIFICATION or versus is not None):
        alone = "" if task == CLASSIFICATION else f" ({one.path} learned {task})"
        raise Misuse(f"--accuracy is for --errors of one classifier{alone}: leave it out")
    if versus is None:
        return
    other = _opened(versus)
    if other.config().task != task:
        raise Misuse(
            f"--versus {other.path}: it learned {other.config().task}, and {one.path} {task}: only runs of one task "
            "can be compared"
        )


def _opened(run: AnyRun) -> Run:
    if isinstance(run, Loaded):
        return run.run
    return run if isinstance(run, Run) else Run.open(run)


def errors_in(
    one: EvaluatedPart,
    asked: EvaluateOptions,
    *,
    versus: AnyRun | None = None,
    accuracy: float | None = None,
    device: str = "auto",
    say: Say = silent,
) -> View:
    """The same of an evaluation that was made already."""
    task, name = one.loaded.config.task, one.loaded.run.path.name
    if versus is not None:
        return versus_view(one, versus, asked, device, say)
    with torch.inference_mode():
        found = _findings(one, accuracy or ACCURACY, say)
    about = f"{name}: {task}, {one.part.name} part. {one.evaluation.words}."
    return View(f"Errors of {name}", panels_of(found), sentences(found), about)


def _findings(one: EvaluatedPart, accuracy: float, say: Say) -> list[Found]:
    loaded, evaluation = one.loaded, one.evaluation
    corpus, why = _own(one, say)
    if isinstance(loaded, LoadedLanguageModel):
        assert isinstance(one.inputs, Tokens)
        train = _trained_on(loaded, corpus, say)
        apart = loaded.config.data.documents_apart
        return language_findings(loaded.model, evaluation, one.inputs, loaded.tokenizer, train, apart=apart)
    if isinstance(loaded, LoadedMasked):
        assert isinstance(one.inputs, Tokens)
        return masked_findings(evaluation, one.inputs, loaded.tokenizer, _trained_on(loaded, corpus, say))
    if isinstance(loaded, LoadedTranslator):
        assert isinstance(one.inputs, PairExamples)
        return _of_translations(one, one.inputs, loaded, say)
    assert isinstance(loaded, LoadedPredictor)
    assert isinstance(one.part, Labelled)
    assert isinstance(one.inputs, Inputs)
    if loaded.config.task == REGRESSION:
        return number_findings(evaluation.records, one.part, one.inputs)
    learned = corpus.parts["train"].texts if isinstance(corpus, LabelledCorpus) and loaded.tokenizer else None
    found = class_findings(
        evaluation,
        one.part,
        one.inputs,
        tokenizer=loaded.tokenizer,
        seen=None if learned is None else counts_of(learned),
    )
    if loaded.config.task == MULTILABEL:
        return found
    return [*found, _calibration(one, one.inputs, corpus, why, accuracy)]


def _own(one: EvaluatedPart, say: Say) -> tuple[OwnData | None, str]:
    """The run's own data, or why it is not there."""
    if one.corpus is not None:
        return one.corpus, ""
    try:
        return own_corpus(one.loaded), ""
    except OwnDataGone as gone:
        say(f"{gone.why}: what training had, and what would be fitted on validation, cannot be told")
        return None, gone.why


def _calibration(one: EvaluatedPart, inputs: Inputs, corpus: OwnData | None, why: str, accuracy: float) -> Found:
    """Temperature and threshold come from the run's validation part, less what of it is shown."""
    shown = scored(one.evaluation, inputs)
    if one.loaded.config.data.refit:
        return calibration_of(
            shown, None, inputs.noun, accuracy, "the run was refitted: it learned from validation too"
        )
    if corpus is None or "validation" not in corpus.parts:
        return calibration_of(shown, None, inputs.noun, accuracy, why or "the run's data has no validation part")
    validation = corpus.parts["validation"]
    if one.part is validation:
        return calibration_of(shown, None, inputs.noun, accuracy)
    assert isinstance(one.part, Labelled)
    assert isinstance(validation, Labelled)
    others = np.flatnonzero(~np.isin(validation.digests, one.part.digests)).tolist()
    if not others:
        return calibration_of(shown, None, inputs.noun, accuracy, "all of the validation part is shown here")
    other = evaluate_part(one.loaded, validation.select(validation.name, others), EvaluateOptions())
    assert isinstance(other.inputs, Inputs)
    return calibration_of(shown, scored(other.evaluation, other.inputs), inputs.noun, accuracy)


def _trained_on(loaded: LoadedLanguageModel | LoadedMasked, corpus: OwnData | None, say: Say) -> Ids | None:
    if corpus is None:
        return None
    part = corpus.parts["train"]
    assert isinstance(part, Part)
    return pack(part, loaded.tokenizer, say).ids


def _of_translations(one: EvaluatedPart, inputs: PairExamples, loaded: LoadedTranslator, say: Say) -> list[Found]:
    records, unknown = one.evaluation.records, unknown_in(inputs.source, loaded.tokenizer)
    if not records:
        raise DataError("there is no pair to look at")
    apart = -(-len(records) // MOST_LOOKED_AT)
    if apart > 1:
        say(f"errors are looked for in every {apart}th of {len(records):,} pairs")
        records, unknown = records[::apart], None if unknown is None else unknown[::apart]
    scores = sentence_scores(records)
    return [
        how_good(records, scores),
        by_source_length(records, scores),
        oddities(records, scores, None if unknown is None else unknown > 0),
        Found([bad_translations(records, scores)]),
    ]
