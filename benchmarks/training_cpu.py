"""Compare a training step on the CPU with Hugging Face's GPT-2 of the same shape, in alternating rounds.

python benchmarks/training_cpu.py [--rounds 60] [--compiled]
"""

import argparse

import torch
from common import alternating, trainer
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB, CONTEXT, BATCH = 65, 64, 12
SHAPE = {"model.context": CONTEXT, "batch_size": BATCH, "steps": 10**6, "size": "tiny", "training.compile": "off"}


def ours(**flags):
    made = trainer(VOCAB, "cpu", **SHAPE | flags)
    made.done = 0.0
    return made._step


def hugging_face():
    config = GPT2Config(vocab_size=VOCAB, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4, resid_pdrop=0,
                        embd_pdrop=0, attn_pdrop=0, use_cache=False)  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ids = torch.randint(0, VOCAB, (BATCH, CONTEXT))

    def step():
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="repeat each measurement (default %(default)s)")
    parser.add_argument("--compiled", action="store_true", help="measure a compiled step too")
    options = parser.parse_args()
    contestants = {
        "Hugging Face GPT-2, AdamW": hugging_face(),
        "glassformer gpt2 style, AdamW": ours(style="gpt2", optimizer="adamw"),
        "glassformer default, AdamW": ours(optimizer="adamw"),
        "glassformer default, Muon": ours(),
        "glassformer lstm, Muon": ours(model="lstm"),
    }
    if options.compiled:
        contestants["glassformer default, Muon, compiled"] = ours(**{"training.compile": "on"})
    alternating(contestants, 5)
    seconds = alternating(contestants, options.rounds)
    reference = seconds["Hugging Face GPT-2, AdamW"]
    print(f"{torch.get_num_threads()} threads, {BATCH}×{CONTEXT} tokens, tiny (4 layers, 4 heads, width 128)")
    for name, value in seconds.items():
        print(f"{name:35} {1000 * value:7.1f} ms   {value / reference:5.2f} × Hugging Face")


if __name__ == "__main__":
    main()
