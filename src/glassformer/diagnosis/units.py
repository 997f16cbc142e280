"""Units that never speak, gates that no longer move, heads that look at one thing or at everything."""

from collections.abc import Mapping

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.finding import NOTE, PROBLEM, WARNING, Finding

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
    named = ", ".join(f"{share:.0%} of {name}" for name, share in list(dead.items())[:SHOWN])
    words = (
        f"Hidden units that are never active, whatever the example: {named}. They compute nothing and learn nothing."
    )
    severe = PROBLEM if max(dead.values()) >= MOST_DEAD else WARNING
    norm = advise.put("model.norm", "rms") if advise.config.model.norm == "none" else None
    relu = advise.put("model.activation", "gelu") if advise.config.model.activation.startswith("relu") else None
    units = joined(advise.fewer("model.hidden"), advise.fewer("model.head_hidden"))
    advice = joined(advise.lower_rate(), relu, norm, f"fewer units ({units})" if units else None)
    return Finding("dead-units", step, severe, words, advice, dead)


def saturated_units(shares: Mapping[str, float], advise: Advice, step: int) -> Finding | None:
    """The share of states and gates at their ends, by layer."""
    saturated = {name: share for name, share in shares.items() if share >= SATURATED}
    if not saturated:
        return None
    named = ", ".join(f"{share:.0%} of {name}" for name, share in list(saturated.items())[:SHOWN])
    words = f"Stuck at an end of tanh or sigmoid, where gradients are next to 0: {named}."
    advice = joined(advise.lower_rate(), advise.decay(), advise.clip(), "numbers in the data of like size")
    return Finding("stuck", step, WARNING, words, advice, saturated)


def attention_heads(entropies: Mapping[str, float], advise: Advice, step: int) -> list[Finding]:
    """The mean entropy of each head's weights over the largest possible, by the head's name (layer.head)."""
    found = []
    pointed = [name for name, share in entropies.items() if share < POINTED]
    even = [name for name, share in entropies.items() if share > EVEN]
    for kind, names, what, advice in (
        ("one-token", pointed, "look at a single token each (weights of 1 and 0), where gradients are next to 0",
         joined(advise.put("model.qk_norm", True), advise.put("model.scale", True), advise.lower_rate())),
        ("everywhere", even, "look at all tokens alike: they have not learned where to look",
         joined(f"a longer training ({advise.longer()})", advise.fewer("model.heads"),
                "glassformer look RUN --view roles")),
    ):  # fmt: skip
        if len(names) > MOST_HEADS * len(entropies):
            some = ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
            words = f"{len(names)} of {len(entropies)} heads {what}: {some} (layer.head)."
            numbers = {name: entropies[name] for name in names}
            found.append(Finding(f"heads-{kind}", step, NOTE, words, advice, numbers))
    return found
