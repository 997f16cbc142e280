"""Losses of language models, causal or masked, by position in the window, token, kind of token and document."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from glassformer.bricks.losses import head_losses
from glassformer.config.arrays import Array
from glassformer.config.errors import DataError
from glassformer.data.packing.store import Ids, Tokens
from glassformer.data.packing.windows import segments_of
from glassformer.error_analysis.comparison import PairedScores, RunPair, compare_scores
from glassformer.error_analysis.finding import (
    MAX_ERRORS,
    ErrorFinding,
    ErrorRequest,
    ReportedPart,
    percent,
    sentence,
    worst,
)
from glassformer.families.base import Family
from glassformer.models.modules import device_of
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Line, Lines, Panel, Rows, Table
from glassformer.rendering.panels import Tokens as TokensPanel
from glassformer.statistics.intervals import weighted_mean_interval
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import WindowTask, answers
from glassformer.text.display import cut, visible
from glassformer.text.tokenizer import Tokenizer

PASSAGES = 3
SHOWN_TOKENS = 24
"""Number of tokens of a document that are shown."""
STRETCH = 64
"""Tokens of a stretch on which two language models are compared."""
MAX_PASSAGE_TOKENS = 96
"""Maximum number of tokens of a passage."""
MAX_POINTS = 32
"""Maximum number of points of the curve over a window."""
MIN_DOCUMENT_TOKENS = 5
"""Minimum number of tokens of a document that is listed."""
MIN_LOSS_RATIO = 1.5
"""A sentence names a token or kind if its share of the loss is at least this multiple of its share of the tokens."""


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """Predicted tokens and their losses."""

    ids: Int[Array, " N"]
    previous: Int[Array, " N"]
    """The token before each."""
    before: Int[Array, " N"]
    """Number of preceding tokens in the window."""
    losses: Float[Array, " N"]


# --- one run ---


def stream_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    """Return findings on the tokens, kinds of tokens and documents with most of the loss."""
    evaluated, tokenizer = request.evaluated, request.loaded.tokenizer
    tokens: Tokens = evaluated.inputs

    def text(id: int) -> str | None:
        return None if id in tokenizer.specials or id == tokenizer.unk else tokenizer.token(id)

    losses, starts = token_losses(evaluated.evaluation, tokens), document_starts(tokens.ids, tokenizer.start)
    documents = np.searchsorted(starts, evaluated.evaluation.arrays["place"], side="right") - 1
    return [
        loss_by_token(losses, tokenizer.shown),
        loss_by_kind(losses, text, whole_words=tokenizer.kind == "word"),
        loss_by_document(documents, losses, lambda number: beginning(tokens, tokenizer, int(starts[number]))),
    ]


def language_findings(family: Family, request: ErrorRequest) -> list[ErrorFinding]:
    """Return findings on the loss, the value of more context, and surprising passages."""
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


def document_starts(ids: Ids, start: int | None) -> NDArray[np.int64]:
    """Return the first token of each document; without a START token, there is one document."""
    starts = np.zeros(0, np.int64) if start is None else np.flatnonzero(ids == start)
    return starts if len(starts) and starts[0] == 0 else np.append(0, starts)


def beginning(tokens: Tokens, tokenizer: Tokenizer, start: int) -> str:
    """Return the beginning of the text from a token on, up to the end of its document."""
    ids: list[int] = tokens.ids[start : start + SHOWN_TOKENS].tolist()
    end = ids.index(tokenizer.end) if tokenizer.end in ids else len(ids)
    between = " " if tokenizer.kind == "word" else ""
    return cut(between.join(tokenizer.token(id) for id in ids[:end] if id not in tokenizer.specials), 120)


@torch.inference_mode()
def _passages(model: Any, ids: Ids, tokenizer: Tokenizer, records: Records, *, apart: bool) -> list[Panel]:
    """Return the windows of an evaluation with the largest loss per token, with the loss of each token.

    They have at least half the length of the longest window, since short ones often have extreme losses. `apart`:
    documents are read separately.
    """
    enough = math.ceil(max(record["tokens"] for record in records) / 2)

    def loss_per_token(record: Mapping[str, Any]) -> float | None:
        return record["loss"] / record["tokens"] if record["tokens"] >= max(1, enough) else None

    panels: list[Panel] = []
    for number, record in enumerate(worst(records, loss_per_token, PASSAGES), 1):
        window = ids[record["start"] - 1 : record["start"] + record["covered"]].astype(np.int64)
        batch = torch.from_numpy(window)[None].to(device_of(model))
        following = answers(batch, tokenizer.start)
        segments = segments_of(batch[:, :-1], tokenizer.start, tokenizer.end) if apart else None
        features = model.features(batch[:, :-1], segments=segments)[0]
        losses = head_losses(model.head, features, following[0]).double().cpu().numpy()
        stretch = surprising_stretch(losses)
        panels.append(
            TokensPanel(
                title=f"Surprising passage {number}",
                tokens=[tokenizer.shown(id) for id in window[1:][stretch].tolist()],
                values=losses[None, stretch],
                names=("nats",),
                note=f"{losses.mean():.3f} nats per token in the whole passage of {len(losses):,} tokens.",
            )
        )
    return panels


# --- in a report ---


def stream_brief(family: Family, report: ReportedPart) -> list[Panel]:
    assert report.prepared.tokenizer is not None
    losses = token_losses(report.evaluations[report.part], report.inputs)
    return loss_by_token(losses, report.prepared.tokenizer.shown).captioned_panels


def language_brief(family: Family, report: ReportedPart) -> list[Panel]:
    tokenizer, task = report.prepared.tokenizer, report.prepared.task
    assert tokenizer is not None
    assert isinstance(task, WindowTask)
    losses = token_losses(report.evaluations[report.part], report.inputs)
    passages = _passages(report.model, report.inputs.ids, tokenizer, report.records, apart=task.apart)
    return [*stream_brief(family, report), *loss_by_place(losses).captioned_panels, *passages]


# --- two runs ---


def compare_language_models(family: Family, pair: RunPair) -> list[ErrorFinding]:
    """Compare the losses on stretches of tokens that both runs predicted."""
    tokenizer = pair.first.loaded.output_tokenizer
    if tokenizer.hash != pair.second.loaded.output_tokenizer.hash:
        raise DataError(
            "the two runs have different tokenizers, so their tokens cannot be compared one by one; compare their bits "
            f"per byte with glassformer compare --runs {pair.first.loaded.run.path},{pair.second.loaded.run.path}"
        )
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
    scores = PairedScores(losses, pair.names, "loss (nats per token)", "passage", weights=counts)
    beginnings: Rows = [[beginning(pair.first.inputs, tokenizer, int(number) * STRETCH)] for number in stretches]
    return compare_scores(scores, ["it begins"], beginnings)


# --- losses of tokens ---


def loss_by_place(tokens: TokenLosses) -> ErrorFinding:
    """Return the mean loss by number of preceding tokens in the window, which shows the value of more context."""
    last = int(tokens.before.max())
    borders = np.unique(np.geomspace(1, last + 1, min(last, MAX_POINTS) + 1).round().astype(int))
    means = {}
    for low, high in pairwise(borders.tolist()):
        here = tokens.losses[(tokens.before >= low) & (tokens.before < high)]
        if len(here) > 1:
            means[(low + high - 1) / 2] = weighted_mean_interval(here)
    if len(means) < 2:
        return ErrorFinding()
    x, intervals = list(means), list(means.values())
    y, low_ends, high_ends = zip(*((one.value, one.low, one.high) for one in intervals), strict=True)
    panel = Lines(
        title="Loss by place in the window",
        series=[Line(name="mean loss", x=x, y=y, low=low_ends, high=high_ends, dots=True)],
        x_name="tokens read before",
        y_name="nats per token",
        log_x=last > 16,
        note="Each point with its interval. Where the curve is flat, more to read is no help any more.",
    )
    return ErrorFinding([panel], sentence("place", early=y[0], late=y[-1]))


def grouped_losses(
    title: str,
    head: str,
    groups: NDArray[Any],
    losses: Float[Array, " N"],
    name: Callable[[Any], str] = str,
    *,
    least: int = 1,
    by_mean: bool = False,
) -> ErrorFinding:
    """Return the tokens of each group with their losses, and name a group whose tokens are unusually hard to predict.

    The first rows hold most of the loss, or have the largest mean (`by_mean`) of groups with at least `least` tokens.
    """
    keys, places = np.unique(groups, return_inverse=True)
    counts, sums = np.bincount(places), np.bincount(places, weights=losses)
    means, token_shares, loss_shares = sums / counts, counts / len(losses), sums / (sums.sum() or 1.0)
    order = np.argsort(-(means if by_mean else sums), kind="stable")
    order = order[counts[order] >= min(least, counts.max())][:MAX_ERRORS]
    names = {place: name(keys[place]) for place in order.tolist()}
    table = Table(
        title=title,
        columns=[head, "tokens", "of the tokens", "of the loss", "mean nats"],
        rows=[
            [words, int(counts[place]), *(float(column[place]) for column in (token_shares, loss_shares, means))]
            for place, words in names.items()
        ],
        bars=("of the tokens", "of the loss"),
    )
    first = max(names, key=lambda place: loss_shares[place] - token_shares[place])
    if by_mean or len(keys) < 2 or loss_shares[first] < MIN_LOSS_RATIO * token_shares[first]:
        return ErrorFinding([table])
    facts = {"loss_share": percent(loss_shares[first]), "token_share": percent(token_shares[first])}
    return ErrorFinding([table], sentence("kind", head=head, name=names[first], **facts))


def loss_by_token(tokens: TokenLosses, display: Callable[[int], str]) -> ErrorFinding:
    """Return the tokens that hold most of the loss together."""
    title = "Tokens that hold the loss"
    return grouped_losses(title, "token", tokens.ids, tokens.losses, lambda id: visible(display(int(id))))


def loss_by_kind(tokens: TokenLosses, text: Callable[[int], str | None], *, whole_words: bool) -> ErrorFinding:
    """Return the loss by kind of token.

    `text`: the text of a token; None for a special one. `whole_words`: each token is a word.
    """
    kinds = _kinds(tokens, text, whole_words=whole_words)
    return grouped_losses("Loss by kind of token", "kind", kinds, tokens.losses)


def loss_by_document(documents: Int[Array, " N"], tokens: TokenLosses, beginning: Callable[[int], str]) -> ErrorFinding:
    """Return the documents with the largest loss per token. `beginning`: the first words of a document."""
    if len(set(documents.tolist())) < 2:
        return ErrorFinding()
    return grouped_losses(
        "Worst documents", "it begins", documents, tokens.losses, lambda number: beginning(int(number)), by_mean=True,
        least=MIN_DOCUMENT_TOKENS,
    )  # fmt: skip


def _kinds(tokens: TokenLosses, text: Callable[[int], str | None], *, whole_words: bool) -> NDArray[np.object_]:
    """Return the kind of each token, computed once per pair of consecutive tokens."""
    size = int(tokens.previous.max()) + 1
    pairs, places = np.unique(tokens.ids * size + tokens.previous, return_inverse=True)
    kinds = [_kind(text(pair // size), text(pair % size), whole_words=whole_words) for pair in pairs.tolist()]
    return np.array(kinds, dtype=object)[places]


def _kind(text: str | None, before: str | None, *, whole_words: bool) -> str:
    """Return the kind of a token. The token before shows whether letters begin a word."""
    if text is None:
        return "the end of a text, or unknown"
    if not text.strip():
        return "blanks and line ends"
    if any(sign.isdigit() for sign in text):
        return "digits"
    if not any(sign.isalpha() for sign in text):
        return "punctuation"
    if whole_words:
        return "a word"
    inside = before is not None and before[-1:].isalnum() and not text[:1].isspace()
    return "inside a word" if inside else "the first of a word"


def surprising_stretch(losses: Float[Array, "T"]) -> slice:
    """Return the consecutive tokens of a long passage with the largest total loss."""
    width = min(len(losses), MAX_PASSAGE_TOKENS)
    first = int(np.convolve(losses, np.ones(width), mode="valid").argmax())
    return slice(first, first + width)
