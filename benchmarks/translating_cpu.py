"""A beam of 5 on the CPU: our encoder–decoder Transformer, and Hugging Face's `generate` on a Marian of its shape.

    python benchmarks/translating_cpu.py [--sentences 1000] [--tokens 20] [--rounds 3] [--run RUN --file source.txt]

Neither has learned anything, and neither may end: every sentence is translated into as many tokens, so that both do
the same work. Batches are the same, sorted by length. With `--run`, a translator of your own is timed too, on real
sentences that end where they end.
"""

import argparse
import random
import time
import warnings

import torch
from common import alternating
from transformers import MarianConfig, MarianMTModel

from glassformer.config.resolve import resolve
from glassformer.decoding.beam import beam_search
from glassformer.families.load import load_for
from glassformer.models.build import build_seq2seq

VOCAB, LAYERS, WIDTH, HEADS = 8000, 4, 192, 4
BEAM, TOGETHER = 5, 64


def ours(**flags):
    shape = {"model.layers": LAYERS, "model.width": WIDTH, "model.heads": HEADS, "model.context": 128}
    settings = resolve({}, {"task": "translation", **shape, **flags}).model
    torch.manual_seed(1)
    model = build_seq2seq(settings, source_vocab=VOCAB, target_vocab=VOCAB).eval()
    for weight in model.parameters():  # as they start, all words score alike
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.08)
    return model, settings.hidden


def theirs(hidden):
    config = MarianConfig(
        vocab_size=VOCAB, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=hidden, decoder_ffn_dim=hidden, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=1, bos_token_id=1, forced_eos_token_id=None, max_position_embeddings=128,
        scale_embedding=True,
    )  # fmt: skip
    return MarianMTModel(config).eval()


def batches(count, seed=0):
    """Sentences as long as captions are, sorted, so that little is padded."""
    draw = random.Random(seed)
    lengths = sorted(max(4, round(draw.gauss(15, 5))) for _ in range(count))
    for first in range(0, count, TOGETHER):
        some = lengths[first : first + TOGETHER]
        ids = torch.tensor([[draw.randrange(4, VOCAB) if at < size else 0 for at in range(max(some))] for size in some])
        yield ids, torch.arange(max(some)) < torch.tensor(some).unsqueeze(1)


@torch.inference_mode()
def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run")
    parser.add_argument("--file")
    options = parser.parse_args()
    work = list(batches(options.sentences))
    default, _ = ours()
    classic, classic_hidden = ours(style="classic")
    marian = theirs(classic_hidden)

    def search(model):
        for ids, mask in work:
            most = [options.tokens] * len(ids)
            found = beam_search(model, ids, mask, beam=BEAM, most=most, opening=[1], end=2, never=[0, 1, 2, 3])
            assert all(len(best[0].ids) == options.tokens for best in found)

    def generate():
        for ids, mask in work:
            found = marian.generate(
                ids, attention_mask=mask.long(), num_beams=BEAM, min_new_tokens=options.tokens,
                max_new_tokens=options.tokens, do_sample=False, bad_words_ids=[[0], [1], [3]],
            )  # fmt: skip
            assert found.shape[1] == options.tokens + 1

    contestants = {
        "glassformer, default parts": lambda: search(default),
        "glassformer, classic": lambda: search(classic),
        "Hugging Face, Marian": generate,
    }
    print(
        f"{torch.get_num_threads()} threads, {options.sentences} sentences, beam {BEAM}, {options.tokens} tokens each"
    )
    seconds = alternating(contestants, options.rounds)
    for name, value in seconds.items():
        ratio = seconds["Hugging Face, Marian"] / value
        print(f"{name:28} {options.sentences / value:7.1f} sentences/s   {ratio:.2f} × Marian")
    if options.run:
        with open(options.file, encoding="utf-8") as file:
            texts = [line.strip() for line in file][: options.sentences]
        loaded = load_for("translate", options.run, "cpu")
        began = time.perf_counter()
        loaded.translate(texts, beam=BEAM)
        print(f"{options.run}: {len(texts) / (time.perf_counter() - began):.1f} sentences/s")


if __name__ == "__main__":
    main()
