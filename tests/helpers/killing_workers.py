"""Workers of torchrun, killed again and again: as they start, as they train, as they write, as they end."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from helpers.running import steps_saved, wait_for

STARTS, TRAINS, WRITES, ENDS = "as it starts", "as it trains", "as shards are written", "as it ends"
"""The kinds of moments to be killed at."""


def workers_of(agent: int) -> set[int]:
    """The processes that torchrun has started, and that are at work."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return {int(child) for child in children if _state(int(child)) not in ("Z", "")}


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class WorkerKiller:
    """Kills one worker at a time, at a moment of a kind that is drawn; counts how often it did, by kind."""

    def __init__(self, agent: "subprocess.Popen[str]", run: Path, world: int, steps: int) -> None:
        self.agent, self.run, self.world, self.steps = agent, run, world, steps
        self.random = Random(0)
        self.kills: Counter[str] = Counter()
        self._dead: set[int] = set()
        """The workers of all groups in which one was killed."""
        self._startup = 1.0
        """Seconds from a group's start to its first checkpoint, the last time that one was awaited."""

    def kill(self, moment: str) -> None:
        """One worker of the next group, at this moment of its life."""
        self._wait(lambda: len(self._group()) == self.world)
        group, began, saved = self._group(), time.monotonic(), self._saved()
        if moment == STARTS:
            time.sleep(self._startup * self.random.random())
        elif moment == ENDS:
            self._wait(lambda: self._saved() == self.steps)
        else:
            self._wait(lambda: self._saved() > saved)
            self._startup = time.monotonic() - began
            if moment == TRAINS:
                later = saved + self.random.randint(10, 30)
                self._wait(lambda: self._saved() > later)
            else:
                self._wait(lambda: bool(list((self.run / "checkpoints").glob(".step-*.part/*"))))
        os.kill(self.random.choice(sorted(group)), signal.SIGKILL)
        self.kills[moment] += 1
        self._dead |= group

    def _group(self) -> set[int]:
        return workers_of(self.agent.pid) - self._dead

    def _saved(self) -> int:
        return max(steps_saved(self.run), default=0) if self.run.exists() else 0

    def _wait(self, true: Callable[[], bool]) -> None:
        wait_for(true, self.agent)
