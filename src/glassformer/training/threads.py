"""The number of CPU threads that compute fastest while other processes use the machine.

On a quiet machine torch's number is kept without measuring, so that a repeated command computes the same bits.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

WINDOW, WINDOWS, QUIET = 0.03, 4, 0.85
"""Seconds of one load measurement and the number of measurements; the machine is quiet if our threads get at least
this share of their cores in one of them."""
ELEMENTS = 2**16
"""Numbers that each thread computes at once during a measurement: about a millisecond of work."""
ROUNDS, ENOUGH = 5, 2.0
"""Maximum number of passes with each number of threads; seconds after which no further round begins."""
SHARE = 0.1
"""Largest part of the whole work that measuring may take."""
GAIN = 1.2
"""Another number must be this many times as fast: sums depend on the number, so a small gain is not worth a change."""
NUMBER_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that let users set the number of threads."""
DEFAULT_THREADS = torch.get_num_threads()
"""The number of threads that torch chose, unless a program changed it before this module was imported."""

Work = Callable[[], None]


def seconds_of(work: Work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def is_busy(threads: int) -> bool:
    """Return whether other processes or a CPU quota keep this number of threads from running at full speed."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        numbers = torch.ones(threads * ELEMENTS)
        results = torch.empty_like(numbers)
        torch.lgamma(numbers, out=results)  # threads begin
        return all(_share_of_cores(threads, numbers, results) < QUIET for _ in range(WINDOWS))
    finally:
        torch.set_num_threads(before)


def _share_of_cores(threads: int, numbers: torch.Tensor, results: torch.Tensor) -> float:
    began, cpu = time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - began) < WINDOW:
        torch.lgamma(numbers, out=results)
    return (time.process_time() - cpu) / (threads * elapsed)


@dataclass(frozen=True)
class ThreadTuner:
    """Measures numbers of threads while the machine is busy. Tests replace its measuring functions."""

    most: int
    """The number that torch chose."""
    is_busy: Callable[[int], bool] = is_busy
    seconds_of: Callable[[Work], float] = seconds_of

    def choose(self, work: Work, whole: Callable[[float], float]) -> int | None:
        """Return the fastest number of threads for `work`; None on a quiet machine or if measuring would take too long.

        `whole` returns the seconds of the whole task from the seconds of one `work`. The number in use is set again.
        """
        if not self.is_busy(self.most):
            return None
        current = torch.get_num_threads()
        counts = sorted({current, *(self.most >> power for power in range(self.most.bit_length()))}, reverse=True)
        first = self.seconds_of(work)  # warms up
        if (1 + len(counts)) * first > SHARE * whole(first):
            return None
        total = dict.fromkeys(counts, 0.0)
        try:
            for _ in range(ROUNDS):  # interleaved, so that each number runs under the same load
                for count in counts:
                    torch.set_num_threads(count)
                    total[count] += self.seconds_of(work)
                if sum(total.values()) >= min(ENOUGH, SHARE * whole(first)):
                    break
        finally:
            torch.set_num_threads(current)
        fastest = min(counts, key=total.__getitem__)
        return fastest if total[current] >= GAIN * total[fastest] else current


def default_tuner() -> ThreadTuner | None:
    """Return a tuner if torch chose the number of threads; None if a user or a program did, or if the number is 1."""
    threads = torch.get_num_threads()
    is_chosen = threads != DEFAULT_THREADS or any(name in os.environ for name in NUMBER_VARIABLES)
    return None if threads == 1 or is_chosen else ThreadTuner(threads)
