"""Looking at many things, some look odd by chance alone; Holm's correction asks more of each."""

from collections.abc import Sequence


def holm(values: Sequence[float]) -> list[float]:
    """p-values, in the order given, such that only 1 in 20 whole lists has one below 0.05 by chance."""
    corrected = [1.0] * len(values)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        worst = max(worst, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = worst
    return corrected
