"""Where a run is wrong, in short: what a report tells of it. `evaluate --errors` shows the whole."""

from collections.abc import Mapping

from torch import nn

from glassformer.error_analysis.classes import wrong_in
from glassformer.error_analysis.finding import Found, panels_of
from glassformer.error_analysis.labelling import calibration_of, scored, surest_mistakes, text_findings
from glassformer.error_analysis.language import asked_tokens, brief_findings, surprising
from glassformer.error_analysis.multilabel import wrong_sets
from glassformer.error_analysis.regression import far_numbers
from glassformer.error_analysis.tokens import by_token, surprising_passages
from glassformer.error_analysis.translations import bad_translations
from glassformer.families.base import Prepared
from glassformer.models.language_model import LanguageModel
from glassformer.rendering.panels import Panel
from glassformer.tasks.answers import Classes, Labels
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import Labelling
from glassformer.tasks.language_model import LanguageModelling
from glassformer.tasks.masked_language_model import MaskedModelling
from glassformer.tasks.translation import Translating

VALIDATION = "validation"


def brief_errors(prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]) -> list[Panel]:
    """Of a part that was evaluated."""
    task, evaluation = prepared.task, evaluations[part]
    records = evaluation.records
    if isinstance(task, Translating):
        return [bad_translations(records)]
    if isinstance(task, LanguageModelling):
        assert isinstance(model, LanguageModel)
        assert prepared.tokenizer is not None
        between = " " if prepared.tokenizer.kind == "word" else ""
        tokens = task.parts[part]
        passages = surprising(model, tokens.ids, prepared.tokenizer, records, apart=task.apart)
        brief = brief_findings(asked_tokens(evaluation, tokens), prepared.tokenizer)
        return [*panels_of(brief), *surprising_passages(list(passages), between)]
    if isinstance(task, MaskedModelling):
        assert prepared.tokenizer is not None
        return panels_of([by_token(asked_tokens(evaluation, task.parts[part]), prepared.tokenizer.shown)])
    assert isinstance(task, Labelling)
    inputs = task.parts[part]
    if isinstance(prepared.answers, Labels):
        return [wrong_sets(records, task.noun)]
    if not isinstance(prepared.answers, Classes):
        return [far_numbers(records, task.noun)]
    found = [*surest_mistakes(records, inputs)]
    if wrong_in(records).any():
        found += text_findings(records, inputs)
    found.append(_calibration(task, evaluations, part))
    return panels_of(found)


def _calibration(task: Labelling, evaluations: Mapping[str, Evaluation], part: str) -> Found:
    """Fitted on validation and shown on test; or on two halves of validation."""
    shown = scored(evaluations[part], task.parts[part])
    if part == VALIDATION:
        return calibration_of(shown, None, task.noun)
    if VALIDATION not in evaluations:
        return calibration_of(shown, None, task.noun, why="nothing else was held out")
    return calibration_of(shown, scored(evaluations[VALIDATION], task.parts[VALIDATION]), task.noun)
