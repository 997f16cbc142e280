"""`glassformer …` in which a training sends itself a signal: python signalled.py STEP SIGNAL RANK …

Right after that step, in the process of that rank: so nothing depends on who is faster, the training or who watches it.
"""

import os
import sys

from glassformer.cli.main import main
from glassformer.training.loop import Trainer

if __name__ == "__main__":
    last, number, rank = map(int, sys.argv[1:4])
    make_step = Trainer._step

    def step(trainer: Trainer, asked: bool) -> bool:
        asked = make_step(trainer, asked)
        if (trainer.context.progress.step, trainer.context.options.processes.rank) == (last, rank):
            os.kill(os.getpid(), number)
        return asked

    Trainer._step = step  # type: ignore[method-assign]
    sys.exit(main(sys.argv[4:]))
