"""Compare the memory and communication of one of several processes with `glassformer plan`, on a CPU.

    PYTHONPATH=tests python benchmarks/processes.py [WORLD …]

A language model of 63 million weights, AdamW, float32, 4 windows of 16 tokens; 1, 2 and 4 processes with gloo, each
with the whole model (DDP) or a shard of it (FSDP). Needs 8 GB. Prints MB of the first process:

- tensors: the largest total during the third update
- resident: the peak of the process (ru_maxrss), including Python and torch
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from glassformer.planning.sharding import ALL, COPIED
from glassformer.verbs.plan import plan
from helpers.metered_training import meter_together

VOCAB = 8192
SETTINGS = {"model.layers": 8, "model.width": 768, "model.heads": 12, "model.context": 16, "style": "gpt2",
            "training.batch_size": 4, "training.optimizer": "adamw", "training.precision": "fp32"}  # fmt: skip


def main():
    paper = plan(training_tokens=10**6, gpus=4, vocab_size=VOCAB, **SETTINGS).paper
    for world in map(int, sys.argv[1:] or (1, 2, 4)):
        ways = {way.name: way for way in replace(paper, gpus=world).ways}
        for parallel, name in {"ddp": COPIED, "fsdp": ALL}.items():
            training = {"vocab": VOCAB, "settings": {**SETTINGS, "training.parallel": parallel}}
            with tempfile.TemporaryDirectory() as folder:
                (notes,) = meter_together(world, [training], Path(folder))
            megabytes = {
                "weights, gradients, optimiser": notes.weights + notes.gradients + notes.optimiser,
                "tensors": notes.most,
                "planned": ways[name].total(),
                "resident": notes.resident,
                "exchanged": notes.exchanged,
                "exchange planned": ways[name].exchanged,
            }
            row = {key: round(value / 1e6, 1) for key, value in megabytes.items()}
            print(json.dumps({"processes": world, "parallel": parallel, **row}), flush=True)


if __name__ == "__main__":
    main()
