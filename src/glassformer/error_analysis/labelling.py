"""Where a run that says something of examples is wrong: classes and numbers, of texts, tables, images and mixtures."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from glassformer.data.columns.heuristics import hold_numbers, number_in
from glassformer.data.features.build import MixedInputs
from glassformer.data.features.images import ImageInputs
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.sequences import Sequences
from glassformer.data.split.labelled import Labelled
from glassformer.error_analysis.calibration import Scored, calibration, halves
from glassformer.error_analysis.classes import (
    LABELS,
    by_class_wrong,
    confusions,
    how_many,
    wrong_answers,
    wrong_images,
    wrong_in,
)
from glassformer.error_analysis.finding import Found, some
from glassformer.error_analysis.groups import Group, by_value, error_rates, quarters
from glassformer.error_analysis.multilabel import by_label_wrong, wrong_sets
from glassformer.error_analysis.regression import by_group, far_numbers, how_far, residuals
from glassformer.error_analysis.words import by_length, lengths_of, over_represented_words, rare_and_unknown
from glassformer.families.predict import texts_in
from glassformer.rendering.confusion import confusion
from glassformer.rendering.curves import Records
from glassformer.tasks.base import Evaluation
from glassformer.text.tokenizer import Tokenizer

ACCURACY = 0.95
"""What answers should reach where nobody says."""


def class_findings(
    evaluation: Evaluation,
    part: Labelled,
    inputs: Inputs,
    *,
    tokenizer: Tokenizer | None,
    seen: Mapping[str, int] | None,
) -> list[Found]:
    """`seen`: how often training had each word, where that can be told."""
    records, noun = evaluation.records, inputs.noun
    wrong = wrong_in(records)
    found = [how_many(records, noun)]
    if LABELS in records[0]:
        names = list(evaluation.details["per_label"])
        found.append(Found([by_label_wrong(records, names, noun), wrong_sets(records, noun)]))
    else:
        matrix = Found([confusion(**evaluation.details["confusion"])])
        found += [matrix, confusions(records, noun), by_class_wrong(records, noun), *surest_mistakes(records, inputs)]
    if not wrong.any():
        return found
    found += text_findings(records, inputs)
    if (texts := texts_in(inputs)) is not None:
        unknown = unknown_in(texts.tokens, tokenizer)
        found.append(rare_and_unknown(texts.texts, wrong, noun, unknown=unknown, seen=seen))
    found.append(error_rates("Errors by column", column_groups(part), wrong, noun))
    return found


def text_findings(records: Records, inputs: Inputs) -> list[Found]:
    """The words and lengths of errors, where examples are texts."""
    if (texts := texts_in(inputs)) is None:
        return []
    wrong = wrong_in(records)
    return [
        by_length(texts.texts, wrong, inputs.noun),
        over_represented_words(texts.texts, wrong, inputs.noun),
    ]


def surest_mistakes(records: Records, inputs: Inputs) -> list[Found]:
    """The most confidently wrong, images as pictures too."""
    pixels = _pixels(inputs)
    pictures = [] if pixels is None else wrong_images(records, lambda place: pixels[place])
    return [Found([wrong_answers(records, inputs.noun), *pictures])]


def _pixels(inputs: Inputs) -> NDArray[np.uint8] | None:
    image = inputs.image if isinstance(inputs, MixedInputs) else inputs
    return image.pixels if isinstance(image, ImageInputs) else None


def number_findings(records: Records, part: Labelled, inputs: Inputs) -> list[Found]:
    """Of a regressor."""
    noun = inputs.noun
    groups = column_groups(part)
    if (texts := texts_in(inputs)) is not None:
        lengths, unit = lengths_of(texts.texts)
        groups = [*quarters(unit, lengths), *groups]
    return [
        how_far(records, noun),
        by_group(records, groups, noun),
        Found([far_numbers(records, noun), residuals(records, noun)]),
    ]


def column_groups(part: Labelled) -> list[Group]:
    """Quarters of every number column, and the values of every category column."""
    groups: list[Group] = []
    for name, values in part.columns.items():
        if hold_numbers(values):
            numbers = [number_in(value) for value in values]
            groups += quarters(name, np.array([np.nan if one is None else one for one in numbers], float))
        else:
            groups += by_value(name, [value.strip() for value in values])
    return groups


def unknown_in(tokens: Sequences, tokenizer: Tokenizer | None) -> NDArray[np.int64] | None:
    """How many tokens of each text the tokenizer does not know; None where it knows every text."""
    if tokenizer is None or tokenizer.unk is None:
        return None
    sums = np.append(0, np.cumsum(tokens.ids == tokenizer.unk))
    out: NDArray[np.int64] = sums[tokens.starts[1:]] - sums[tokens.starts[:-1]]
    return out


def scored(evaluation: Evaluation, inputs: Inputs) -> Scored:
    """What a classifier said, before it became probabilities."""
    return Scored.of(evaluation.arrays["scores"], inputs.answers)


def calibration_of(shown: Scored, other: Scored | None, noun: str, accuracy: float = ACCURACY, why: str = "") -> Found:
    """`other`: the validation part, on which temperature and threshold are fitted; without it, what is shown is the
    validation part itself, and is divided; or `why` it is not there.
    """
    if other is not None or why:
        where = why or f"the validation part ({some(len(other or ()), noun)})"
        return calibration(shown, other, noun=noun, accuracy=accuracy, where=where)
    fitted, rest = halves(shown)
    if not len(fitted):
        return calibration(shown, None, noun=noun, accuracy=accuracy, where=f"there is only {some(len(shown), noun)}")
    where = f"half of the validation part ({some(len(fitted), noun)}; the other half is shown)"
    return calibration(rest, fitted, noun=noun, accuracy=accuracy, where=where)
