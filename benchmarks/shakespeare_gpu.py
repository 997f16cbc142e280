"""Measure the seconds from the command to weights on disk with a given loss: tiny Shakespeare, characters, one GPU.

    python benchmarks/shakespeare_gpu.py input.txt [--nanogpt model.py] [--updates 700]

The last tenth is the validation set. The loss to reach is 1.4652, the best of nanoGPT's own recipe. model.py is
nanoGPT's; with --nanogpt its recipe is timed in the same run: 6 layers, 6 heads, width 384, 64 windows of 256, dropout
0.2, AdamW with a rate of 1e-3 after 100 updates, cosine decay over 5,000, validation and a checkpoint every 250. It
stops when the loss is reached.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL = 1.4652
SHAPE = {"layers": 6, "heads": 6, "width": 384, "context": 256, "dropout": 0.2}


def ours(data, updates, folder):
    settings = [part for name, value in SHAPE.items() for part in (f"--model.{name}", str(value))]
    command = [sys.executable, "-m", "glassformer", "train", data, "--tokenizer.kind", "char", "--batch-size", "64",
               "--steps", str(updates), "--training.samples", "false", *settings, "--out", f"{folder}/run"]  # fmt: skip
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    card = json.loads((Path(folder) / "run" / "glassformer.json").read_text())
    print(json.dumps({"what": "glassformer", "loss": card["validation"]["loss"], "seconds": round(seconds, 1)}))


def theirs(data, file, folder):
    import importlib.util

    import torch

    began = time.perf_counter()
    spec = importlib.util.spec_from_file_location("nanogpt", file)
    peer = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt"] = peer
    spec.loader.exec_module(peer)
    torch.manual_seed(1337)
    text = Path(data).read_text()
    ids = {letter: number for number, letter in enumerate(sorted(set(text)))}
    tokens = torch.tensor([ids[letter] for letter in text])
    parts = tokens[: int(0.9 * len(tokens))], tokens[int(0.9 * len(tokens)) :]

    def batch(part):
        starts = torch.randint(len(part) - 256, (64,))
        pairs = [torch.stack([part[i + shift : i + shift + 256] for i in starts]) for shift in (0, 1)]
        return [one.pin_memory().cuda(non_blocking=True) for one in pairs]

    config = peer.GPTConfig(
        block_size=256, vocab_size=len(ids), n_layer=6, n_head=6, n_embd=384, dropout=0.2, bias=False
    )
    model = peer.GPT(config).cuda()
    optimiser = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cuda")
    compiled = torch.compile(model)

    @torch.no_grad()
    def validate():
        model.eval()
        losses = []
        for part in parts:
            with torch.autocast("cuda", torch.bfloat16):
                losses.append(torch.tensor([compiled(*batch(part))[1].item() for _ in range(200)]).mean().item())
        model.train()
        return losses[1]

    for step in range(5001):
        share = max(0, step - 100) / 4900
        rate = 1e-3 * (step + 1) / 101 if step < 100 else 1e-4 + 4.5e-4 * (1 + math.cos(math.pi * share))
        for group in optimiser.param_groups:
            group["lr"] = rate
        if step % 250 == 0:
            loss = validate()
            torch.save({"model": model.state_dict(), "optimizer": optimiser.state_dict()}, f"{folder}/ckpt.pt")
            row = {"what": "nanoGPT", "step": step, "loss": loss, "seconds": round(time.perf_counter() - began, 1)}
            print(json.dumps(row), flush=True)
            if loss <= GOAL:
                return
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(*batch(parts[0]))[1]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="train on this text file")
    parser.add_argument("--nanogpt", metavar="model.py", help="time nanoGPT's recipe too, with its model.py")
    parser.add_argument("--updates", type=int, default=700, help="train for this many updates (default %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours(options.data, options.updates, folder)
        if options.nanogpt:
            theirs(options.data, options.nanogpt, folder)


if __name__ == "__main__":
    main()
