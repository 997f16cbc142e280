"""FSDP on one GPU: overhead of sharding, cost of asynchronous checkpoints, and a model of three billion weights.

    python benchmarks/sharded_gpu.py [step|checkpoints|large …]

- step: GPT-2's shape (124M), batches of 64 windows of 1024 tokens, compiled, next to a plain compiled step. Neither
  records the whole step as a CUDA graph.
- checkpoints: the same, with a checkpoint every 200 updates.
- large: 3 billion weights, AdamW, each block recomputed in the backward pass.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from common import random_tokens

from glassformer.config.resolve import resolve
from glassformer.models.build import build_language_model, parameter_count
from glassformer.runs.run import Run
from glassformer.tasks.language_model import LanguageModelling
from glassformer.training.checkpointer import Checkpointer, RunCheckpointer
from glassformer.training.context import TrainerOptions
from glassformer.training.distributed.processes import Processes
from glassformer.training.events import Noted, Stepped
from glassformer.training.loop import Trainer

GPT2 = {"model.layers": 12, "model.heads": 12, "model.width": 768, "model.context": 1024, "batch_size": 64,
        "style": "gpt2", "optimizer": "adamw", "training.compile": "on", "vocab": 50304}  # fmt: skip
LARGE = {"model.layers": 32, "model.heads": 22, "model.width": 2816, "model.context": 2048, "batch_size": 16,
         "style": "gpt2", "optimizer": "adamw", "training.compile": "off", "training.recompute": True,
         "vocab": 50304}  # fmt: skip


def seconds_of(steps, checkpointer=None, **flags):
    """Return the seconds per step in the second half, the number of weights, and the peak memory in GiB."""
    vocab = flags.pop("vocab")
    config = resolve({}, {"training.validate_every": 10**9, "steps": steps, "training.validation_tokens": 1, **flags})
    parts = {"train": random_tokens(3_000_000, vocab), "validation": random_tokens(5_000, vocab, 1)}
    batch = config.training.batch_size
    task = LanguageModelling(parts, context=config.model.context, batch_size=batch, start=1, seed=0)
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = build_language_model(config.model, vocab=vocab)
    marks = {}

    def listen(event):
        if isinstance(event, Noted):
            print(event.text, file=sys.stderr)
        if isinstance(event, Stepped) and event.step in (steps // 2, steps):
            torch.cuda.synchronize()
            marks[event.step] = time.perf_counter()

    options = TrainerOptions(torch.device("cuda", 0), listen=listen, checkpointer=checkpointer or Checkpointer())
    trainer = Trainer(model, task, config.training, options)
    trainer.step.recorder = None
    trainer._validate = lambda: None
    trainer.run()
    seconds = (marks[steps] - marks[steps // 2]) / (steps - steps // 2)
    return seconds, parameter_count(model), round(torch.cuda.max_memory_allocated() / 2**30, 1)


def say(what, seconds, tokens, memory, **more):
    row = {"what": what, "ms": round(1000 * seconds, 2), "tokens_per_second": round(tokens / seconds), "GiB": memory}
    print(json.dumps({**row, **more}), flush=True)


def step():
    for _ in range(2):
        times = {}
        for parallel in ("ddp", "fsdp"):
            times[parallel], _, memory = seconds_of(80, **GPT2, **{"training.parallel": parallel})
            name = "plain step" if parallel == "ddp" else "FSDP"
            say(f"124M, {name}", times[parallel], 64 * 1024, memory, ratio=round(times[parallel] / times["ddp"], 4))


def checkpoints():
    plain, _, memory = seconds_of(800, **GPT2, **{"training.parallel": "fsdp"})
    say("124M, FSDP, no checkpoints", plain, 64 * 1024, memory)
    with tempfile.TemporaryDirectory() as folder:
        keep = RunCheckpointer(Run(Path(folder)), keep=2)
        seconds, _, memory = seconds_of(
            800, keep, **GPT2, **{"training.parallel": "fsdp", "training.checkpoint_every": 200}
        )
        written = sorted(path.name for path in (Path(folder) / "checkpoints").iterdir())
    say("124M, FSDP, one every 200 updates", seconds, 64 * 1024, memory, ratio=round(seconds / plain, 4), kept=written)


def large():
    seconds, size, memory = seconds_of(12, **LARGE, **{"training.parallel": "fsdp"})
    say(f"{size / 1e9:.2f} billion weights, FSDP, recompute", seconds, 16 * 2048, memory)


def main():
    processes = Processes()
    processes.join(torch.device("cuda", 0), alone=True)
    for name in sys.argv[1:] or ("step", "checkpoints", "large"):
        {"step": step, "checkpoints": checkpoints, "large": large}[name]()
    processes.leave()


if __name__ == "__main__":
    main()
