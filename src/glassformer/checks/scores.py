"""Scores that must not depend on what stands beside an example, nor on being looked at."""

import torch

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.checks.subject import Subject, relative_difference
from glassformer.inspection.capture import capture

TOGETHER = 4
MORE = 3
"""Columns of padding beyond the longest row."""


@torch.inference_mode()
def check_batched(subject: Subject) -> Deviation:
    """Examples that are cut to one length, together and one by one."""
    longest = sorted(subject.calls, key=subject.lengths, reverse=True)[:TOGETHER]
    lengths = [min(several) for several in zip(*map(subject.lengths, longest), strict=True)]
    calls = [subject.truncate(call, lengths) for call in longest]
    difference = relative_difference(subject.scores(calls), subject.batch_scores(subject.batch(calls), calls))
    of = f" of {lengths[0]} tokens" if lengths else ""
    return Deviation(difference, f"the scores of {len(calls)} examples{of}, together and alone")


@torch.inference_mode()
def check_padded(subject: Subject) -> Deviation:
    """Examples of different lengths, together and one by one."""
    if not subject.token_places:
        raise DoesNotApply("its examples are all of one length")
    count = len(subject.calls)
    calls = [
        subject.truncate(call, [max(1, length * (count - number) // count) for length in subject.lengths(call)])
        for number, call in enumerate(subject.calls)
    ]
    batch = subject.batch(calls, more=MORE)
    lengths = [subject.lengths(call)[0] for call in calls]
    return Deviation(
        relative_difference(subject.scores(calls), subject.batch_scores(batch, calls)),
        f"the scores of {count} examples of {min(lengths)} to {max(lengths)} tokens, padded and alone",
    )


@torch.inference_mode()
def check_looked_at(subject: Subject) -> Deviation:
    """Before a capture, in it, and after it; all that it can show is asked for."""
    before = subject.scores()
    with capture(subject.model) as seen:
        during = subject.scores()
        names = list(seen)
        for name in names:
            seen[name]
        again = subject.scores()
    after = subject.scores()
    difference = max(relative_difference(before, scores) for scores in (during, again, after))
    return Deviation(difference, f"scores before, under and after a capture of {len(names)} tensors")
