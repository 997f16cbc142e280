"""Compare the memory of a training step by `glassformer plan` with torch's record of the real loop, on a CPU.

OMP_NUM_THREADS=1 PYTHONPATH=tests/verbs:tests python benchmarks/plan_memory.py [NAME …]
"""

import sys
import time
from functools import partial

import torch
from profiled import most_of_training

from glassformer.config.resolve import flatten
from glassformer.planning.setup import from_data
from glassformer.planning.training_step import Step, StepDevice, has_recurrent_layers, measure_step_memory, step_memory

CPU = torch.device("cpu")
WRITING, TEXTS, PAIRS = "docstrings", "opinions:rows=400", "dates:rows=400"
CASES = {
    **{f"writes-{name}": (WRITING, {"model": name}) for name in ("average", "window", "cnn", "rnn", "lstm", "gru")},
    "writes-transformer": (WRITING, {"model": "transformer"}),
    "writes-gpt2-dropout": (WRITING, {"model": "transformer:gpt2", "dropout": 0.1}),
    "writes-in-4-pieces": (WRITING, {"model": "transformer", "training.accumulation_steps": 4, "optimizer": "adamw"}),
    **{f"reads-{name}": (TEXTS, {"model": name}) for name in ("bag", "average", "window", "cnn", "transformer")},
    **{f"reads-{name}": (TEXTS, {"model": name}) for name in ("rnn", "lstm", "gru", "bilstm")},
    **{f"translates-{name}": (PAIRS, {"model": name}) for name in ("transformer", "lstm", "gru")},
    **{f"sees-{name}": ("digits", {"model": name}) for name in ("transformer", "cnn", "mlp", "linear")},
}


def main():
    print(f"{'model':22} {'plan, MB':>9} {'held, MB':>9} {'ratio':>6} {'seconds':>8}")
    for name, (data, settings) in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        planned = from_data(flatten({"data.path": data, **settings}), None, gpus=None)
        task, training = planned.task, planned.config.training
        model = planned.model()
        find = measure_step_memory if has_recurrent_layers(model) else step_memory
        piece = planned.rows(-(-planned.batch // training.accumulation_steps))
        build = partial(planned.build, planned.config)
        began = time.perf_counter()
        found = find(Step(build, task, piece, training, StepDevice(CPU, "fp32"), training.accumulation_steps))
        seconds = time.perf_counter() - began
        batch = max((task.batch(step) for step in range(64)), key=lambda one: sum(t.numel() for t in one.tensors(CPU)))
        held = most_of_training(model, task, batch, training)
        said = found.peak - found.weights - found.average
        print(f"{name:22} {said / 1e6:9.2f} {held / 1e6:9.2f} {said / held:6.3f} {seconds:8.2f}", flush=True)


if __name__ == "__main__":
    main()
