"""A Transformer, step by step: attention, feed-forward, and around each of them residual and norm."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from torch import nn

from glassformer.bricks.attention import Attention
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.norm import NoNorm, Residual
from glassformer.bricks.own import OwnNorm
from glassformer.bricks.positions import OneHotPositions
from glassformer.encoders.blocks import OwnAttention
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.numbers.steps import (
    Activations,
    Source,
    Step,
    Term,
    Vectors,
    activate,
    activation_name,
    array,
    check_index,
    combine,
    linear,
    norm_term,
    number,
    products,
    score_panels,
)
from glassformer.rendering.panels import Panel

PARTS = {"attend": "Attention", "cross_attention": "Attention to the source", "feed": "Feed-forward"}
"""The parts of a block, one after the other; around each stands a residual of its name."""
SYMBOLS = {
    "query-key": {"queries": "W^Q", "keys": "W^K", "values": "W^V"},
    "shared": {"queries": "U", "keys": "U", "values": "U"},
    "bilinear": {"queries": "W"},
    "plain": {},
}
"""What makes queries, keys and values, by the kind of scores; what is not there is the vectors themselves."""

PRIMES = ("", "′", "″")
"""Marks of queries and keys: as mapped, after norm or turn, after both."""


def transformer_panels(encoder: TransformerEncoder, acts: Activations) -> Iterator[Panel]:
    """Positions and their norm before the first block, the chosen block, and the last norm after the last one."""
    block, inside = encoder.own_blocks()[acts.layer], acts.under(f"blocks.{acts.layer}")
    check_index("head", acts.head, block.attend.heads)
    if acts.layer == 0:
        x, normed = (acts[f"{name}.output"] for name in ("positions", "embed_norm"))
        yield from acts.panels(*position_steps(encoder.positions, acts.under("positions")))
        yield from acts.panels(*norm_steps("The norm before the first layer", encoder.embed_norm, x, normed, acts.at))
    yield acts.panel(Step(f"Into layer {acts.layer}", inside["input"], "x"))
    for name, title in PARTS.items():
        part, around = getattr(block, name), getattr(block, f"around_{name}")
        if part is None:
            continue
        own, outer = inside.under(name, title), inside.under(f"around_{name}", title)
        letter = "n" if around.pre and not isinstance(around.norm, NoNorm) else "x"
        yield from outer.panels(*before_steps(around, outer))
        if isinstance(part, Attention):
            among_tokens = name == "attend"
            rotary = acts.under("rotary") if among_tokens and encoder.rotary is not None else None
            yield from attention_panels(part, own, letter, None if among_tokens else _source(encoder, acts), rotary)
            gives = "c" if part.output is None else "o"
        elif isinstance(part, OwnAttention):
            yield own.panel(Step(str(part.part), own["output"], "o"))
            gives = "o"
        else:
            yield from own.panels(*feed_forward_steps(part, own, letter))
            gives = "a" if part.output is None else "f"
        yield from outer.panels(*after_steps(around, outer, own["output"], gives))
    if acts.layer == len(encoder.blocks) - 1:
        x, normed = inside["output"], acts["norm.output"]
        yield from acts.panels(*norm_steps("The last norm", encoder.norm, x, normed, acts.at))


def _source(encoder: TransformerEncoder, acts: Activations) -> Source | None:
    """Return the part of the source that the chosen block attends to."""
    memory = encoder.memory_of(None if acts.source is None else acts.source.memory, acts.layer)
    return None if acts.source is None or memory is None else acts.source._replace(memory=memory)


def position_steps(positions: nn.Module, acts: Activations) -> list[Step]:
    """What is added to each token's vector for the place where it stands."""
    if f"{acts.path}.vectors" not in acts.seen:
        return []
    places, total = array(acts.tensor("vectors")), acts["output"]
    both = combine(
        "{word} + {place}", word=acts.first("word vector", total - places), place=acts.first("place", places)
    )
    of_places = "a vector for each place t"
    if isinstance(positions, OneHotPositions):
        of_places = "W_2 one-hot of t"
        both = Term("W [word vector; one-hot of t] = W_1 word vector + W_2 one-hot", both.numbers)
    return [Step("Places", places, of_places), Step("Words and places", total, "x", both)]


def feed_forward_steps(feed: FeedForward, acts: Activations, letter: str) -> Iterator[Step]:
    """The hidden layer after its non-linearity, and the output."""
    x, active = acts["input"][acts.at], acts["active"]
    hidden = activate(activation_name(feed.activation), linear(f"W₁ {letter}", feed.input, x, bias_letter="b₁"))
    if feed.gate is not None:
        gate = linear(f"W₃ {letter}", feed.gate, x, bias_letter="b₃")
        hidden = combine("{hidden} ⊙ ({gate})", hidden=hidden, gate=gate)
    yield Step("hidden layer", active, "a", hidden)
    if feed.output is not None:
        yield Step("output", acts["output"], "f", linear("W₂ a", feed.output, active[acts.at]))


def before_steps(around: Residual, acts: Activations) -> list[Step]:
    """Pre-norm: the norm of what comes in."""
    return norm_steps("the norm before it", around.norm, acts["input"], acts["normed"], acts.at) if around.pre else []


def after_steps(around: Residual, acts: Activations, out: Vectors, letter: str) -> list[Step]:
    """The residual; post-norm: the norm of that. `letter`: what the part's output is called."""
    x, after, steps = acts["input"], acts["output"], []
    total = x + out if around.residual else out
    if around.residual:
        both = combine("{x} + {out}", x=acts.first("x", x), out=acts.first(letter, out)).where("x what came in")
        steps.append(Step("residual", after if around.pre else total, "y", both))
    return steps if around.pre else steps + norm_steps("the norm after it", around.norm, total, after, acts.at, "y")


def norm_steps(title: str, norm: nn.Module, x: Vectors, normed: Vectors, at: int, letter: str = "x") -> list[Step]:
    """The step of a norm, or none where nothing is normed."""
    if isinstance(norm, NoNorm):
        return []
    if isinstance(norm, OwnNorm):
        return [Step(f"{title}: {norm.part}", normed, "n")]
    return [Step(title, normed, "n", norm_term(norm, x[at], letter))]


# --- attention ---


def attention_panels(
    attention: Attention,
    acts: Activations,
    letter: str,
    source: Source | None = None,
    rotary: Activations | None = None,
) -> Iterator[Panel]:
    """One head from vectors to queries, keys and values, to scores, weights, and what was found; then all heads.

    `letter`: what is read; `source`: looked at instead of the tokens themselves; `rotary`: the angles, where positions
    are such. Beside the token that is worked out stands the one that it looks at most.
    """
    head = acts.head
    pair = head * attention.kv_heads // attention.heads
    queries, scores, weights, mixed = (acts[name][head] for name in ("queries", "scores", "weights", "mixed"))
    keys, values = (acts[name][pair] for name in ("keys", "values"))
    at, best = acts.at, int(np.argmax(weights[acts.at]))
    looking = replace(acts, title=f"{acts.title}, head {head}")
    looked_at = looking.beside(acts.tokens if source is None else source.tokens, best)
    primes = PRIMES[(attention.query_norm is not None) + (rotary is not None)]
    score = Term(f"q{primes} · k{primes}", f"({products(queries[at], keys[best])})")
    if attention.scale != 1.0:
        score = Term(f"{score.letters} / √d_k", f"{score.numbers} / √{queries.shape[1]}")
    real = scores[at] > -np.inf
    found = Term("Σ α v, over the tokens looked at", products(weights[at][real], values[real, 0]))
    joined = array(acts.tensor("mixed")[0].transpose(0, 1).flatten(1))
    yield from looking.panels(*_side(attention, looking, "queries", letter, None, rotary))
    yield from looked_at.panels(*_side(attention, looked_at, "keys", letter, source, rotary))
    yield from looked_at.panels(*_side(attention, looked_at, "values", letter, source))
    yield from score_panels(looking, looked_at, scores, weights, score)
    yield looking.panel(Step("what the head found", mixed, "c", found))
    yield acts.panel(Step("all heads side by side", joined, "c = [c of head 0; head 1; …]"))
    if attention.output is not None:
        yield acts.panel(Step("projected", acts["output"], "o", linear("W^O c", attention.output, joined[at])))


def _side(
    attention: Attention,
    acts: Activations,
    what: str,
    letter: str,
    source: Source | None,
    rotary: Activations | None = None,
) -> Iterator[Step]:
    """Queries, keys or values of one head: the map, then the norm, then the turn, as far as they are there."""
    at, name, head, note = acts.at, what[0], acts.head, ""
    shared = attention.query if attention.scores == "shared" else None
    layer = {"queries": attention.query, "keys": attention.key, "values": attention.value}[what] or shared
    norm = {"queries": attention.query_norm, "keys": attention.key_norm}.get(what)
    if what != "queries" and attention.heads > attention.kv_heads:
        group = attention.heads // attention.kv_heads
        head //= group
        note = f"Heads {head * group} to {head * group + group - 1} share them."
    read, letter = (acts.tensor("input"), letter) if source is None else (source.memory.states, "m")
    x, width = array(read[0]), attention.head_width
    mapped = (read if layer is None else layer(read)).view(len(x), -1, width)[:, head]
    values = array(mapped)
    if layer is None:
        yield Step(what, values, f"{name} = {letter}, this head's part", note=note)
    else:
        product = f"{SYMBOLS[attention.scores][what]} {letter}"
        yield Step(what, values, name, linear(product, layer, x[at], row=head * width), note)
    if norm is not None:
        by_norm = norm_term(norm, values[at], name)
        name, values = f"{name}′", array(norm(mapped))
        yield Step(f"{what}, normed", values, name, by_norm)
    if rotary is not None:
        half, new = width // 2, f"{name}′".replace("′′", "″")
        cos, sin = (number(array(rotary.tensor(wave))[at, 0]) for wave in ("cos", "sin"))
        turned = Term(
            f"{name}_i · cos tθ_i − {name}_(i+{half}) · sin tθ_i, at position t",
            f"{number(values[at, 0])}·{cos} − {number(values[at, half])}·{sin}",
        )
        pair = f"{new}_(i+{half}) = {name}_(i+{half}) · cos tθ_i + {name}_i · sin tθ_i"
        note = f"Numbers i and i+{half} are a pair: {pair}."
        yield Step(f"{what}, turned by their position", acts[what][head], f"{new}_i", turned, note)
