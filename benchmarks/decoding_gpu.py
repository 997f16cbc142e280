"""Decoding on a CUDA GPU: bf16, random weights, 256 tokens after a prompt of 32.

    python benchmarks/decoding_gpu.py [--plain FILE] [--hugging-face]

FILE is a Python file with a function `measure(layers, heads, width, batch)` that returns the tokens/s of a direct
implementation. --hugging-face adds transformers' GPT-2 with a static cache, in the same run.

Each step reads all weights. So next to tokens/s, this prints the rate at which weights are read, relative to the
bytes/s of a memory copy.
"""

import argparse
import gc
import importlib.util
import json
import time

import torch

from glassformer.config.messages import listening
from glassformer.config.resolve import resolve
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import Request, RunningBatch
from glassformer.models.build import build_language_model, parameter_count

VOCAB, CONTEXT, PROMPT, TOKENS = 50304, 1024, 32, 256
SHAPES = {"124M": (12, 12, 768), "1.5B": (48, 25, 1600)}


def copied_bytes_per_second():
    data = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    twin = torch.empty_like(data)
    began = torch.cuda.Event(enable_timing=True)
    ended = torch.cuda.Event(enable_timing=True)
    twin.copy_(data)
    began.record()
    for _ in range(5):
        twin.copy_(data)
    ended.record()
    torch.cuda.synchronize()
    return 5 * 2 * data.numel() / (began.elapsed_time(ended) / 1000)


def best_of(run, times=3):
    """Return the tokens/s of the fastest of several runs, after one run for warm-up."""
    speeds = []
    for _ in range(times + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        tokens = run()
        torch.cuda.synchronize()
        speeds.append(tokens / (time.perf_counter() - began))
    return max(speeds[1:])


def ours(shape, batch, **flags):
    layers, heads, width = shape
    settings = {"model.layers": layers, "model.heads": heads, "model.width": width, "model.context": CONTEXT, **flags}
    model = build_language_model(resolve({}, settings).model, vocab=VOCAB).eval().cuda().bfloat16()
    with listening(print):
        running = RunningBatch(model, batch, CONTEXT)
    prompt = torch.randint(4, VOCAB, (PROMPT,)).tolist()

    def run():
        running.join({row: Request(prompt, Sampling(top_k=50), TOKENS, seed=row) for row in range(batch)})
        count = 0
        while written := running.step():
            count += len(written)
        return count

    return best_of(run), 2 * parameter_count(model)


def hugging_face(shape, batch):
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, heads, width = shape
    config = GPT2Config(vocab_size=VOCAB, n_positions=CONTEXT, n_embd=width, n_layer=layers, n_head=heads)
    model = GPT2LMHeadModel(config).eval().cuda().bfloat16()
    ids = torch.randint(4, VOCAB, (batch, PROMPT), device="cuda")
    how = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": True, "top_k": 50, "pad_token_id": 0}

    def run():
        model.generate(ids, attention_mask=torch.ones_like(ids), cache_implementation="static", **how)
        return batch * TOKENS

    return best_of(run, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", help="measure this file's direct implementation too")
    parser.add_argument("--hugging-face", action="store_true", help="measure transformers' GPT-2 too")
    options = parser.parse_args()
    copied = copied_bytes_per_second()
    for name, batch in (("124M", 1), ("124M", 64), ("1.5B", 1)):
        row = {"model": name, "batch": batch}
        for style in ({"style": "gpt2"}, {}):
            speed, weights = ours(SHAPES[name], batch, **style)
            key = style.get("style", "default")
            row[key] = round(speed)
            row[f"{key}, part of a copy's bytes/s"] = round(weights * speed / batch / copied, 3)
            gc.collect()
            torch.cuda.empty_cache()
        if options.plain:
            spec = importlib.util.spec_from_file_location("plain", options.plain)
            plain = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(plain)
            torch._dynamo.reset()
            row["plain"] = round(plain.measure(*SHAPES[name], batch))
            row["gpt2 / plain"] = round(row["gpt2"] / row["plain"], 2)
        if options.hugging_face:
            row["Hugging Face, static cache"] = round(hugging_face(SHAPES[name], batch))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
