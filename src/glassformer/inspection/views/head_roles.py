"""Roles of attention heads, by their weights on the previous token, the first token and others.

Every role is compared with an even head, which spreads its weights evenly over all visible tokens. In a short text,
even this head gives much weight to the previous token. Texts are processed one at a time, without padding, and only
self-attention is measured.

Roles are measured at these tokens:

- Positions 0 and 1 do not count: there, the first token is the token itself or the previous one.
- A role counts only at tokens where it is possible. `next` needs a model that reads in both directions. `before` and
  `induction` need an earlier occurrence of the same token.
- `before` and `separator` exclude the first and the previous token. `induction` excludes the token itself and the
  previous one.

A head without a role may still look nearby or far away (long range). The measure is the mean distance in tokens,
compared with that of the even head.
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
"""Attention weights of every layer and head for a text, and the ids of its tokens."""

Choice = tuple[int | None, int | None]
"""A layer and a head; None stands for the sharpest one."""
ANY: Choice = (None, None)

ROLES: Mapping[str, str] = wording("roles")
"""Roles of heads, with a description of each.

- `induction`: the head attends to the token after the last earlier occurrence of the same token.
- `before`: it attends to any earlier occurrence of the same token.
- `separator`: it attends to an earlier punctuation mark.
"""
IN_WORDS = {**ROLES, **wording("relations")}
"""Descriptions of all roles, including relations, which are measured only on data sets with annotated links."""

PLAIN = 0.4
"""Minimum plainness of a role: (share - even) / (1 - even), where `even` is the share of the even head."""
MIN_TOKENS = 5
"""Minimum number of tokens at which a role must count."""
EVEN = 0.9
"""Minimum entropy of an evenly spread head, as a fraction of the entropy of the even head."""
LONG_RANGE = 1.5
"""Minimum distance of a long-range head, as a multiple of the distance of the even head.

A head that spreads its weights over the farther half of the visible tokens has this distance.
"""


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
    """Return an id for each token of a stack; columns and patches have distinct negative ids."""
    if stack == "target":
        assert example.inputs[2] is not None
        return [int(id) for id in example.inputs[2][0]]
    others = len(example.tokens) - len(example.ids)
    return [*range(-others, 0), *example.ids]


@dataclass(frozen=True)
class HeadStats:
    """Averages of a head over all tokens that count."""

    shares: dict[str, float]
    """Share of its weights by role, without roles that count at no token."""
    distance: float
    """Mean distance between a token and the tokens that it attends to, in tokens."""
    entropy: float
    """Entropy of its weights, in nats."""

    @property
    def tokens(self) -> float:
        """The effective number of tokens: even weights on this many tokens have the same entropy."""
        return math.exp(self.entropy)


@dataclass(frozen=True)
class HeadRole:
    """Measurements of a head, compared with an even head."""

    layer: int
    head: int
    own: HeadStats
    even: HeadStats
    """Averages of a head that spreads its weights evenly over all visible tokens."""
    counts: dict[str, int]
    """Number of tokens at which each role counts."""
    tokens: int
    """Number of tokens over which distance and entropy are averaged."""

    def plainness(self, role: str) -> float:
        """Return the share of a role, rescaled so that the even head has 0 and a head with all its weight there has 1.

        It is negative if the even head has a larger share.
        """
        share, even = self.own.shares[role], self.even.shares[role]
        return (share - even) / (1 - even) if even < 1 else 0.0

    @property
    def role(self) -> str | None:
        """The role with the highest plainness; None if no role reaches `PLAIN`."""
        enough = [role for role in self.own.shares if self.counts[role] >= MIN_TOKENS]
        best = max(enough, key=self.plainness, default=None)
        return best if best is not None and self.plainness(best) >= PLAIN else None

    @property
    def is_long_range(self) -> bool:
        """Whether the head has no role and looks far away."""
        return self.role is None and self.own.distance >= LONG_RANGE * self.even.distance

    @property
    def name(self) -> str:
        """A description of the head: its role with its share, or else how evenly or how far it looks."""
        if self.role is not None:
            return f"{IN_WORDS[self.role]} ({self.own.shares[self.role]:.2f})"
        if self.own.entropy >= EVEN * self.even.entropy:
            return "spread evenly"
        kind = "long range" if self.is_long_range else "without a plain role"
        return f"{kind} ({self.own.distance:.1f} tokens away)"

    def with_role(self, role: str, share: float, even: float, count: int) -> "HeadRole":
        """Return the same head with an additional role that was measured elsewhere."""
        own, of_even = ({**of.shares, role: new} for of, new in ((self.own, share), (self.even, even)))
        own_stats, even_stats = replace(self.own, shares=own), replace(self.even, shares=of_even)
        return replace(self, own=own_stats, even=even_stats, counts={**self.counts, role: count})


def head_roles(texts: Iterable[TextAttention], separators: Collection[int] = ()) -> list[list[HeadRole]]:
    """Return the measurements of every head by layer, averaged over the tokens of several texts.

    `separators` holds the ids of punctuation marks.
    """
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
    """Return the mask of visible tokens: causal if no head has weight on a later token, else everything."""
    size = weights.shape[-1]
    everything = np.ones((size, size), bool)
    return everything if np.triu(weights, 1).any() else np.tril(everything)


def role_places(ids: Sequence[int], separators: Collection[int] = ()) -> Bool[Array, "R T T"]:
    """Return a mask, for each role and token, of the tokens that a head with this role attends to.

    A role does not count at tokens whose row is empty.
    """
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
    """Return the distance and the entropy, each summed over the tokens that count."""
    at, to = np.indices(weights.shape[-2:])
    far = (weights * np.abs(at - to))[..., 2:, :].sum((-2, -1))
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.stack([far, -(weights * logs)[..., 2:, :].sum((-2, -1))])


def who_looks(weights: Float[Array, "L h T S"], layer: int | None, head: int | None) -> str:
    """Return the subject of a sentence about one head."""
    return "The one head" if weights.shape[0] * weights.shape[1] == 1 else f"Head {layer or 0}.{head or 0}"


def separators_of(tokenizer: Tokenizer | None) -> set[int]:
    """Return the ids of tokens without a letter or digit, such as commas and full stops."""
    texts = () if tokenizer is None else tokenizer.texts
    return {id for id in texts if tokenizer is not None and is_separator(tokenizer.token(id).strip(" "))}


def is_separator(token: str) -> bool:
    return bool(token) and not any(map(str.isalnum, token))


def head_takeaway(weights: Float[Array, "L h T S"], rows: Sequence[str], columns: Sequence[str], choice: Choice) -> str:
    """Return a sentence about the role of one head in one text, or else about its largest weight."""
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
    """Return the attention between two sides as a panel that first shows the chosen head.

    `sides` holds the names of the rows and columns; `facts` are other fields of the panel.
    """
    (rows, columns), (layer, head) = sides, choice
    facts = {"takeaway": head_takeaway(weights, rows, columns, choice), "layer": layer, "head": head, **facts}
    return Heads(title=title, weights=weights, rows=rows, columns=columns, **facts)
