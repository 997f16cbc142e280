"""What the data shows before the first update: what is lost, repeated or lacking, and how large the classes are."""

from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.families.base import Family, Prepared
from glassformer.families.labelling import LabellingFamily
from glassformer.families.language import StreamFamily
from glassformer.families.predict import texts_in
from glassformer.families.translation import TranslationFamily
from glassformer.finetuning.settings import bound_positions
from glassformer.training.events import NOTE, WARNING, Finding
from glassformer.training.schedule import total_steps

UNKNOWN, MANY_UNKNOWN = 0.05, 0.15
"""Share of tokens that are unknown: a word in twenty, and one in every seven, which leaves few sentences whole."""
CUT, MUCH_CUT = 0.1, 0.5
"""Share of texts whose end is not read."""
FEW_TOKENS, MANY_TIMES = 0.2, 10.0
"""Training tokens for each parameter, and how often each is seen: enough room and time to learn them by heart."""
WARNS = "warning: "
"""How remarks on the data begin that are more than remarks."""
LARGEST, RATIO = 0.8, 20.0
"""Share of the largest class, and how many times it is as large as the smallest: from there on accuracy flatters."""


# --- by family ---


@singledispatch
def data_findings(family: Family, prepared: Prepared, parameters: int, advise: Advice) -> Iterator[Finding | None]:
    """What the parts of a training show. `parameters`: how many are learned."""
    return iter(())


@data_findings.register
def _(family: StreamFamily, prepared: Prepared, parameters: int, advise: Advice) -> Iterator[Finding | None]:
    task = prepared.task
    counts = {name: (part.unknown, len(part.ids)) for name, part in task.parts.items()}
    yield unknown_tokens(_rates(counts), _vocabulary(prepared), advise)
    total = total_steps(advise.config.training, task)
    times = None if total is None else total / task.steps_per_epoch
    yield few_tokens(prepared.tokens["train"], parameters, times, advise)


@data_findings.register
def _(family: TranslationFamily, prepared: Prepared, parameters: int, advise: Advice) -> Iterator[Finding | None]:
    parts = prepared.task.parts
    counts = {name: (sum(part.unknown), len(part.source.ids) + len(part.target.ids)) for name, part in parts.items()}
    yield unknown_tokens(_rates(counts), _vocabulary(prepared), advise)
    cut, dropped = sum(part.cut for part in parts.values()), sum(len(part.dropped) for part in parts.values())
    pairs = sum(len(part) for part in parts.values()) + dropped
    yield truncated_texts(cut or dropped, pairs, advise, dropped=not cut)


@data_findings.register
def _(family: LabellingFamily, prepared: Prepared, parameters: int, advise: Advice) -> Iterator[Finding | None]:
    classes = family.class_counts(prepared.task)
    texts = {name: text for name, part in prepared.task.parts.items() if (text := texts_in(part)) is not None}
    counts = {name: (part.unknown, len(part.ids)) for name, part in texts.items()}
    yield unknown_tokens(_rates(counts), _vocabulary(prepared), advise)
    yield truncated_texts(sum(part.cut for part in texts.values()), sum(map(len, texts.values())), advise)
    yield class_imbalance(list(classes), list(classes.values()), advise)


def _rates(counts: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """The share of unknown tokens in each part. `counts`: of unknown ones, and of all."""
    return {name: some / of for name, (some, of) in counts.items() if of}


def _vocabulary(prepared: Prepared) -> int:
    """How many tokens were learned, of a translation's two tokenizers by the larger."""
    tokenizers = (prepared.tokenizer, prepared.target_tokenizer)
    return max((tokenizer.vocab_size for tokenizer in tokenizers if tokenizer is not None), default=0)


# --- each finding ---


def unknown_tokens(rates: Mapping[str, float], vocab: int, advise: Advice) -> Finding | None:
    """The share of unknown tokens by part, where so many are known."""
    worst = max(rates.values(), default=0.0)
    if worst < UNKNOWN:
        return None
    shares = ", ".join(f"{rate:.1%} of {name}" for name, rate in rates.items())
    never = " None stands in training, so the model never learned what to do with them."
    return Finding(
        "unknown",
        0,
        WARNING if worst >= MANY_UNKNOWN else NOTE,
        words=f"Unknown tokens: {shares}.{'' if rates.get('train') else never}",
        advice=advise.known_tokens(vocab),
        numbers=dict(rates),
    )


def truncated_texts(cut: int, of: int, advise: Advice, *, dropped: bool = False) -> Finding | None:
    """Texts longer than the context, which are cut there, or pairs that are left out."""
    if not of or cut / of < CUT:
        return None
    config, context = advise.config, advise.config.model.context
    bound = config.is_finetuned and bound_positions(config)  # no more can be read
    what = "left out" if dropped else "cut there: their ends are never read"
    return Finding(
        "cut",
        0,
        WARNING if cut / of >= MUCH_CUT else NOTE,
        words=f"{cut:,} of {of:,} texts ({cut / of:.0%}) are longer than {context:,} tokens and {what}.",
        advice="shorter texts: the body that was taken has no more positions"
        if bound
        else f"--model.context {2 * context}",
        numbers={"cut": cut, "of": of, "context": context},
    )


def few_tokens(tokens: int, parameters: int, times: float | None, advise: Advice) -> Finding | None:
    """A language model that sees few tokens over and over. `times`: how often each; None: nobody knows."""
    if not parameters or tokens / parameters >= FEW_TOKENS or times is None or times < MANY_TIMES:
        return None
    return Finding(
        "few-tokens",
        0,
        NOTE,
        words=f"{tokens:,} training tokens stand against {parameters:,} parameters ({tokens / parameters:.2f} each), "
        f"each seen {times:.0f} times: the model can learn them by heart.",
        advice=joined(advise.smaller(), advise.shorter(), advise.dropout(), "more text"),
        numbers={"tokens": tokens, "parameters": parameters, "times": times},
    )


def repeated_examples(remarks: Sequence[str]) -> Finding | None:
    """What reading the data warned of: above all, examples that are held out and trained on too."""
    warned = [
        remark.removeprefix(WARNS) for remark in remarks if remark.startswith(WARNS) and "also in training" in remark
    ]
    if not warned:
        return None
    words = f"{'; '.join(warned)}: the score on them is too good."
    return Finding(
        "repeated",
        0,
        WARNING,
        words[0].upper() + words[1:],
        "take them out of one of the files, or let the parts be split (leave --validation and --test unset)",
        {"remarks": len(warned)},
    )


def class_imbalance(names: Sequence[str], counts: Sequence[int], advise: Advice) -> Finding | None:
    """Classes of very different size. `counts`: of the training part."""
    total = sum(counts)
    if len(names) < 2 or not total:
        return None
    large, small = int(np.argmax(counts)), int(np.argmin(counts))
    share, ratio = counts[large] / total, counts[large] / max(1, counts[small])
    if share < LARGEST and ratio < RATIO:
        return None
    return Finding(
        "imbalance",
        0,
        NOTE,
        words=f"The classes are of very different size: {counts[large]:,} of {total:,} ({share:.0%}) are "
        f"'{names[large]}', {counts[small]:,} are '{names[small]}'. Whoever always says '{names[large]}' is right that "
        "often.",
        advice=joined("judge by macro F1, not by accuracy", advise.balanced(list(counts))),
        numbers={"share": share, "ratio": ratio, "largest": names[large], "smallest": names[small]},
    )
