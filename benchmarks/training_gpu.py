"""GPT-2 124M on one GPU: tokens/s and memory of a training step, beside Hugging Face's, compiled, in the same run.

python benchmarks/training_gpu.py [--batch 64] [--steps 40]
"""

import argparse
import json
import time

import torch
from common import trainer

from glassformer.training.events import Stepped

VOCAB, CONTEXT = 50304, 1024


def ours(batch, steps, **flags):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    marks = []

    def listen(event):
        if isinstance(event, Stepped):
            torch.cuda.synchronize() if event.step in (steps // 2, steps) else None
            marks.append(time.perf_counter())

    settings = {"size": "large", "style": "gpt2", "model.context": CONTEXT, "batch_size": batch, "steps": steps,
                "training.compile": "on", "optimizer": "adamw", "training.validation_tokens": 1}  # fmt: skip
    run = trainer(VOCAB, "cuda", listen, **{**settings, **flags})
    run._validate = lambda: None
    run.run()
    half = steps // 2
    seconds = marks[-1] - marks[half - 1]
    return batch * CONTEXT * (len(marks) - half) / seconds, torch.cuda.max_memory_allocated() / 2**30


def theirs(batch, steps):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False
    )
    model = GPT2LMHeadModel(config).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def loss_of(ids):
        return model(input_ids=ids, labels=ids).loss

    compiled = torch.compile(loss_of)
    ids = torch.randint(0, VOCAB, (batch, CONTEXT), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    for _ in range(steps // 2):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps // 2):
        step()
    torch.cuda.synchronize()
    return batch * CONTEXT * (steps // 2) / (time.perf_counter() - began), torch.cuda.max_memory_allocated() / 2**30


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    contestants = {
        "glassformer large gpt2, AdamW": lambda: ours(options.batch, options.steps),
        "Hugging Face GPT-2, AdamW, batch 32": lambda: theirs(32, options.steps),
        "glassformer large gpt2, AdamW, tuned": lambda: ours(
            options.batch, options.steps, **{"training.compile": "tuned"}
        ),
        "glassformer large, Muon": lambda: ours(options.batch, options.steps, optimizer="muon", style="llama"),
    }
    for name, run in contestants.items():
        began = time.perf_counter()
        torch._dynamo.reset()
        speed, memory = run()
        row = {"what": name, "tokens_per_second": round(speed), "GiB": round(memory, 1)}
        print(json.dumps({**row, "seconds_in_all": round(time.perf_counter() - began)}), flush=True)


if __name__ == "__main__":
    main()
