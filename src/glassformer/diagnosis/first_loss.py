"""The first loss: a model that knows nothing yet should be as surprised as one that guesses evenly."""

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.finding import PROBLEM, WARNING, Finding

ABOVE, FAR_ABOVE = 1.5, 3.0
"""Times what guessing evenly costs. Small first weights give nearly 1."""
BELOW = 0.5
"""Before the first update nothing can be known, but for what the first weights bring along."""
NUMBERS_ABOVE = 5.0
"""The same of squared errors: a small batch may hold an outlier or two."""


def first_loss(loss: float, expected: float, guess: str, advise: Advice, *, numbers: bool = False) -> Finding | None:
    """`expected`: the loss of guessing; `guess`: that in words, such as 'ln of 4,096 tokens'."""
    found = {"loss": loss, "expected": expected}
    ratio = loss / expected
    if ratio > (NUMBERS_ABOVE if numbers else ABOVE):
        severe = PROBLEM if ratio > (2 * NUMBERS_ABOVE if numbers else FAR_ABOVE) else WARNING
        words = (
            f"The first loss is {loss:.2f}, {ratio:.1f} times that of guessing ({guess}, {expected:.2f}): the first "
            "weights make the model sure of wrong answers."
        )
        advice = joined(
            advise.put("model.initialisation", "zero"),
            advise.put("model.embed_scale", False),
            "of one's own model, a smaller last layer",
        )
        return Finding("first-loss", 1, severe, words, f"smaller first weights: {advice}", found)
    if ratio < BELOW and not numbers:
        words = (
            f"The first loss is {loss:.2f}, {ratio:.2f} of what guessing costs ({guess}, {expected:.2f}): before the "
            "first update the model already knows, so its answer may stand in what it reads."
        )
        advice = joined(
            "look for a column that repeats the label, for text that holds it", advise.put("model.causal_mask", True)
        )
        return Finding("first-loss", 1, WARNING, words, advice, found)
    return None


def reads_its_answer(step: int) -> Finding:
    """A language model without its mask."""
    words = (
        "model.causal_mask is false: every token sees the one it is to predict, so loss and perplexity mean nothing."
    )
    return Finding("leak", step, PROBLEM, words, "--model.causal_mask true", {"mask": False})


TOO_GOOD = 0.1
"""Bits per byte. The best language models there are need 0.6 or more for text they have not seen."""


def too_good(bits: float, advise: Advice, step: int) -> Finding | None:
    if bits >= TOO_GOOD:
        return None
    words = (
        f"{bits:.3f} bits per byte on validation text are too few to be true (large models need 0.6 and more): the "
        "model reads its answer, or has seen this text in training."
    )
    advice = joined(advise.put("model.causal_mask", True), "look for repeated documents with glassformer data check")
    return Finding("leak", step, WARNING, words, advice, {"bits_per_byte": bits})
