"""What each head does: how much it looks at the previous token, at the first, at what followed the same token before.

Every role is measured against a head that spreads its weights evenly over all it may see: in a short text, that one
finds the previous token rather often too. Texts come one by one, without padding, and look at themselves.

Tokens that count. Those at positions 0 and 1 do not: from there, the first token is the token itself or the previous
one. A role counts only where it can be: the next token in a model that reads both ways, an earlier occurrence of the
same token where there is one. What stands before is no role of its own where it is the first or the previous token, and
what followed it none where that is the token itself or the previous one.

A head without such a role may still look nearby, or far away (long range): that is told by how many tokens lie between
a token and what it looks at, beside how many do where a head spreads its weights evenly.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.config.progress import may_stop
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.attention import attention_of
from glassformer.inspection.views.registry import wording
from glassformer.rendering.panels import Grid, Heads
from glassformer.text.display import quoted
from glassformer.text.tokenizer import Tokenizer

TextAttention = tuple[Float[Array, "L h T T"], Sequence[int]]
"""A text as a model saw it: the weights of every layer and head, and the tokens' ids."""

Choice = tuple[int | None, int | None]
"""A layer and a head; None: the clearest."""
ANY: Choice = (None, None)

ROLES: Mapping[str, str] = wording("roles")
"""The places a head may look at, and what it is then called. `induction`: at the token that followed the last earlier
occurrence of the same token; `before`: at any earlier occurrence; `separator`: at an earlier mark that is no word."""
IN_WORDS = {**ROLES, **wording("relations")}
"""All roles; the last three are measured only on data sets that annotate such links."""

PLAIN = 0.4
"""A head has a role when it puts so much of what evenness leaves there: (share - even) / (1 - even)."""
MIN_TOKENS = 5
"""Tokens at which a role must count, to be one."""
EVEN = 0.9
"""A head is spread evenly from this part of the largest possible entropy on."""
LONG_RANGE = 1.5
"""A head is long range from this multiple of that distance on: so far looks one that spreads its weights over the
farther half of what it may see."""


def head_name(layer: int, head: int) -> str:
    return f"{layer}.{head}"


def head_grid(title: str, values: Float[Array, "L h"], *, takeaway: str, formula: str) -> Grid:
    """Return a grid with a share from 0 to 1 for every head."""
    layers, heads = (list(map(str, range(count))) for count in values.shape)
    names: dict[str, Any] = {"rows": layers, "columns": heads, "row_name": "layer", "column_name": "head"}
    return Grid(title=title, takeaway=takeaway, values=values, **names, high=1.0, numbers=True, formula=formula)


def attention_by_text(loaded: Loaded, examples: Iterable[ModelInput], stack: str) -> Iterator[TextAttention]:
    for example in examples:
        may_stop()
        yield attention_of(loaded.model, example.inputs)[stack], ids_of(example, stack)


def ids_of(example: ModelInput, stack: str) -> list[int]:
    """What tells tokens apart; those that are no words are all different."""
    if stack == "target":
        assert example.inputs[2] is not None
        return [int(id) for id in example.inputs[2][0]]
    others = len(example.tokens) - len(example.ids)
    return [*range(-others, 0), *example.ids]


@dataclass(frozen=True)
class HeadStats:
    """What a head does on average, over all tokens that count."""

    shares: dict[str, float]
    """The shares of its weights by role; a role that counts nowhere is left out."""
    distance: float
    """Tokens between a token and what it looks at, on average."""
    entropy: float
    """The entropy of its weights, in nats."""

    @property
    def tokens(self) -> float:
        """The number of tokens that have the same entropy when they are looked at evenly."""
        return math.exp(self.entropy)


@dataclass(frozen=True)
class HeadRole:
    """A head, beside one that spreads evenly over what it may see."""

    layer: int
    head: int
    own: HeadStats
    even: HeadStats
    counts: dict[str, int]
    """Tokens at which each role counts."""
    tokens: int
    """Tokens at which all else was measured."""

    def plainness(self, role: str) -> float:
        """Return how much of what evenness leaves goes there; 1: everything, 0: no more than evenly."""
        share, even = self.own.shares[role], self.even.shares[role]
        return (share - even) / (1 - even) if even < 1 else 0.0

    @property
    def role(self) -> str | None:
        """The plainest role, if any is plain enough."""
        enough = [role for role in self.own.shares if self.counts[role] >= MIN_TOKENS]
        best = max(enough, key=self.plainness, default=None)
        return best if best is not None and self.plainness(best) >= PLAIN else None

    @property
    def is_long_range(self) -> bool:
        """Whether it looks far away, without a plainer role."""
        return self.role is None and self.own.distance >= LONG_RANGE * self.even.distance

    @property
    def name(self) -> str:
        """Its role with its share; without a role, whether it is spread evenly, or how far it looks."""
        if self.role is not None:
            return f"{IN_WORDS[self.role]} ({self.own.shares[self.role]:.2f})"
        if self.own.entropy >= EVEN * self.even.entropy:
            return "spread evenly"
        kind = "long range" if self.is_long_range else "without a plain role"
        return f"{kind} ({self.own.distance:.1f} tokens away)"

    def with_role(self, role: str, share: float, even: float, count: int) -> "HeadRole":
        """Return the same head with one more role that was measured elsewhere."""
        own, of_even = ({**of.shares, role: new} for of, new in ((self.own, share), (self.even, even)))
        own_stats, even_stats = replace(self.own, shares=own), replace(self.even, shares=of_even)
        return replace(self, own=own_stats, even=even_stats, counts={**self.counts, role: count})


def head_roles(texts: Iterable[TextAttention], separators: Collection[int] = ()) -> list[list[HeadRole]]:
    """The role of every layer's heads, over several texts; all tokens weigh alike. `separators`: ids of marks."""
    shares: Any = 0.0
    rest: Any = 0.0
    even_shares, even_rest, counts, tokens = np.zeros(len(ROLES)), np.zeros(2), np.zeros(len(ROLES), int), 0
    for weights, ids in texts:
        check_sizes(weights, ids)
        if len(ids) < 3:
            continue
        weights = np.asarray(weights, np.float64)
        seen = visible_to(weights)
        even = seen / seen.sum(-1, keepdims=True)
        places = role_places(ids, separators) & seen
        counts += places.any(-1).sum(-1)
        shares = shares + np.einsum("lhts,rts->rlh", weights, places)
        rest = rest + _distance_and_entropy(weights)
        even_shares += np.einsum("ts,rts->r", even, places)
        even_rest += _distance_and_entropy(even)
        tokens += len(ids) - 2
    if not tokens:
        raise Misuse("what heads do shows in texts of three tokens or more, and there is none")
    counted = {role: int(count) for role, count in zip(ROLES, counts, strict=True) if count}

    def stats(of_roles: Any, of_rest: Any) -> HeadStats:
        means = {
            role: float(total / count) for role, total, count in zip(ROLES, of_roles, counts, strict=True) if count
        }
        return HeadStats(means, *(float(total / tokens) for total in of_rest))

    even_head = stats(even_shares, even_rest)
    return [
        [
            HeadRole(layer, head, stats(shares[:, layer, head], rest[:, layer, head]), even_head, counted, tokens)
            for head in range(shares.shape[2])
        ]
        for layer in range(shares.shape[1])
    ]


def check_sizes(weights: Float[Array, "L h T S"], ids: Sequence[int]) -> None:
    if weights.shape[-2:] != (len(ids), len(ids)):
        rows, columns = weights.shape[-2:]
        raise ValueError(f"weights from {rows} tokens to {columns} do not belong to a text of {len(ids)}")


def visible_to(weights: Float[Array, "L h T T"]) -> Bool[Array, "T T"]:
    """What each token may look at: where no head looks ahead, the future is hidden."""
    size = weights.shape[-1]
    everything = np.ones((size, size), bool)
    return everything if np.triu(weights, 1).any() else np.tril(everything)


def role_places(ids: Sequence[int], separators: Collection[int] = ()) -> Bool[Array, "R T T"]:
    """Where a head with each role looks from each token; a row without a place does not count."""
    size = len(ids)
    at, to = np.indices((size, size))
    tokens = np.asarray(ids)
    same = (tokens[:, None] == tokens) & (to < at)
    last = np.where(same.any(-1), size - 1 - same[:, ::-1].argmax(-1), size)
    places = {
        "previous": to == at - 1,
        "next": to == at + 1,
        "first": to == 0,
        "itself": to == at,
        "induction": (to == last[:, None] + 1) & (to < at - 1),
        "before": same & (to > 0) & (to < at - 1),
        "separator": np.isin(tokens, list(separators))[None] & (to > 0) & (to < at - 1),
    }
    return np.stack([places[role] for role in ROLES]) & (at >= 2)


def _distance_and_entropy(weights: Float[Array, "*heads T T"]) -> Float[Array, "2 *heads"]:
    """Summed over the tokens that count."""
    at, to = np.indices(weights.shape[-2:])
    far = (weights * np.abs(at - to))[..., 2:, :].sum((-2, -1))
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.stack([far, -(weights * logs)[..., 2:, :].sum((-2, -1))])


def who_looks(weights: Float[Array, "L h T S"], layer: int | None, head: int | None) -> str:
    """Return how a sentence begins that is about one head."""
    return "The one head" if weights.shape[0] * weights.shape[1] == 1 else f"Head {layer or 0}.{head or 0}"


def separators_of(tokenizer: Tokenizer | None) -> set[int]:
    """Tokens that hold neither a letter nor a digit: commas, full stops, line ends."""
    texts = () if tokenizer is None else tokenizer.texts
    return {id for id in texts if tokenizer is not None and is_separator(tokenizer.token(id).strip(" "))}


def is_separator(token: str) -> bool:
    return bool(token) and not any(map(str.isalnum, token))


def head_takeaway(weights: Float[Array, "L h T S"], rows: Sequence[str], columns: Sequence[str], choice: Choice) -> str:
    """Return the role of one head in one text, or else the pair of tokens with the largest weight."""
    layer, head = (place or 0 for place in choice)
    who, own = who_looks(weights, layer, head), np.asarray(weights[layer, head], np.float64)
    if not own.size:
        return ""
    if len(rows) > 2 and list(rows) == list(columns):
        ids = [list(rows).index(token) for token in rows]
        marks = {id for id in ids if is_separator(rows[id].strip())}
        role = head_roles([(weights[layer : layer + 1, head : head + 1], ids)], marks)[0][0]
        if role.role is not None:
            return f"{who} {role.name}"
    at, to = map(int, np.unravel_index(own.argmax(), own.shape))
    return f"{who}: {quoted(rows[at])} looks at {quoted(columns[to])} ({own[at, to]:.2f})"


def heads_panel(
    title: str,
    weights: Float[Array, "L h T S"],
    sides: tuple[Sequence[str], Sequence[str]],
    choice: Choice,
    **facts: Any,
) -> Heads:
    """Return the attention between two sides that opens on one head; `facts`: other fields of the panel."""
    (rows, columns), (layer, head) = sides, choice
    facts = {"takeaway": head_takeaway(weights, rows, columns, choice), "layer": layer, "head": head, **facts}
    return Heads(title=title, weights=weights, rows=rows, columns=columns, **facts)
