"""What torchrun starts: the same processes make several trainings, one after the other.

Its argument is a file of JSON: a list of {"data": …, "out": …, "settings": {…}}; without data, the run there goes on.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from glassformer.verbs.train import train


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trainings: list[dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text())
    for training in trainings:
        data = training["data"]
        train(data, out=training["out"], resume=data is None, **training["settings"])
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
