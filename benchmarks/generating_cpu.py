"""Writing on the CPU with real weights: our `generate`, and Hugging Face's with its cache, on SmolLM2 in fp32.

python benchmarks/generating_cpu.py SmolLM2.gguf [--tokens 128] [--rounds 5] [--threads 2]

The GGUF file is imported, and the run exported for transformers: both have the same weights, and must write the same.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import torch
from common import alternating
from transformers import AutoModelForCausalLM

import glassformer as gf
from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import GREEDY

PROMPT = "Once upon a time, in a small village by the sea,"


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as place:
        run = gf.import_model(options.file, Path(place, "run"))
        ours = gf.load(run, "cpu")
        gf.export(ours, to="hf", folder=Path(place, "hf"))
        theirs = AutoModelForCausalLM.from_pretrained(Path(place, "hf"), dtype=torch.float32).eval()
    tokenizer = ours.tokenizer
    prompt = [*tokenizer.roles.opening, *tokenizer.encode(PROMPT)]
    never = tokenizer.never(ours.model.head.out_features)
    ids = torch.tensor([prompt])

    def we():
        written = generate(ours.model, [prompt], GREEDY, most=options.tokens, never=never)
        return [token for (token,) in written]

    def they():
        found = theirs.generate(ids, attention_mask=torch.ones_like(ids), min_new_tokens=options.tokens,
                                max_new_tokens=options.tokens, do_sample=False)  # fmt: skip
        return found[0, len(prompt) :].tolist()

    same = sum(a == b for a, b in zip(we(), they(), strict=True))
    seconds = alternating({"glassformer": we, "Hugging Face": they}, options.rounds)
    print(f"{torch.get_num_threads()} threads, batch 1, {options.tokens} tokens; {same} of them the same")
    for name, value in seconds.items():
        ratio = seconds["Hugging Face"] / value
        print(f"{name:14} {options.tokens / value:8.1f} tokens/s   {ratio:5.2f} × Hugging Face")


if __name__ == "__main__":
    main()
