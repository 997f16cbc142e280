"""Masked language models, which predict hidden tokens."""

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import Say, say, takes_listener
from glassformer.config.presets import MASKED
from glassformer.config.resolve import Config
from glassformer.data.packing.store import Tokens
from glassformer.data.packing.windows import Masking
from glassformer.families import requests
from glassformer.families.base import (
    Loaded,
    Processor,
)
from glassformer.families.capabilities import Fills
from glassformer.families.language import StreamFamily, tokens_input, window_settings
from glassformer.families.schema import reader_of
from glassformer.models.build import build_masked_model
from glassformer.models.modules import MaskedLanguageModel, device_of
from glassformer.notebook.html import facts, shares
from glassformer.tasks.language_model import MaskedModelling
from glassformer.text.display import cut
from glassformer.text.pipelines import MASK
from glassformer.text.tokenizer import Tokenizer

COMMON_MASK = "[MASK]"
"""Common spelling of MASK in other libraries."""
SHOWN_GUESSES = 5
MAX_QUOTED_CHARS = 60


@dataclass(frozen=True)
class Guessed:
    """A candidate for a MASK."""

    token: str
    probability: float
    id: int


@dataclass(frozen=True)
class Filled:
    """A text with the likeliest tokens for each MASK, the likeliest first."""

    text: str
    places: list[list[Guessed]]
    whole: str
    """The text with the likeliest token at each MASK."""

    def to_dict(self) -> dict[str, Any]:
        places = [[asdict(guess) for guess in place] for place in self.places]
        return {"text": self.text, "filled": self.whole, "places": places}

    def _repr_html_(self) -> str:
        places = [shares([(guess.token, guess.probability) for guess in place]) for place in self.places]
        return facts({"text": self.text, "filled": self.whole}) + "".join(places)


def names_of(tokenizer: Tokenizer) -> list[str]:
    """Return the spellings of MASK: glassformer's, the common one and the tokenizer's."""
    return list(dict.fromkeys([MASK, COMMON_MASK, tokenizer.token(_mask(tokenizer))]))


def masked_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text in which every spelling of MASK is the mask token.

    If tokens include the space before them, the space before a MASK is part of the hidden token.
    """
    mask = _mask(tokenizer)
    pattern = "|".join(map(re.escape, names_of(tokenizer)))
    spelling = tokenizer.spelling
    if tokenizer.kind != "char" and (spelling.byte_marks or spelling.blank is not None):
        pattern = f" ?(?:{pattern})"
    first, *others = re.split(pattern, text)
    stretches = [first, *(part for stretch in others for part in (mask, stretch))]
    return tokenizer.encode_around(stretch for stretch in stretches if stretch != "")


def framed_ids(tokenizer: Tokenizer, text: str, context: int) -> list[int]:
    """Return the ids of a text with the tokens that open and close it. A long text is cut, and the cut is reported."""
    before, after = list(tokenizer.roles.opening), list(tokenizer.roles.closing)
    ids, room = masked_ids(tokenizer, text), context - len(before) - len(after)
    requests.say_cut_text(len(ids), room)
    if _mask(tokenizer) in ids[room:]:
        raise Misuse(f"a MASK stands beyond the {room:,} tokens that are read: give a shorter text")
    return [*before, *ids[:room], *after]


@torch.inference_mode()
def fill(model: MaskedLanguageModel, tokenizer: Tokenizer, text: str, *, context: int, most: int) -> Filled:
    """Return the `most` likeliest tokens for each MASK of a text. Special tokens are never candidates."""
    if most < 1:
        raise Misuse(f"--top {most} must be at least 1")
    ids = framed_ids(tokenizer, text, context)
    mask = _mask(tokenizer)
    if mask not in ids:
        own = " or ".join(dict.fromkeys([MASK, tokenizer.token(mask)]))
        raise Misuse(f"'{cut(text, MAX_QUOTED_CHARS)}' has nothing to guess: write {own} where a token is missing")
    places = [place for place, id in enumerate(ids) if id == mask]
    features = model.features(torch.tensor([ids], device=device_of(model)))[0, places]
    chances = model.head(features).float().softmax(-1)
    guesses = [_likeliest(tokenizer, row, most) for row in chances.cpu()]
    for place, likeliest in zip(places, guesses, strict=True):
        ids[place] = likeliest[0].id
    return Filled(text, guesses, tokenizer.decode(ids))


def _likeliest(tokenizer: Tokenizer, chances: Tensor, most: int) -> list[Guessed]:
    known = torch.tensor(tokenizer.texts)
    best = chances[known].topk(min(most, len(known)))
    pairs = zip(known[best.indices].tolist(), best.values.tolist(), strict=True)
    return [Guessed(tokenizer.token(id), chance, id) for id, chance in pairs]


def _mask(tokenizer: Tokenizer) -> int:
    if tokenizer.mask is None:
        raise Misuse("the tokens of this run have no MASK: it has nothing to guess")
    return tokenizer.mask


# --- the family ---


@dataclass(frozen=True, repr=False)
class LoadedMasked(Loaded, Fills):
    """A loaded masked language model."""

    model: MaskedLanguageModel
    tokenizer: Tokenizer

    @overload
    def fill(self, texts: str, *, most: int = SHOWN_GUESSES, say: Say = say) -> Filled: ...
    @overload
    def fill(self, texts: Iterable[Any], *, most: int = SHOWN_GUESSES, say: Say = say) -> list[Filled]: ...
    @check_arguments
    @takes_listener
    def fill(self, texts: str | Iterable[Any], *, most: int = SHOWN_GUESSES, say: Say = say) -> Filled | list[Filled]:
        """Predict the likeliest tokens for each `<mask>` of a text, or of each of several texts."""
        reader, context = reader_of(self, "fill"), self.config.model.context
        several = reader.texts(texts)
        filled = [fill(self.model, self.tokenizer, text, context=context, most=most) for text in several]
        return filled[0] if reader.is_one(texts) else filled

    predict = fill


class MaskedFamily(StreamFamily):
    task = MASKED
    title = "A masked language model"
    text_loss = False
    loaded_class = LoadedMasked

    def check_tokenizer(self, config: Config, tokenizer: Tokenizer) -> None:
        """Raise `SettingError` if the tokenizer has no MASK."""
        if tokenizer.mask is None:
            source = config.tokenizer.file or config.model.from_run
            raise SettingError(f"the tokens of {source} have no {MASK}: glassformer tokenizer train DATA --mask")
        super().check_tokenizer(config, tokenizer)

    def task_on(self, config: Config, parts: dict[str, Tokens], tokenizer: Tokenizer, context: int) -> MaskedModelling:
        training = config.training
        masking = Masking.of(tokenizer, rate=training.mask_rate, whole_words=training.whole_words)
        return MaskedModelling(parts, masking=masking, **window_settings(config, tokenizer, context))

    def build_model(self, config: Config, processor: Processor) -> MaskedLanguageModel:
        return build_masked_model(config.model, vocab=processor.shape.vocab, seed=config.training.seed)

    def encode_example(
        self, loaded: LoadedMasked, example: requests.Example, *, target: str | None, beam: int
    ) -> requests.ModelInput:
        """Return a text as inputs, with the mask token at each MASK."""
        tokenizer, text = loaded.tokenizer, requests.check_text(example)
        ids = framed_ids(tokenizer, text, loaded.config.model.context)
        requests.say_unknown(tokenizer, ids)
        never = {tokenizer.mask, *tokenizer.roles.marks}
        answers = ["" if id == tokenizer.mask else tokenizer.shown(id) for id in ids]
        return tokens_input(loaded, text, ids, answers=answers, stand=[None if id in never else id for id in ids])

    def answer_function(self, loaded: LoadedMasked, *, top: int) -> Callable[[str], dict[str, Any]]:
        return lambda text: loaded.fill(text, most=top).to_dict()

    def example_argument(self, run: Path, config: Config) -> str:
        return f"'A text with a {MASK} in it'"


FAMILIES = (MaskedFamily(),)
