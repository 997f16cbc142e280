"""Examples of the playground: predictions for the user's example, and the examples that the page offers."""

import base64
import io
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, singledispatch
from importlib.resources import files
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from glassformer.config.errors import GlassformerError
from glassformer.config.messages import silent
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import DATASETS, open_dataset
from glassformer.decoding.options import Sampling
from glassformer.families.base import Family, Loaded
from glassformer.families.labelling import LabellingFamily
from glassformer.families.language import LanguageFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.requests import Example, ModelInput
from glassformer.families.schema import reader_of
from glassformer.families.translation import TranslationFamily
from glassformer.inspection.views.tree import Choice, choices_of
from glassformer.text.display import quoted
from glassformer.text.tokenizer import Tokenizer

MAX_CHOICES = 12
"""Maximum number of tokens listed in a prediction."""

Summary = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """An example whose prediction the playground shows."""

    loaded: Any
    given: Example
    example: ModelInput
    """The same example, encoded."""
    sampling: Sampling
    also: list[int]
    """Ids of tokens that are always listed."""


@singledispatch
def summarise_prediction(family: Family, question: Question) -> Summary:
    """Return a prediction as its `kind` and its `groups` of rows.

    The kinds are next, fill, classes, labels, number, translation and nothing.
    """
    return {"kind": "nothing", "groups": []}


@summarise_prediction.register
def _summarise_next_token(family: LanguageFamily, question: Question) -> Summary:
    loaded, text, example = question.loaded, str(question.given), question.example
    with torch.inference_mode():
        scores = loaded.model.head(features_of(loaded.model, example)[-1])
    ids = loaded.tokenizer.encode(text)
    rows = [
        {**token_row(choice), "text": appended(loaded.tokenizer, text, ids, choice.id)}
        for choice in _likeliest(question, scores, never=loaded.never_written)
    ]
    return {"kind": "next", "groups": [{"title": f"after {quoted(example.tokens[-1])}", "rows": rows}]}


@summarise_prediction.register
def _summarise_hidden_tokens(family: MaskedFamily, question: Question) -> Summary:
    loaded, example = question.loaded, question.example
    places = [at for at, id in enumerate(example.ids) if id == loaded.tokenizer.mask]
    with torch.inference_mode():
        scores = loaded.model.head(features_of(loaded.model, example)[places])
    unnamed = set(range(scores.shape[-1])) - set(loaded.tokenizer.texts)
    groups = []
    for number, (at, row) in enumerate(zip(places, scores, strict=True), 1):
        rows = [token_row(choice) for choice in _likeliest(question, row, never=(), unnamed=unnamed)]
        groups.append({"title": f"hidden token {number}", "position": at, "rows": rows})
    return {"kind": "fill", "groups": groups}


def _likeliest(question: Question, scores: Float[Tensor, "V"], **excluded: Any) -> list[Choice]:
    return choices_of(scores, question.sampling, question.loaded, most=MAX_CHOICES, also=question.also, **excluded)


def features_of(model: Any, example: ModelInput) -> Float[Tensor, "T d"]:
    """Return the inputs of the model's head, one vector per token."""
    return model.features(*example.inputs)[0]


def token_row(choice: Choice) -> dict[str, Any]:
    """Return a candidate for the next token as a row: its score, and each step from the score to its probability.

    `tempered` is None if the score is minus infinity.
    """
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
    """Return the text, whose tokens are `ids`, with one more token; None if that token is a special token."""
    if id in tokenizer.specials:
        return None
    before, after = tokenizer.decode(ids), tokenizer.decode([*ids, id])
    return text + (after[len(before) :] if after.startswith(before) else tokenizer.token(id))


@summarise_prediction.register
def _summarise_labels(family: LabellingFamily, question: Question) -> Summary:
    prediction = question.loaded.predict(question.given, say=silent)
    if prediction.probabilities is None:
        return {"kind": "number", "value": prediction.value, "groups": []}
    rows = [{"name": name, "probability": chance} for name, chance in prediction.probabilities.items()]
    kind = "classes" if prediction.labels is None else "labels"
    return {"kind": kind, "said": prediction.labels or [prediction.label], "groups": [{"title": "", "rows": rows}]}


@summarise_prediction.register
def _summarise_translation(family: TranslationFamily, question: Question) -> Summary:
    model, example = question.loaded.model, question.example
    assert example.answers is not None
    assert example.answer_ids is not None
    with torch.inference_mode():
        scores = model.head(features_of(model, example)).float()
    chances = scores.softmax(-1).gather(1, torch.tensor(example.answer_ids, device=scores.device).unsqueeze(1))[:, 0]
    named = zip(example.answers, chances.tolist(), strict=True)
    rows = [{"name": name, "probability": chance} for name, chance in named]
    return {"kind": "translation", "text": example.output, "groups": [{"title": "token by token", "rows": rows}]}


# --- offered examples ---

SOME = 4
"""Number of rows of a data set that the page offers."""


@cache
def presets() -> Mapping[str, Mapping[str, str]]:
    """Return the offered texts of each data set, by name; a name says what the text shows."""
    return tomllib.loads((files("glassformer.serving") / "presets.toml").read_text("utf-8"))


def presets_of(loaded: Loaded) -> list[dict[str, Any]]:
    """Return examples for the data set of a run, each with a name; empty if the data set is not built in."""
    spec = loaded.config.data.path or ""
    name = spec.partition(":")[0]
    if is_hub(spec) or name not in DATASETS:
        return []
    if name in presets():
        mask = _mask_of(loaded)
        return [{"name": why, "example": mask(text)} for why, text in presets()[name].items()]
    try:
        return _rows(loaded, spec)
    except GlassformerError:  # the data set needs a package that is not installed
        return []


def _mask_of(loaded: Loaded) -> Callable[[str], str]:
    """Return a function that prepares a text: for masked models, <mask> replaces its last word."""
    tokenizer = loaded.tokenizer
    if tokenizer is None or tokenizer.mask is None:
        return lambda text: text
    return lambda text: " ".join([*text.split()[:-1], "<mask>"])


def _rows(loaded: Loaded, spec: str) -> list[dict[str, Any]]:
    data = open_dataset(spec)
    if data.images is not None:
        pixels, labels = data.images()
        first = [labels.index(label) for label in sorted(set(labels))]
        return [{"name": labels[at], "example": _png(pixels[at])} for at in first]
    reader = reader_of(loaded, "predict")
    wanted = [name for name in (*reader.columns, reader.text) if name is not None]
    out = []
    for number, row in enumerate(islice(data.rows(), SOME), 1):
        values = dict(zip(data.columns, row, strict=True))
        example = {name: values.get(name, "") for name in wanted} if reader.columns else values[reader.text or "text"]
        out.append({"name": f"{'row' if reader.columns else 'text'} {number}", "example": example})
    return out


def _png(pixels: Any) -> str:
    """Return an image as the base64 of a PNG file, the format in which pages upload images."""
    held = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(held, "PNG")
    return base64.b64encode(held.getvalue()).decode()
