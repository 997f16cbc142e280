"""Decoding on the CPU: with state, by recomputing the past, and by Hugging Face's GPT-2 `generate` with its cache.

    python benchmarks/decoding_cpu.py [--tokens 512] [--rounds 3]

All models have the same shape and random weights. Checks that both of our methods generate the same tokens.
"""

import argparse
import warnings

import torch
from common import alternating
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer.config.resolve import resolve
from glassformer.decoding.running import generate
from glassformer.decoding.sampling import GREEDY
from glassformer.models.build import build_language_model

VOCAB, CONTEXT = 4096, 513


def ours(**flags):
    settings = resolve({}, {"size": "tiny", "model.context": CONTEXT, **flags}).model
    model = build_language_model(settings, vocab=VOCAB).eval()
    torch.manual_seed(1)
    for weight in model.parameters():  # with the initial weights, the model repeats one token
        torch.nn.init.normal_(weight, std=0.08)
    return model


@torch.inference_mode()
def recomputing(model, ids, count):
    ids = list(ids)
    for _ in range(count):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    return ids


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512, help="generate this many tokens (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="repeat each measurement (default %(default)s)")
    options = parser.parse_args()
    config = GPT2Config(vocab_size=VOCAB, n_positions=1024, n_embd=128, n_layer=4, n_head=4, bos_token_id=1,
                        eos_token_id=None)  # fmt: skip
    theirs = GPT2LMHeadModel(config).eval()
    models = {"default": ours(), "gpt2 style": ours(style="gpt2"), "lstm": ours(model="lstm")}

    def with_state(model):
        return [token for (token,) in generate(model, [[1]], GREEDY, max_tokens=options.tokens)]

    for model in models.values():
        assert [1, *with_state(model)] == recomputing(model, [1], options.tokens), "the tokens differ"
    contestants = {f"with state, {name}": lambda model=model: with_state(model) for name, model in models.items()}
    contestants["recomputing the past, default"] = lambda: recomputing(models["default"], [1], options.tokens)
    contestants["Hugging Face GPT-2, with cache"] = lambda: theirs.generate(
        torch.tensor([[1]]), attention_mask=torch.ones(1, 1, dtype=torch.long), max_new_tokens=options.tokens,
        do_sample=False, pad_token_id=0,
    )  # fmt: skip
    alternating(contestants, 1)
    seconds = alternating(contestants, options.rounds)
    reference = seconds["Hugging Face GPT-2, with cache"]
    print(f"{torch.get_num_threads()} threads, batch 1, tiny, {options.tokens} tokens; tokens of both ways are equal")
    for name, value in seconds.items():
        print(f"{name:34} {options.tokens / value:8.0f} tokens/s   {reference / value:5.2f} × Hugging Face")


if __name__ == "__main__":
    main()
