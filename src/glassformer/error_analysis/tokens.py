"""Where a language model's loss is: by place in the window, by token, by kind of token, by document."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.data.wording import counted
from glassformer.error_analysis.finding import MOST_ERRORS, ErrorFinding, ends, percent
from glassformer.rendering.panels import Line, Lines, Panel, Rows, Table, Tokens
from glassformer.rendering.takeaways import leaders, listed
from glassformer.statistics.intervals import weighted_mean_interval
from glassformer.text.display import visible

MOST_SURPRISING = 96
"""Tokens of a passage."""
MOST_POINTS = 32
"""Points of the curve over a window."""
LEAST = 5
"""Times that a token must be asked for to be listed by its mean."""
MUCH = 1.5
"""So many times its share of the tokens, or more, must one of them, or a kind, hold of the loss to be named."""
COUNTS = {
    0: "never",
    1: "1 to 9",
    10: "10 to 99",
    100: "100 to 999",
    1_000: "1,000 to 9,999",
    10_000: "10,000 and more",
}
"""Groups of tokens by how often training had them: where each begins, and its name."""


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """Tokens that were predicted, and the loss of each."""

    ids: Int[Array, " N"]
    previous: Int[Array, " N"]
    """The token before each."""
    before: Int[Array, " N"]
    """How many tokens of its window the model had read."""
    losses: Float[Array, " N"]

    def __len__(self) -> int:
        return len(self.ids)


def loss_by_place(tokens: TokenLosses) -> ErrorFinding:
    """The mean loss after so many tokens of a window: what more context is worth."""
    last = int(tokens.before.max())
    borders = np.arange(1, last + 2)
    if last > MOST_POINTS:
        borders = np.unique(np.geomspace(1, last + 1, MOST_POINTS + 1).round().astype(int))
    means = {}
    for low, high in pairwise(borders.tolist()):
        here = tokens.losses[(tokens.before >= low) & (tokens.before < high)]
        if len(here):
            means[(low + high - 1) / 2] = weighted_mean_interval(here)
    if len(means) < 2:
        return ErrorFinding()
    panel = Lines(
        title="Loss by place in the window",
        series=[
            Line(
                name="mean loss",
                x=list(means),
                y=[mean.value for mean in means.values()],
                low=[mean.low if math.isfinite(mean.low) else mean.value for mean in means.values()],
                high=[mean.high if math.isfinite(mean.high) else mean.value for mean in means.values()],
                dots=len(means) <= 24,
            )
        ],
        x_name="tokens read before",
        y_name="nats per token",
        log_x=last > 16,
        note="Each point with its interval. Where the curve is flat, more to read is no help any more.",
    )
    early = tokens.losses[tokens.before <= max(1, last // 8)]
    late = tokens.losses[tokens.before > last // 2]
    if not len(early) or not len(late):
        return ErrorFinding([panel])
    return ErrorFinding(
        [panel],
        f"A token costs {early.mean():.3g} nats in the first eighth of a window, {late.mean():.3g} in its second half.",
    )


def loss_by_token(tokens: TokenLosses, display: Callable[[int], str]) -> ErrorFinding:
    """The tokens that hold the most loss together, and those that are dearest each."""
    ids, places = np.unique(tokens.ids, return_inverse=True)
    sums, counts = np.bincount(places, weights=tokens.losses), np.bincount(places)
    whole, means = float(sums.sum()), sums / counts
    shares = sums / (whole or 1.0)

    def name(place: int) -> str:
        return visible(display(int(ids[place])))

    def rows(order: NDArray[np.int64]) -> Rows:
        return [
            [name(place), int(counts[place]), float(means[place]), float(sums[place]), float(shares[place])]
            for place in order[:MOST_ERRORS].tolist()
        ]

    columns = ["token", "times", "mean nats", "nats in all", "share of the loss"]
    total = np.argsort(-sums, kind="stable")
    panels: list[Panel] = [
        Table(
            title="Tokens that hold the loss",
            takeaway=f"{_led(sums, name)} most of the loss: {percent(float(shares[total[0]]))}",
            columns=columns,
            rows=rows(total),
            bars=columns[-1:],
        ),
    ]
    often = np.flatnonzero(counts >= LEAST)
    if len(often):
        dear = often[np.argsort(-means[often], kind="stable")]
        panels.append(
            Table(
                title="Dearest tokens",
                takeaway=f"Up to {means[dear[0]]:.3g} nats each time, for “{name(dear[0])}”",
                columns=columns,
                rows=rows(dear),
                bars=columns[-1:],
                note=f"Of {len(often):,} tokens asked for {LEAST} times or more.",
            )
        )
    sentence = f"{counted(len(tokens), 'token')} cost {whole / len(tokens):.3g} nats each"
    loss_share, token_share = float(shares[total[0]]), int(counts[total[0]]) / len(tokens)
    if loss_share >= MUCH * token_share:  # else it is only frequent
        alone = f"“{name(total[0])}” alone, {percent(token_share)} of them"
        sentence += f"; {alone}, holds {percent(loss_share)} of that"
    return ErrorFinding(panels, f"{sentence}.")


def _led(sums: NDArray[Any], name: Callable[[int], str]) -> str:
    """Whose sum is the largest, and holds, or hold."""
    first = [f"“{name(place)}”" for place in leaders(sums)]
    return f"{listed(first)} {'holds' if len(first) == 1 else 'each hold'}"


def loss_by_kind(
    tokens: TokenLosses, text: Callable[[int], str | None], seen: Int[Array, " V"] | None, *, whole_words: bool
) -> ErrorFinding:
    """What kinds of token hold the loss. `text`: of a token, None of a special one; `seen`: how often training had each
    token, where the data is still there; `whole_words`: each token is one.
    """
    kinds = _kinds(tokens, text, whole_words=whole_words)
    panels: list[Panel] = [_shares("Loss by kind of token", "kind", kinds, tokens.losses)]
    if seen is not None:
        names = list(COUNTS.values())
        place = np.searchsorted(list(COUNTS), seen[tokens.ids], side="right") - 1
        title, first = "Loss by how often training had the token", "times in training"
        panels.append(_shares(title, first, np.array(names, dtype=object)[place], tokens.losses, names))
    return ErrorFinding(panels, _dearest_kind(kinds, tokens.losses))


def _kinds(tokens: TokenLosses, text: Callable[[int], str | None], *, whole_words: bool) -> NDArray[np.object_]:
    """The kind of each token, found once for each token after the same one."""
    size = int(tokens.previous.max()) + 1
    pairs, places = np.unique(tokens.ids * size + tokens.previous, return_inverse=True)
    kinds = [_kind(text(pair // size), text(pair % size), whole_words=whole_words) for pair in pairs.tolist()]
    return np.array(kinds, dtype=object)[places]


def _kind(text: str | None, before: str | None, *, whole_words: bool) -> str:
    """The kind of a token; whether letters begin a word is told by the token before."""
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


def _shares(
    title: str, first: str, names: NDArray[np.object_], losses: Float[Array, " N"], order: Sequence[str] = ()
) -> Table:
    """The share of the loss of each kind; in this `order`, or what holds most of the loss first."""
    whole = float(losses.sum()) or 1.0
    rows: Rows = []
    kinds = {name: losses[names == name] for name in set(names.tolist())}
    largest = sorted(kinds, key=lambda name: (-float(kinds[name].sum()), name))
    for name in [name for name in order if name in kinds] or largest:
        here = kinds[name]
        interval = weighted_mean_interval(here)
        rows.append(
            [name, len(here), len(here) / len(losses), float(here.sum()) / whole, interval.value, *ends(interval)]
        )
    return Table(
        title=title,
        columns=[first, "tokens", "of the tokens", "of the loss", "mean nats", "from", "to"],
        rows=rows,
        bars=("of the tokens", "of the loss"),
    )


def _dearest_kind(kinds: NDArray[np.object_], losses: Float[Array, " N"]) -> str:
    whole = float(losses.sum())
    names = sorted(set(kinds.tolist()))
    if len(names) < 2 or not whole:
        return ""
    loss_share = {name: float(losses[kinds == name].sum()) / whole for name in names}
    token_share = {name: float((kinds == name).mean()) for name in names}
    name = max(names, key=lambda name: loss_share[name] - token_share[name])
    if loss_share[name] < MUCH * token_share[name]:
        return ""
    return f"{percent(loss_share[name])} of the loss is on {percent(token_share[name])} of the tokens: {name}."


def loss_by_document(documents: Int[Array, " N"], tokens: TokenLosses, beginning: Callable[[int], str]) -> ErrorFinding:
    """The documents with the largest loss per token; `beginning`: the first words of one."""
    numbers, places = np.unique(documents, return_inverse=True)
    if len(numbers) < 2:
        return ErrorFinding()
    counts = np.bincount(places)
    means = np.bincount(places, weights=tokens.losses) / counts
    enough = np.flatnonzero(counts >= min(LEAST, int(counts.max())))
    order = enough[np.argsort(-means[enough], kind="stable")][:MOST_ERRORS].tolist()
    table = Table(
        title="Worst documents",
        columns=["number", "it begins", "tokens", "mean nats"],
        rows=[
            [int(numbers[place]) + 1, beginning(int(numbers[place])), int(counts[place]), float(means[place])]
            for place in order
        ],
        note=f"Of {len(numbers):,} documents; {tokens.losses.mean():.3f} nats per token in all of them.",
    )
    return ErrorFinding([table])


def surprising_passages(passages: Sequence[tuple[Sequence[str], Float[Array, "T"]]], between: str = "") -> list[Panel]:
    """Passages whose tokens were hard to expect: each with its loss in nats. `between`: what parts tokens in a text."""
    panels: list[Panel] = []
    surprises: list[tuple[float, str, str]] = []
    for number, (tokens, losses) in enumerate(passages, 1):
        surprises += [(float(loss), between.join(tokens[:place]), tokens[place]) for place, loss in enumerate(losses)]
        stretch = _most_surprising_stretch(losses)
        panels.append(
            Tokens(
                title=f"Surprising passage {number}",
                tokens=list(tokens[stretch]),
                values=losses[None, stretch],
                names=("nats",),
                note=f"{losses.mean():.3f} nats per token in the whole passage of {len(losses):,} tokens.",
            )
        )
    surprises.sort(key=lambda surprise: -surprise[0])
    table = Table(
        title="Most surprising tokens in these passages",
        columns=["after", "token", "nats", "probability"],
        rows=[[f"…{before[-40:]}", token, loss, math.exp(-loss)] for loss, before, token in surprises[:MOST_ERRORS]],
        bars=("probability",),
    )
    return [*panels, table] if panels else []


def _most_surprising_stretch(losses: Float[Array, "T"]) -> slice:
    """The tokens in a row, of a long passage, whose losses are the largest together."""
    width = min(len(losses), MOST_SURPRISING)
    first = int(np.convolve(losses, np.ones(width), mode="valid").argmax())
    return slice(first, first + width)
