"""Where a language model's loss is: what an evaluation kept of single tokens, with the tokens' texts."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.bricks.vocabulary_loss import vocabulary_losses
from glassformer.data.packing.shards import Ids, how_often
from glassformer.data.packing.store import Tokens
from glassformer.data.packing.windows import segments_of
from glassformer.error_analysis.classes import worst
from glassformer.error_analysis.finding import Found
from glassformer.error_analysis.tokens import Asked, by_document, by_kind, by_place, by_token, surprising_passages
from glassformer.models.language_model import LanguageModel
from glassformer.rendering.curves import Records
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import answers
from glassformer.text.display import cut
from glassformer.text.tokenizer import Tokenizer

PASSAGES = 3
BEGINNING = 24
"""Tokens of a document that are shown."""


def language_findings(
    model: LanguageModel,
    evaluation: Evaluation,
    tokens: Tokens,
    tokenizer: Tokenizer,
    train: Ids | None,
    *,
    apart: bool = False,
) -> list[Found]:
    """`train`: the ids of the training part, where they are there; `apart`: documents were read apart."""
    asked = asked_tokens(evaluation, tokens)
    seen = None if train is None else how_often(train, tokenizer.vocab_size)
    between = " " if tokenizer.kind == "word" else ""
    passages = list(surprising(model, tokens.ids, tokenizer, evaluation.records, apart=apart))
    return [
        *brief_findings(asked, tokenizer),
        by_kind(asked, lambda id: _text(tokenizer, id), seen, words=tokenizer.kind == "word"),
        _documents(evaluation, asked, tokens, tokenizer),
        Found(surprising_passages(passages, between)),
    ]


def masked_findings(evaluation: Evaluation, tokens: Tokens, tokenizer: Tokenizer, train: Ids | None) -> list[Found]:
    """Of tokens that were hidden and guessed."""
    asked = asked_tokens(evaluation, tokens)
    seen = None if train is None else how_often(train, tokenizer.vocab_size)
    return [
        by_token(asked, tokenizer.shown),
        by_kind(asked, lambda id: _text(tokenizer, id), seen, words=tokenizer.kind == "word"),
        _documents(evaluation, asked, tokens, tokenizer),
    ]


def brief_findings(asked: Asked, tokenizer: Tokenizer) -> list[Found]:
    return [by_token(asked, tokenizer.shown), by_place(asked)]


def asked_tokens(evaluation: Evaluation, tokens: Tokens) -> Asked:
    places = evaluation.arrays["place"]
    ids, previous = (tokens.ids[at].astype(np.int64) for at in (places, np.maximum(places - 1, 0)))
    return Asked(ids, previous, evaluation.arrays["before"], evaluation.arrays["loss"].astype(np.float64))


def _text(tokenizer: Tokenizer, id: int) -> str | None:
    return None if id in tokenizer.specials or id == tokenizer.unk else tokenizer.token(id)


def document_starts(ids: Ids, start: int | None) -> NDArray[np.int64]:
    """Where each document begins; without a mark for it, all is one."""
    found = np.zeros(0, np.int64) if start is None else np.flatnonzero(ids == start)
    return found if len(found) and found[0] == 0 else np.append(0, found)


def _documents(evaluation: Evaluation, asked: Asked, tokens: Tokens, tokenizer: Tokenizer) -> Found:
    starts = document_starts(tokens.ids, tokenizer.start)
    documents = np.searchsorted(starts, evaluation.arrays["place"], side="right") - 1
    return by_document(documents, asked, lambda number: beginning(tokens, tokenizer, int(starts[number])))


def beginning(tokens: Tokens, tokenizer: Tokenizer, start: int) -> str:
    """The text from a token on, as far as it is shown, or to the end of its document."""
    ids: list[int] = tokens.ids[start : start + BEGINNING].tolist()
    end = ids.index(tokenizer.end) if tokenizer.end in ids else len(ids)
    between = " " if tokenizer.kind == "word" else ""
    return cut(between.join(tokenizer.token(id) for id in ids[:end] if id not in tokenizer.specials), 120)


@torch.inference_mode()
def surprising(
    model: LanguageModel, ids: Ids, tokenizer: Tokenizer, records: Records, *, apart: bool = False
) -> Iterator[tuple[list[str], NDArray[np.float64]]]:
    """The windows of an evaluation with the largest loss per token: their tokens, and the loss of each.

    Only windows at least half as long as the longest: a short rest is easily the most surprising.
    """
    enough = math.ceil(max(record["tokens"] for record in records) / 2)
    places = worst(
        records, lambda one: one["loss"] / one["tokens"] if one["tokens"] >= max(1, enough) else None, PASSAGES
    )
    for record in (records[place] for place in places):
        window = ids[record["start"] - 1 : record["start"] + record["covered"]].astype(np.int64)
        batch = torch.from_numpy(window)[None].to(model.head.weight.device)
        following = answers(batch, tokenizer.start)
        segments = segments_of(batch[:, :-1], tokenizer.start, tokenizer.end) if apart else None
        features = model.features(batch[:, :-1], segments=segments)[0]
        losses = vocabulary_losses(features, model.head.weight, following[0], bias=model.head.bias)
        yield [tokenizer.shown(id) for id in window[1:].tolist()], losses.double().cpu().numpy()
