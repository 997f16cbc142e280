"""What is lost, repeated or lacking before anything is learned."""

from collections.abc import Mapping, Sequence

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.finding import NOTE, WARNING, Finding

UNKNOWN, MANY_UNKNOWN = 0.05, 0.15
"""Share of tokens that are unknown: a word in twenty, and one in every seven, which leaves few sentences whole."""
CUT, MUCH_CUT = 0.1, 0.5
"""Share of texts whose end is not read."""
FEW_TOKENS, MANY_TIMES = 0.2, 10.0
"""Training tokens for each parameter, and how often each is seen: enough room and time to learn them by heart."""
WARNS = "warning: "
"""How remarks on the data begin that are more than remarks."""


def unknown(rates: Mapping[str, float], advise: Advice) -> Finding | None:
    """The share of unknown tokens by part."""
    held = {name: rate for name, rate in rates.items() if name != "train"}
    worst = max(held.values(), default=0.0)
    if max(worst, rates.get("train", 0.0)) < UNKNOWN:
        return None
    said = ", ".join(f"{rate:.1%} of {name}" for name, rate in rates.items())
    never = (
        " None stands in training, so the model never learned what to do with them." if not rates.get("train") else ""
    )
    words = f"Unknown tokens: {said}.{never}"
    severe = WARNING if max(rates.values()) >= MANY_UNKNOWN else NOTE
    return Finding("unknown", 0, severe, words, advise.known_tokens(), dict(rates))


def cut_off(cut: int, of: int, context: int, *, dropped: bool = False, bound: bool = False) -> Finding | None:
    """Texts longer than the context, which are cut there, or pairs that are left out. `bound`: no more can be read."""
    if not of or cut / of < CUT:
        return None
    what = "left out" if dropped else "cut there: their ends are never read"
    words = f"{cut:,} of {of:,} texts ({cut / of:.0%}) are longer than {context:,} tokens and {what}."
    severe = WARNING if cut / of >= MUCH_CUT else NOTE
    advice = (
        "shorter texts: the body that was taken has no more positions" if bound else f"--model.context {2 * context}"
    )
    return Finding("cut", 0, severe, words, advice, {"cut": cut, "of": of, "context": context})


def memorised(tokens: int, parameters: int, times: float | None, advise: Advice) -> Finding | None:
    """A language model that sees few tokens over and over. `times`: how often each; None: nobody knows."""
    if not parameters or tokens / parameters >= FEW_TOKENS or times is None or times < MANY_TIMES:
        return None
    words = (
        f"{tokens:,} training tokens stand against {parameters:,} parameters ({tokens / parameters:.2f} each), each "
        f"seen {times:.0f} times: the model can learn them by heart."
    )
    advice = joined(advise.smaller(), advise.shorter(), advise.dropout(), "more text")
    return Finding("few-tokens", 0, NOTE, words, advice, {"tokens": tokens, "parameters": parameters, "times": times})


def repeated(remarks: Sequence[str]) -> Finding | None:
    """What reading the data warned of: above all, examples that are held out and trained on too."""
    warned = [
        remark.removeprefix(WARNS) for remark in remarks if remark.startswith(WARNS) and "also in training" in remark
    ]
    if not warned:
        return None
    words = f"{'; '.join(warned)}: the score on them is too good."
    advice = "take them out of one of the files, or let the parts be split (leave --validation and --test unset)"
    return Finding("repeated", 0, WARNING, words[0].upper() + words[1:], advice, {"remarks": len(warned)})
