"""Where a language model's loss is, one that writes or one that guesses: what an evaluation kept of single tokens, with
the tokens' texts.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glassformer.bricks.losses import head_losses
from glassformer.config.errors import DataError
from glassformer.data.packing.store import Ids, Tokens, how_often, pack
from glassformer.data.packing.windows import segments_of
from glassformer.data.split.documents import Part
from glassformer.error_analysis.comparison import PairedScores, RunPair, compare_scores
from glassformer.error_analysis.finding import ErrorFinding, ErrorRequest, worst
from glassformer.error_analysis.tokens import (
    TokenLosses,
    loss_by_document,
    loss_by_kind,
    loss_by_place,
    loss_by_token,
    surprising_passages,
)
from glassformer.families.base import Family, Prepared
from glassformer.models.modules import device_of
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Rows
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import answers
from glassformer.text.display import cut
from glassformer.text.tokenizer import Tokenizer

PASSAGES = 3
BEGINNING = 24
"""Tokens of a document that are shown."""
STRETCH = 64
"""Tokens that are paired together, where two language models read the same ones."""

# --- one run ---


def stream_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    """The tokens, kinds of tokens and documents that hold the loss."""
    evaluated, tokenizer = request.evaluated, request.loaded.tokenizer
    tokens: Tokens = evaluated.inputs
    seen = None
    if request.train is not None:
        seen = how_often(pack(request.train, tokenizer, request.say).ids, tokenizer.vocab_size)

    def text(id: int) -> str | None:
        return None if id in tokenizer.specials or id == tokenizer.unk else tokenizer.token(id)

    losses, starts = token_losses(evaluated.evaluation, tokens), document_starts(tokens.ids, tokenizer.start)
    documents = document_numbers(evaluated.evaluation, starts)
    return [
        loss_by_token(losses, tokenizer.shown),
        loss_by_kind(losses, text, seen, whole_words=tokenizer.kind == "word"),
        loss_by_document(documents, losses, lambda number: beginning(tokens, tokenizer, int(starts[number]))),
    ]


def language_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    """What holds the loss, what more context is worth, and passages that were hard to expect."""
    evaluation, tokens, loaded = request.evaluated.evaluation, request.evaluated.inputs, request.loaded
    by_token, *others = stream_findings(family, request)
    by_place = loss_by_place(token_losses(evaluation, tokens))
    apart = loaded.config.data.documents_apart
    passages = _passages(loaded.model, tokens.ids, loaded.tokenizer, evaluation.records, apart=apart)
    return [by_token, by_place, *others, ErrorFinding(passages)]


def token_losses(evaluation: Evaluation, tokens: Tokens) -> TokenLosses:
    places = evaluation.arrays["place"]
    ids, previous = (tokens.ids[at].astype(np.int64) for at in (places, np.maximum(places - 1, 0)))
    return TokenLosses(ids, previous, evaluation.arrays["before"], evaluation.arrays["loss"].astype(np.float64))


def _between(tokenizer: Tokenizer) -> str:
    """What parts tokens in a text."""
    return " " if tokenizer.kind == "word" else ""


def document_starts(ids: Ids, start: int | None) -> NDArray[np.int64]:
    """Where each document begins; without a mark for it, all is one."""
    starts = np.zeros(0, np.int64) if start is None else np.flatnonzero(ids == start)
    return starts if len(starts) and starts[0] == 0 else np.append(0, starts)


def document_numbers(evaluation: Evaluation, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The document of each token that was predicted."""
    return np.searchsorted(starts, evaluation.arrays["place"], side="right") - 1


def beginning(tokens: Tokens, tokenizer: Tokenizer, start: int) -> str:
    """The text from a token on, as far as it is shown, or to the end of its document."""
    ids: list[int] = tokens.ids[start : start + BEGINNING].tolist()
    end = ids.index(tokenizer.end) if tokenizer.end in ids else len(ids)
    return cut(_between(tokenizer).join(tokenizer.token(id) for id in ids[:end] if id not in tokenizer.specials), 120)


@torch.inference_mode()
def _passages(model: Any, ids: Ids, tokenizer: Tokenizer, records: Records, *, apart: bool) -> list[Panel]:
    """The windows of an evaluation with the largest loss per token: their tokens, and the loss of each.

    Only windows at least half as long as the longest: a short rest is easily the most surprising. `apart`: documents
    are read apart.
    """
    enough = math.ceil(max(record["tokens"] for record in records) / 2)

    def loss_per_token(record: Mapping[str, Any]) -> float | None:
        return record["loss"] / record["tokens"] if record["tokens"] >= max(1, enough) else None

    passages = []
    for record in worst(records, loss_per_token, PASSAGES):
        window = ids[record["start"] - 1 : record["start"] + record["covered"]].astype(np.int64)
        batch = torch.from_numpy(window)[None].to(device_of(model))
        following = answers(batch, tokenizer.start)
        segments = segments_of(batch[:, :-1], tokenizer.start, tokenizer.end) if apart else None
        features = model.features(batch[:, :-1], segments=segments)[0]
        losses = head_losses(model.head, features, following[0])
        passages.append(([tokenizer.shown(id) for id in window[1:].tolist()], losses.double().cpu().numpy()))
    return surprising_passages(passages, _between(tokenizer))


# --- in a report ---


def stream_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    assert prepared.tokenizer is not None
    losses = token_losses(evaluations[part], prepared.task.parts[part])
    return loss_by_token(losses, prepared.tokenizer.shown).panels


def language_brief(
    family: Family, prepared: Prepared, model: nn.Module, part: str, evaluations: Mapping[str, Evaluation]
) -> list[Panel]:
    assert prepared.tokenizer is not None
    task: Any = prepared.task
    tokens, evaluation = task.parts[part], evaluations[part]
    by_token = stream_brief(family, prepared, model, part, evaluations)
    by_place = loss_by_place(token_losses(evaluation, tokens)).panels
    return [
        *by_token,
        *by_place,
        *_passages(model, tokens.ids, prepared.tokenizer, evaluation.records, apart=task.apart),
    ]


# --- two runs ---


def compare_language_models(family: Family, pair: RunPair) -> list[ErrorFinding]:
    """The losses on stretches of tokens that both have; or, of other tokens, on documents."""
    hashes = {side.loaded.output_tokenizer.hash for side in (pair.first, pair.second)}
    return _by_stretch(pair) if len(hashes) == 1 else _by_document(pair)


def _by_stretch(pair: RunPair) -> list[ErrorFinding]:
    arrays = pair.first.evaluation.arrays, pair.second.evaluation.arrays
    common, *places = np.intersect1d(arrays[0]["place"], arrays[1]["place"], return_indices=True)
    if not len(common):
        raise DataError("the two runs have no token in common that both were asked for: give a shorter text")
    stretches, inverse = np.unique(common // STRETCH, return_inverse=True)
    counts = np.bincount(inverse).astype(float)
    losses = [
        np.bincount(inverse, weights=side["loss"][at].astype(float)) / counts
        for side, at in zip(arrays, places, strict=True)
    ]
    tokens, tokenizer = pair.first.inputs, pair.first.loaded.output_tokenizer
    scores = PairedScores(losses, pair.names, "loss (nats per token)", "passage", weights=counts)
    beginnings: Rows = [[beginning(tokens, tokenizer, int(number) * STRETCH)] for number in stretches]
    return compare_scores(scores, ["it begins"], beginnings)


def _by_document(pair: RunPair) -> list[ErrorFinding]:
    sides, part = (pair.first, pair.second), pair.first.part
    tokenizers = [side.loaded.output_tokenizer for side in sides]
    if part.documents < 2 or None in [tokenizer.start for tokenizer in tokenizers]:
        raise DataError(
            "the two runs cut the text into other tokens, so that whole documents are compared, and there is only one: "
            "give DATA of several documents"
        )
    if any(len(side.evaluation.arrays["loss"]) < side.evaluation.metrics["tokens"] for side in sides):
        raise DataError("the text is too long to compare runs with other tokens on it: give a part of it as DATA")
    size = np.array(_bytes_by_document(part), float)
    starts = [
        document_starts(side.inputs.ids, tokenizer.start) for side, tokenizer in zip(sides, tokenizers, strict=True)
    ]
    bits = []
    for side, begins in zip(sides, starts, strict=True):
        numbers, losses = document_numbers(side.evaluation, begins), side.evaluation.arrays["loss"].astype(float)
        bits.append(np.bincount(numbers, weights=losses, minlength=part.documents) / np.log(2) / size)
    rows: Rows = [[beginning(pair.first.inputs, tokenizers[0], int(start))] for start in starts[0]]
    scores = PairedScores(bits, pair.names, "bits per byte", "document", weights=size)
    return compare_scores(scores, ["it begins"], rows)


def _bytes_by_document(part: Part) -> list[int]:
    sizes: list[int] = []
    for chunk in part.chunks():
        if chunk.starts:
            sizes.append(0)
        sizes[-1] += len(chunk.text.encode())
    return sizes
