"""What a model says of an example, as the playground shows it: rows of names and probabilities."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.config.errors import silent
from glassformer.decoding.options import Sampling
from glassformer.families.base import Family
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.families.language import LanguageFamily, LoadedLanguageModel, LoadedMasked, MaskedFamily
from glassformer.families.requests import Example, ModelInput
from glassformer.families.translation import LoadedTranslator, TranslationFamily
from glassformer.inspection.tree import Choice, choices_of
from glassformer.text.display import quoted
from glassformer.text.tokenizer import Tokenizer

LIKELIEST = 12
"""Tokens that are told of."""

Summary = dict[str, Any]


@singledispatch
def summarise_prediction(
    family: Family, loaded: Any, given: Example, example: ModelInput, how: Sampling, also: list[int]
) -> Summary:
    """`kind`: next, fill, classes, labels, number, translation, or nothing; `groups` of rows for all but the last.

    `also`: ids of tokens that are to be among the rows.
    """
    return {"kind": "nothing", "groups": []}


@summarise_prediction.register
def _(
    family: LanguageFamily,
    loaded: LoadedLanguageModel,
    given: Example,
    example: ModelInput,
    how: Sampling,
    also: list[int],
) -> Summary:
    model, tokenizer = loaded.model, loaded.tokenizer
    with torch.inference_mode():
        scores = model.head(features_of(model, example)[-1])
    ids = tokenizer.encode(str(given))
    rows = [
        {**token_row(choice), "text": appended(tokenizer, str(given), ids, choice.id)}
        for choice in choices_of(scores, how, loaded, most=LIKELIEST, never=loaded.never_written, also=also)
    ]
    return {"kind": "next", "groups": [{"title": f"after {quoted(example.tokens[-1])}", "rows": rows}]}


@summarise_prediction.register
def _(
    family: MaskedFamily, loaded: LoadedMasked, given: Example, example: ModelInput, how: Sampling, also: list[int]
) -> Summary:
    places = [at for at, id in enumerate(example.ids) if id == loaded.tokenizer.mask]
    with torch.inference_mode():
        scores = loaded.model.head(features_of(loaded.model, example)[places])
    unnamed = set(range(scores.shape[-1])) - set(loaded.tokenizer.texts)
    groups = []
    for number, (at, row) in enumerate(zip(places, scores, strict=True), 1):
        choices = choices_of(row, how, loaded, most=LIKELIEST, never=(), unnamed=unnamed, also=also)
        groups.append({"title": f"hidden token {number}", "position": at, "rows": [token_row(one) for one in choices]})
    return {"kind": "fill", "groups": groups}


def features_of(model: Any, example: ModelInput) -> Float[Tensor, "T d"]:
    """What the head sees of an example, token by token."""
    return model.features(*example.inputs)[0]


def token_row(choice: Choice) -> dict[str, Any]:
    """A token that may come next, with all that becomes of its score."""
    tempered = choice.tempered if choice.tempered > -torch.inf else None
    return {
        "name": choice.token,
        "id": choice.id,
        "score": choice.score,
        "tempered": tempered,
        "probability": choice.probability,
        "drawn": choice.drawn,
        "cut": choice.pruned,
    }


def appended(tokenizer: Tokenizer, text: str, ids: Sequence[int], id: int) -> str | None:
    """The text, of which these are the tokens, with one more behind it; None: one that ends a text."""
    if id in tokenizer.specials:
        return None
    before, after = tokenizer.decode(ids), tokenizer.decode([*ids, id])
    return text + (after[len(before) :] if after.startswith(before) else tokenizer.token(id))


@summarise_prediction.register
def _(
    family: LabellingFamily,
    loaded: LoadedPredictor,
    given: Example,
    example: ModelInput,
    how: Sampling,
    also: list[int],
) -> Summary:
    prediction = loaded.predict(given, say=silent)
    if prediction.probabilities is None:
        return {"kind": "number", "value": prediction.value, "groups": []}
    rows = [{"name": name, "probability": chance} for name, chance in prediction.probabilities.items()]
    kind = "classes" if prediction.labels is None else "labels"
    return {"kind": kind, "said": prediction.labels or [prediction.label], "groups": [{"title": "", "rows": rows}]}


@summarise_prediction.register
def _(
    family: TranslationFamily,
    loaded: LoadedTranslator,
    given: Example,
    example: ModelInput,
    how: Sampling,
    also: list[int],
) -> Summary:
    assert example.answers is not None
    assert example.answer_ids is not None
    with torch.inference_mode():
        scores = loaded.model.head(features_of(loaded.model, example)).float()
    chances = scores.softmax(-1).gather(1, torch.tensor(example.answer_ids, device=scores.device).unsqueeze(1))[:, 0]
    rows = [
        {"name": name, "probability": chance} for name, chance in zip(example.answers, chances.tolist(), strict=True)
    ]
    return {"kind": "translation", "text": example.output, "groups": [{"title": "token by token", "rows": rows}]}
