"""One head of attention, step by step: among the tokens, or to a second text."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.attention import Attention
from glassformer.config.arrays import Array
from glassformer.inspection.numbers.writing import (
    Sheet,
    Vectors,
    array,
    between,
    linear,
    number,
    products,
    softmax_worked,
    worked,
)
from glassformer.rendering.panels import Panel

SYMBOLS = {
    "query-key": ("W^Q", "W^K", "W^V"),
    "shared": ("U", "U", "U"),
    "bilinear": ("W", "", ""),
    "plain": ("", "", ""),
}
"""What makes queries, keys and values, by the kind of scores; empty: they are the vectors themselves."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """How the queries, the keys or the values of one head come about."""

    x: Vectors
    """What they are made of."""
    letter: str
    """What that is called in a formula."""
    symbol: str = ""
    """The map's; empty: there is none."""
    weight: Float[Array, "e d"] | None = None
    bias: Float[Array, "e"] | None = None
    mapped: Float[Array, "T e"]
    gain: Float[Array, "e"] | None = None
    """Of their own norm, where they have one."""
    eps: float = 0.0
    normed: Float[Array, "T e"] | None = None
    cos: Float[Array, "T half"] | None = None
    """Of the angles by which they are turned, where positions are rotary."""
    sin: Float[Array, "T half"] | None = None
    placed: Float[Array, "T e"]
    """As they are used."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """All that one head computes."""

    queries: Side
    keys: Side
    values: Side
    scaled: bool
    scores: Float[Array, "T S"]
    """Hidden ones are −∞."""
    weights: Float[Array, "T S"]
    mixed: Float[Array, "T v"]
    shared: str = ""
    """Which heads share these keys and values, in words."""


def one_head(
    attention: Attention,
    seen: Mapping[str, Tensor],
    path: str,
    head: int,
    *,
    letter: str = "x",
    memory: Tensor | None = None,
    rotary: str | None = None,
) -> Head:
    """Of an attention at `path`, which reads `letter`.

    `memory`: the 1×S×m looked at, None: the tokens themselves; `rotary`: where the angles are, if there are any.
    """
    group = attention.heads // attention.kv_heads
    pair = head // group
    x, m = seen[f"{path}.input"], seen[f"{path}.input"] if memory is None else memory
    symbols = SYMBOLS[attention.scores]
    shared_map = attention.query if attention.scores == "shared" else None
    other = letter if memory is None else "m"

    def side(what: str, given: Tensor, letter: str, symbol: str, made: nn.Module | None, at: int, heads: int) -> Side:
        width = attention.head_width
        mapped = (given if made is None else made(given)).view(given.shape[1], heads, width)[:, at]
        mine = slice(at * width, (at + 1) * width)
        norm = getattr(attention, {"queries": "query_norm", "keys": "key_norm"}.get(what, ""), None)
        turned = rotary is not None and what != "values"
        return Side(
            x=array(given[0]),
            letter=letter,
            symbol=symbol,
            weight=array(made.weight[mine]) if isinstance(made, nn.Linear) else None,
            bias=array(made.bias[mine]) if isinstance(made, nn.Linear) and made.bias is not None else None,
            mapped=array(mapped),
            gain=None if norm is None else array(norm.weight),
            eps=0.0 if norm is None else norm.eps,
            normed=None if norm is None else array(norm(mapped)),
            cos=array(seen[f"{rotary}.cos"]) if turned else None,
            sin=array(seen[f"{rotary}.sin"]) if turned else None,
            placed=array(seen[f"{path}.{what}"][0, at]),
        )

    return Head(
        queries=side("queries", x, letter, symbols[0], attention.query, head, attention.heads),
        keys=side("keys", m, other, symbols[1], attention.key or shared_map, pair, attention.kv_heads),
        values=side("values", m, other, symbols[2], attention.value or shared_map, pair, attention.kv_heads),
        scaled=attention.scale != 1.0,
        scores=array(seen[f"{path}.scores"][0, head]),
        weights=array(seen[f"{path}.weights"][0, head]),
        mixed=array(seen[f"{path}.mixed"][0, head]),
        shared=f"Heads {pair * group} to {pair * group + group - 1} share them." if group > 1 else "",
    )


def head_panels(head: Head, looking: Sheet, looked_at: Sheet, where: str) -> list[Panel]:
    """From vectors to queries, keys and values, to scores, weights, and what was found.

    The token worked out is that of `looking`; on the other side, the one it looks at most.
    """
    at, best = looking.at, int(np.argmax(head.weights[looking.at]))
    beside = Sheet(looked_at.rows, best, looked_at.shown)
    pair = f"({looking.token} → {beside.token})"
    queries, keys, values = head.queries, head.keys, head.values
    dot = f"({products(queries.placed[at], keys.placed[best])})"
    how = f"{dot} / √{queries.placed.shape[1]}" if head.scaled else dot
    real = head.scores[at] > -np.inf
    formula = f"score = {_last_name(queries, 'q')} · {_last_name(keys, 'k')}" + (" / √e" if head.scaled else "")
    return [
        *side_panels(queries, looking, f"{where}: queries", "q"),
        *side_panels(keys, beside, f"{where}: keys", "k", head.shared),
        *side_panels(values, beside, f"{where}: values", "v", head.shared),
        between(
            f"{where}: scores",
            head.scores,
            looking.rows,
            beside.rows,
            formula=formula,
            worked=worked(f"score{pair}", how, float(head.scores[at, best])),
            signed=True,
        ),
        between(
            f"{where}: weights",
            head.weights,
            looking.rows,
            beside.rows,
            formula="p = e^score / Σ e^score, over the row",
            worked=softmax_worked(f"p{pair}", head.scores[at], best, float(head.weights[at, best])),
        ),
        looking.vectors(
            f"{where}: what the head found",
            head.mixed,
            "c = Σ p v, over the tokens looked at",
            worked(
                looking.cell("c"),
                products(head.weights[at][real], values.placed[real, 0]),
                float(head.mixed[at, 0]),
            ),
        ),
    ]


def side_panels(side: Side, sheet: Sheet, title: str, name: str, note: str = "") -> list[Panel]:
    """The map, then the norm, then the turn, as far as they are there."""
    at, bias = sheet.at, side.bias
    if side.weight is None:
        panels: list[Panel] = [
            sheet.vectors(title, side.mapped, f"{name} = {side.letter}, this head's part", note=note)
        ]
    else:
        formula = f"{name} = {side.symbol} {side.letter}" + (" + b" if bias is not None else "")
        how = linear(side.weight[0], side.x[at], None if bias is None else float(bias[0]))
        panels = [
            sheet.vectors(title, side.mapped, formula, worked(sheet.cell(name), how, float(side.mapped[at, 0])), note)
        ]
    before = side.mapped
    if side.normed is not None and side.gain is not None:
        name, old = _primed(name), name
        mean = float(np.square(before[at]).mean())
        how = f"{number(before[at, 0])} / √({number(mean)} + {number(side.eps)}) · {number(side.gain[0])}"
        sentence = worked(sheet.cell(name), how, float(side.normed[at, 0]))
        formula = f"{name} = {old} / √(mean {old}² + ε) · γ"
        panels.append(sheet.vectors(f"{title}, normed", side.normed, formula, sentence))
        before = side.normed
    if side.cos is not None and side.sin is not None:
        half = before.shape[1] // 2
        name, old = _primed(name), name
        a, b, cos, sin = (number(part) for part in (*before[at, [0, half]], side.cos[at, 0], side.sin[at, 0]))
        sentence = worked(sheet.cell(name), f"{a}·{cos} − {b}·{sin}", float(side.placed[at, 0]))
        formula = f"{name}_i = {old}_i · cos tθ_i − {old}_(i+{half}) · sin tθ_i, at position t"
        other = (
            f"Numbers i and i+{half} are a pair: {name}_(i+{half}) = {old}_(i+{half}) · cos tθ_i + {old}_i · sin tθ_i."
        )
        panels.append(sheet.vectors(f"{title}, turned by their position", side.placed, formula, sentence, other))
    return panels


def _primed(name: str) -> str:
    return f"{name}′".replace("′′", "″")


def _last_name(side: Side, name: str) -> str:
    """As it is called after norm and turn."""
    name = name if side.normed is None else _primed(name)
    return name if side.cos is None else _primed(name)
