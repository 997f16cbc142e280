"""A translator at work: raw text in, raw text out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.config.say import Say, silent
from glassformer.data.features.texts import source_room
from glassformer.decoding.beam import Hypothesis
from glassformer.decoding.translate import Search, marks_of, translate
from glassformer.models.seq2seq import Seq2Seq
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Scored:
    """A translation and its score: the sum of its tokens' log-probabilities."""

    text: str
    score: float
    ids: list[int] = field(default_factory=list, repr=False, compare=False)
    """Its tokens, as they were chosen: text cut again may differ."""

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "score": self.score}


@dataclass(frozen=True)
class Translation:
    """A text, and its translations, the best first."""

    source: str
    best: list[Scored]

    @property
    def text(self) -> str:
        return self.best[0].text if self.best else ""

    def to_dict(self) -> dict[str, Any]:
        """A blank text has no translation."""
        if not self.best:
            return {"source": self.source, "translation": ""}
        found = {"source": self.source, "translation": self.text, "score": self.best[0].score}
        others = [one.to_dict() for one in self.best[1:]]
        return {**found, "others": others} if others else found


def source_ids(tokenizer: Tokenizer, text: str, context: int) -> tuple[list[int], bool]:
    """A source's tokens with END after them, and whether it had to be cut."""
    ids, room = tokenizer.encode(text), source_room(tokenizer.roles, context)
    return [*tokenizer.roles.source, *ids[:room], *tokenizer.roles.closing], len(ids) > room


def translate_texts(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    texts: Sequence[str],
    how: Search,
    *,
    context: int,
    say: Say = silent,
) -> list[Translation]:
    """Translations in the order of the texts; blank ones stay blank."""
    filled = [text for text in texts if text.strip()]
    encoded = [source_ids(tokenizer, text, context) for text in filled]
    if cut := sum(was_cut for _, was_cut in encoded):
        say(f"{cut:,} of {len(texts):,} texts are longer than {context:,} tokens and cut there")
    if tokenizer.unk is not None and (unknown := sum(ids.count(tokenizer.unk) for ids, _ in encoded)):
        say(f"{unknown:,} token{'s are' if unknown > 1 else ' is'} unknown to this model")
    best = translate(model, [ids for ids, _ in encoded], how, context=context, **marks_of(target_tokenizer, model))
    if endless := sum(not some[0].ended for some in best):
        say(f"{endless:,} of {len(texts):,} translations grew far longer than their source and were stopped there")
    found = iter(best)
    return [
        Translation(text, [_scored(target_tokenizer, one) for one in next(found)] if text.strip() else [])
        for text in texts
    ]


def _scored(tokenizer: Tokenizer, hypothesis: Hypothesis) -> Scored:
    return Scored(tokenizer.decode(hypothesis.ids), hypothesis.score, hypothesis.ids)
