"""Compare a training step on one GPU with nanoGPT's and Hugging Face's: tokens/s and memory, compiled, in one run.

    python benchmarks/training_gpu.py [--shape 124M|tiny] [--nanogpt model.py] [--hugging-face] [--tuned] [--steps 120]

model.py is nanoGPT's own, or a module with its GPT and GPTConfig.

- 124M: GPT-2, batches of 64 windows of 1024 tokens
- tiny: the shape of nanoGPT's character-level Shakespeare (6 layers, 6 heads, width 384), batches of 64 windows of 256
"""

import argparse
import importlib.util
import json
import sys
import time
from typing import NamedTuple

import torch
from common import trainer

from glassformer.training.events import Noted, Stepped


class Shape(NamedTuple):
    layers: int
    heads: int
    width: int
    vocab: int
    context: int
    batch: int


SHAPES = {"124M": Shape(12, 12, 768, 50304, 1024, 64), "tiny": Shape(6, 6, 384, 65, 256, 64)}


def ours(shape, steps, **flags):
    marks = []

    def listen(event):
        if isinstance(event, Noted):
            print(event.text, file=sys.stderr)
        if isinstance(event, Stepped):
            torch.cuda.synchronize() if event.step in (steps // 2, steps) else None
            marks.append(time.perf_counter())

    settings = {"model.layers": shape.layers, "model.heads": shape.heads, "model.width": shape.width,
                "model.context": shape.context, "batch_size": shape.batch, "steps": steps, "training.compile": "on",
                "training.validation_tokens": 1}  # fmt: skip
    run = trainer(shape.vocab, "cuda", listen, **{**settings, **flags})
    run._validate = lambda: None
    run.run()
    half = steps // 2
    return (marks[-1] - marks[half - 1]) / (len(marks) - half)


def timed(step, steps):
    """Return the seconds per step, after as many steps for warm-up."""
    for _ in range(steps // 2):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps // 2):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / (steps // 2)


def update_of(model, optimiser, loss_of):
    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def nanogpt(file, shape, steps):
    spec = importlib.util.spec_from_file_location("nanogpt", file)
    peer = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt"] = peer
    spec.loader.exec_module(peer)
    config = peer.GPTConfig(block_size=shape.context, vocab_size=shape.vocab, n_layer=shape.layers,
                            n_head=shape.heads, n_embd=shape.width, dropout=0.0, bias=True)  # fmt: skip
    model = peer.GPT(config).cuda()
    optimiser = model.configure_optimizers(0.1, 6e-4, (0.9, 0.95), "cuda")
    compiled = torch.compile(model)
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.context + 1), device="cuda")
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return timed(update_of(model, optimiser, lambda: compiled(x, y)[1]), steps)


def hugging_face(shape, steps):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=shape.vocab, n_positions=shape.context, n_embd=shape.width, n_layer=shape.layers,
        n_head=shape.heads, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    compiled = torch.compile(lambda ids: model(input_ids=ids, labels=ids).loss)
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.context), device="cuda")
    return timed(update_of(model, optimiser, lambda: compiled(ids)), steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shape", choices=SHAPES, default="124M", help="train a model of this shape (default %(default)s)"
    )
    parser.add_argument("--nanogpt", metavar="model.py", help="measure nanoGPT too, with its model.py")
    parser.add_argument(
        "--hugging-face", action="store_true", help="measure transformers' GPT-2 too, with half the batch"
    )
    parser.add_argument("--tuned", action="store_true", help="measure --training.compile tuned too")
    parser.add_argument(
        "--steps",
        type=int,
        default=120,
        help="train for this many updates, of which the second half is timed (default %(default)s)",
    )
    options = parser.parse_args()
    shape, steps = SHAPES[options.shape], options.steps
    gpt2 = {"style": "gpt2", "optimizer": "adamw"}
    contestants = {
        "glassformer, gpt2 style, AdamW": lambda: ours(shape, steps, **gpt2),
        "glassformer, default parts, Muon": lambda: ours(shape, steps, lr=1e-3),
    }
    if options.nanogpt:
        contestants = {"nanoGPT": lambda: nanogpt(options.nanogpt, shape, steps), **contestants}
    if options.tuned:
        contestants["glassformer, gpt2 style, AdamW, tuned"] = lambda: ours(
            shape, steps, **gpt2, **{"training.compile": "tuned"}
        )
    if options.hugging_face:
        half = shape._replace(batch=shape.batch // 2)  # the whole batch does not fit
        contestants["Hugging Face GPT-2, half the batch"] = lambda: hugging_face(half, steps)
    for name, run in contestants.items():
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        seconds = run()
        batch = shape.batch // 2 if "half" in name else shape.batch
        speed = batch * shape.context / seconds
        row = {"what": name, "ms": round(1000 * seconds, 2), "tokens_per_second": round(speed),
               "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1)}  # fmt: skip
        print(json.dumps({**row, "seconds_in_all": round(time.perf_counter() - began)}), flush=True)


if __name__ == "__main__":
    main()
