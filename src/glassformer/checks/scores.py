"""Scores that must not depend on what stands beside an example, nor on being looked at."""

from collections.abc import Sequence

import torch

from glassformer.checks.result import DoesNotApply, Found
from glassformer.checks.subject import Example, Subject, apart
from glassformer.inspection.capture import capture

TOGETHER = 4
MORE = 3
"""Columns of padding beyond the longest row."""


@torch.inference_mode()
def batched(subject: Subject) -> Found:
    """Examples of one length, together and one by one."""
    examples = _alike(subject)
    batch = subject.together(examples)
    difference = apart(subject.each(examples), subject.rows(batch, examples))
    return Found(difference, f"the scores of {len(examples)} examples{_of(subject, examples)}, together and alone")


def _alike(subject: Subject) -> list[Example]:
    """Some examples, cut to one length."""
    ranked = sorted(subject.examples, key=subject.lengths, reverse=True)[:TOGETHER]
    lengths = [min(several) for several in zip(*map(subject.lengths, ranked), strict=True)]
    return [subject.cut(example, lengths) for example in ranked]


def _of(subject: Subject, examples: Sequence[Example]) -> str:
    return f" of {subject.lengths(examples[0])[0]} tokens" if subject.places else ""


@torch.inference_mode()
def padded(subject: Subject) -> Found:
    """Examples of different lengths, together and one by one."""
    if not subject.places:
        raise DoesNotApply("its examples are all of one length")
    count = len(subject.examples)
    examples = [
        subject.cut(example, [max(1, length * (count - number) // count) for length in subject.lengths(example)])
        for number, example in enumerate(subject.examples)
    ]
    batch = subject.together(examples, more=MORE)
    lengths = [subject.lengths(example)[0] for example in examples]
    return Found(
        apart(subject.each(examples), subject.rows(batch, examples)),
        f"the scores of {count} examples of {min(lengths)} to {max(lengths)} tokens, padded and alone",
    )


@torch.inference_mode()
def looked_at(subject: Subject) -> Found:
    """Before a capture, in it, and after it; all that it can show is asked for."""
    before = subject.each()
    with capture(subject.model) as seen:
        during = subject.each()
        names = list(seen)
        for name in names:
            seen[name]
        again = subject.each()
    after = subject.each()
    difference = max(apart(before, scores) for scores in (during, again, after))
    return Found(difference, f"scores before, under and after a capture of {len(names)} tensors")
