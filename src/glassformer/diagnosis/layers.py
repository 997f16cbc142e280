"""What layers show: gradients that vanish, explode, are clipped, or hardly move the weights; units that never speak,
gates that no longer move, heads that look at one thing or at everything.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.events import NOTE, PROBLEM, WARNING, Finding

Layers = Mapping[str, Mapping[str, float]]

VANISHED = 1e-3
"""Gradient of the first layer over that of the last. Chosen wide, so that an uneven stack is no alarm."""
EXPLODED = 1e3
LEAST_STEPS = 6
"""Measured updates: at the very first ones, weights that start at 0 hold gradients back."""
OFTEN_CLIPPED, FAR_CLIPPED = 0.95, 30.0
"""Share of updates, and times the limit: clipping a little each time is harmless, as only the direction counts then."""
HARDLY = 1e-6
"""Change of the weights in an update, over their size. A thousand such updates change nothing that counts."""
STILL, NOTHING = 1e-9, 1e-15
"""Gradient of a layer that learns nothing: over that of the layer that learns most, and at all."""


# --- gradients and updates ---


def vanishing_gradients(history: Sequence[Layers], advise: Advice, step: int) -> Finding | None:
    """`history`: sizes by layer at the updates where they were measured."""
    if len(history) < LEAST_STEPS:
        return None
    later = history[len(history) // 2 :]
    middle = {
        name: float(np.median([layers[name]["gradient"] for layers in later if name in layers])) for name in later[-1]
    }
    for first, *_, last in (names for names in stacks(later[-1]) if len(names) > 1):
        below, above = middle[first], middle[last]
        ratio = below / above if above > 0 else (1.0 if below == 0 else np.inf)
        numbers = {"first": first, "last": last, "first_gradient": below, "last_gradient": above}
        if ratio < VANISHED:
            gated = advise.config.model.encoder == "rnn" and not advise.config.is_finetuned
            return Finding(
                "vanishing",
                step,
                WARNING,
                words=f"Gradients vanish on their way down: in {first} they are {below:.1e}, in {last} {above:.1e}"
                f"{f' ({1 / ratio:.0e} times as large)' if ratio else ''}; the first layers learn next to nothing.",
                advice=joined(
                    advise.put("model.residual", True),
                    advise.norm(),
                    advise.fewer("model.layers"),
                    "--model lstm" if gated else None,
                )
                or "fewer layers",
                numbers=numbers,
            )
        if ratio > EXPLODED:
            return Finding(
                "exploding",
                step,
                WARNING,
                words=f"Gradients explode on their way down: in {first} they are {below:.1e}, in {last} {above:.1e}"
                f"{f', {ratio:.0e} times less' if above else ''}.",
                advice=joined(
                    advise.norm(),
                    advise.put("model.initialisation", "zero"),
                    advise.fewer("model.layers"),
                    advise.clip(),
                    advise.lower_rate(),
                ),
                numbers=numbers,
            )
    return _still(middle, advise, step)


def _still(gradients: Mapping[str, float], advise: Advice, step: int) -> Finding | None:
    """A layer to which no gradient comes at all."""
    most = max(gradients.values(), default=0.0)
    advice = joined(
        advise.put("model.residual", True),
        advise.norm(),
        advise.lower_rate(),
        "of one's own model, does the layer lead to the answer?",
    )
    if most < NOTHING:
        return Finding(
            "vanishing",
            step,
            PROBLEM,
            f"No gradient comes to any layer (at most {most:.0e}): nothing is learned at all.",
            advice,
            {"gradient": most},
        )
    still = [name for name, gradient in gradients.items() if gradient < STILL * most]
    if not still:
        return None
    return Finding(
        "vanishing",
        step,
        WARNING,
        f"No gradient comes to {', '.join(still[:4])}: there is nothing for it to learn from.",
        advice,
        {"layers": still},
    )


def stacks(layers: Layers) -> list[list[str]]:
    """Layers that differ only in their last number, in its order: encoder.blocks.0, encoder.blocks.1, …"""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for name in layers:
        if match := re.fullmatch(r"(.*?)(\d+)", name):
            numbered.setdefault(match[1], []).append((int(match[2]), name))
    return [[name for _, name in sorted(stack)] for stack in numbered.values()]


def clipped_gradients(norms: Sequence[float], limit: float | None, advise: Advice, step: int) -> Finding | None:
    """Whether nearly every gradient is far beyond what clipping leaves of it."""
    recent = np.array(norms[len(norms) // 2 :])
    if limit is None or len(recent) < 20:
        return None
    share, middle = float((recent > limit).mean()), float(np.median(recent))
    if share < OFTEN_CLIPPED or middle < FAR_CLIPPED * limit:
        return None
    return Finding(
        "clipped",
        step,
        NOTE,
        words=f"{share:.0%} of the later updates are clipped: the middle gradient has norm {middle:.1f}, and clipping "
        f"leaves {limit:g} of it.",
        advice=joined(advise.norm(), advise.put("model.initialisation", "zero"), advise.lower_rate()),
        numbers={"share": share, "median": middle, "limit": limit},
    )


def learning_rate_too_low(history: Sequence[Layers], advise: Advice, step: int) -> Finding | None:
    """`history`: sizes by layer where they were measured; judged by the layer that moves most, of the later half."""
    if len(history) < LEAST_STEPS:
        return None
    moves = [
        max((size["update"] / size["weight"] for size in layers.values() if size["weight"] > 0), default=0.0)
        for layers in history[len(history) // 2 :]
    ]
    middle = float(np.median(moves))
    if middle >= HARDLY:
        return None
    return Finding(
        "rate-low",
        step,
        WARNING,
        f"The weights hardly move: an update changes even the quickest layer by {middle:.1e} of its size.",
        advise.higher_rate(),
        {"change": middle, "lr": advise.rate},
    )


# --- units, gates and heads ---

DEAD, MOST_DEAD = 0.5, 0.9
"""Share of a layer's units that are never active. A good reader of digits had 41 % of them."""
SATURATED = 0.5
"""Share of a layer's numbers at the ends of tanh or the gates, where gradients are next to 0."""
POINTED = 0.05
"""Entropy of a head's weights over the largest possible: below it, the head looks at a single token."""
EVEN = 0.995
"""Above it, the head looks at all tokens alike."""
MOST_HEADS = 0.5
"""Share of all heads. Some heads of a good model do either; where most do, attention has stopped learning."""
SHOWN = 6


def dead_units(shares: Mapping[str, float], advise: Advice, step: int) -> Finding | None:
    """The share of dead units by layer."""
    dead = {name: share for name, share in shares.items() if share >= DEAD}
    if not dead:
        return None
    relu = advise.put("model.activation", "gelu") if advise.config.model.activation.startswith("relu") else None
    units = joined(advise.fewer("model.hidden"), advise.fewer("model.head_hidden"))
    return Finding(
        "dead-units",
        step,
        PROBLEM if max(dead.values()) >= MOST_DEAD else WARNING,
        words=f"Hidden units that are never active, whatever the example: {_named(dead)}. They compute nothing and "
        "learn nothing.",
        advice=joined(advise.lower_rate(), relu, advise.norm(), f"fewer units ({units})" if units else None),
        numbers=dead,
    )


def saturated_units(shares: Mapping[str, float], advise: Advice, step: int) -> Finding | None:
    """The share of states and gates at their ends, by layer."""
    saturated = {name: share for name, share in shares.items() if share >= SATURATED}
    if not saturated:
        return None
    return Finding(
        "stuck",
        step,
        WARNING,
        f"Stuck at an end of tanh or sigmoid, where gradients are next to 0: {_named(saturated)}.",
        joined(advise.lower_rate(), advise.decay(), advise.clip(), "numbers in the data of like size"),
        saturated,
    )


def _named(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{share:.0%} of {name}" for name, share in list(shares.items())[:SHOWN])


def attention_heads(entropies: Mapping[str, float], advise: Advice, step: int) -> list[Finding]:
    """The mean entropy of each head's weights over the largest possible, by the head's name (layer.head)."""
    pointed = [name for name, share in entropies.items() if share < POINTED]
    even = [name for name, share in entropies.items() if share > EVEN]
    kinds = (
        ("one-token", pointed, "look at a single token each (weights of 1 and 0), where gradients are next to 0",
         joined(advise.put("model.qk_norm", True), advise.put("model.scale", True), advise.lower_rate())),
        ("everywhere", even, "look at all tokens alike: they have not learned where to look",
         joined(f"a longer training ({advise.longer()})", advise.fewer("model.heads"),
                "glassformer look RUN --view roles")),
    )  # fmt: skip
    return [
        Finding(
            f"heads-{kind}",
            step,
            NOTE,
            words=f"{len(names)} of {len(entropies)} heads {what}: {', '.join(names[:SHOWN])}"
            f"{' …' if len(names) > SHOWN else ''} (layer.head).",
            advice=advice,
            numbers={name: entropies[name] for name in names},
        )
        for kind, names, what, advice in kinds
        if len(names) > MOST_HEADS * len(entropies)
    ]
