"""Translation on the CPU: our encoder–decoder models next to Hugging Face's Marian of the same shape.

    python benchmarks/translating_cpu.py [--sentences 1000] [--tokens 20] [--rounds 3] [--run RUN --file source.txt]
    python benchmarks/translating_cpu.py --train train.tsv --validation val.tsv [--pairs 20000] [--minutes 2] [--seed 0]

Decoding, with a beam of 5: neither model is trained, and neither may end a sentence. Every sentence is translated into
the same number of tokens, so that both do the same work. Both get the same batches, sorted by length. With `--run`, a
trained translator is also timed, on real sentences that may end.

Training, with `--train`: BLEU of greedy translations after the same minutes of CPU time on one thread, which other
processes change little. Our models use their default settings, and their minutes include reading, training the
tokenizer and validating. Marian's minutes are updates only. It has the size, tokens, batches, dropout and label
smoothing of our Transformer, and AdamW with warm-up and cosine decay.
"""

import argparse
import itertools
import math
import random
import tempfile
import time
import warnings
from pathlib import Path

import torch
from common import alternating
from transformers import MarianConfig, MarianMTModel

import glassformer as gf
from glassformer.config.resolve import resolve
from glassformer.decoding.beam import Marks, beam_search
from glassformer.decoding.options import Search
from glassformer.families.build import prepare_again
from glassformer.families.load import load_for
from glassformer.models.build import build_seq2seq, parameter_count
from glassformer.runs.run import Run
from glassformer.tasks.translation import NOTHING, text_scores

VOCAB, LAYERS, WIDTH, HEADS = 8000, 4, 192, 4
BEAM, TOGETHER = 5, 64
WARM_UP = 0.1
"""Share of the minutes over which Marian's learning rate rises."""


def ours(**flags):
    shape = {"model.layers": LAYERS, "model.width": WIDTH, "model.heads": HEADS, "model.context": 128}
    settings = resolve({}, {"task": "translation", **shape, **flags}).model
    torch.manual_seed(1)
    model = build_seq2seq(settings, source_vocab=VOCAB, target_vocab=VOCAB).eval()
    for weight in model.parameters():  # with the initial weights, all tokens have the same score
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.08)
    return model, settings.hidden


def theirs(hidden, *, vocab=VOCAB, width=WIDTH, layers=LAYERS, heads=HEADS, pad=0, start=1, end=2, **more):
    config = MarianConfig(
        vocab_size=vocab, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=hidden, decoder_ffn_dim=hidden, pad_token_id=pad,
        eos_token_id=end, decoder_start_token_id=start, bos_token_id=start, forced_eos_token_id=None,
        max_position_embeddings=128, scale_embedding=True, **more,
    )  # fmt: skip
    return MarianMTModel(config).eval()


def batches(count, seed=0):
    """Yield batches of random sentences as long as captions, sorted by length to reduce padding."""
    draw = random.Random(seed)
    lengths = sorted(max(4, round(draw.gauss(15, 5))) for _ in range(count))
    for first in range(0, count, TOGETHER):
        some = lengths[first : first + TOGETHER]
        ids = torch.tensor([[draw.randrange(4, VOCAB) if at < size else 0 for at in range(max(some))] for size in some])
        yield ids, torch.arange(max(some)) < torch.tensor(some).unsqueeze(1)


def cpu_clock():
    """Return a function that returns the CPU seconds since this call."""
    began = time.process_time()
    return lambda: time.process_time() - began


def train_ours(model, data, options):
    """Train one of our models with its default settings. Return the run, its updates, its size and its BLEU."""
    run = gf.train(
        str(data), validation=options.validation, out=data.parent / model, model=model, minutes=options.minutes,
        seed=options.seed, clock=cpu_clock(), device="cpu", draft=True, **{"training.threads": 1},
    )  # fmt: skip
    loaded, pairs = load_for("translate", run.run, "cpu"), read_pairs(options.validation)
    outputs = [translation.text for translation in loaded.translate([source for source, _ in pairs], beam=1)]
    return run.run, run.steps, run.parameters, bleu(outputs, pairs)


def train_marian(run, options):
    """Train a Marian with the shape, tokens and batches of a run of ours. Return its updates, its size and its BLEU."""
    loaded = load_for("translate", run, "cpu")
    model, tokenizer, task = loaded.config.model, loaded.tokenizer, prepare_again(Run.open(run)).task
    torch.manual_seed(options.seed)
    marian = theirs(
        4 * model.width, vocab=tokenizer.vocab_size, width=model.width, layers=model.layers, heads=model.heads,
        pad=tokenizer.roles.pad, start=tokenizer.roles.start, end=tokenizer.roles.end, dropout=model.dropout,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(marian.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    clock = cpu_clock()
    for step in itertools.count():
        if (done := clock() / (60 * options.minutes)) >= 1:
            break
        optimizer.param_groups[0]["lr"] = options.rate * min(done / WARM_UP, (1 + math.cos(math.pi * done)) / 2)
        source, mask, target, answers = task.batch(step).tensors(torch.device("cpu"))
        logits = marian(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), answers.flatten(), ignore_index=NOTHING, label_smoothing=task.smoothing
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(marian.parameters(), 1.0)
        optimizer.step()
    pairs = read_pairs(options.validation)
    return step, parameter_count(marian), bleu(marian_translations(marian.eval(), tokenizer, pairs), pairs)


@torch.inference_mode()
def marian_translations(marian, tokenizer, pairs):
    """Translate the sources of pairs greedily, in their order."""
    outputs, roles = [], tokenizer.roles
    for first in range(0, len(pairs), TOGETHER):
        sources = [torch.tensor([*tokenizer.encode(text), roles.end]) for text, _ in pairs[first : first + TOGETHER]]
        ids = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=roles.pad)
        mask = torch.arange(ids.shape[1]) < torch.tensor([len(source) for source in sources]).unsqueeze(1)
        rows = marian.generate(ids, attention_mask=mask.long(), num_beams=1, do_sample=False, max_new_tokens=100)
        for row in rows[:, 1:].tolist():
            outputs.append(tokenizer.decode(list(itertools.takewhile(lambda id: id != roles.end, row))))
    return outputs


def read_pairs(path):
    return [line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines()[1:]]


def bleu(outputs, pairs):
    return text_scores(outputs, [target for _, target in pairs])[0]["bleu"]


def compare_training(options):
    torch.set_num_threads(1)
    print(f"{options.minutes:g} CPU minutes each, one thread, {options.pairs:,} pairs, seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "train.tsv"
        with open(options.train, encoding="utf-8") as file:
            data.write_text("".join(itertools.islice(file, options.pairs + 1)), encoding="utf-8")
        for model in ("lstm", "transformer"):
            run, *figures = train_ours(model, data, options)
            print_training(f"glassformer, {model}", *figures)
        print_training("Hugging Face, Marian", *train_marian(run, options))


def print_training(name, updates, size, score):
    print(f"{name:28} {size:10,} parameters   {updates:6,} updates   BLEU {score:5.2f}", flush=True)


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="compare training on these pairs instead of decoding")
    parser.add_argument("--validation", help="score translations of these pairs")
    parser.add_argument("--pairs", type=int, default=20_000, help="train on this many pairs (default %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=2, help="train for this many minutes of CPU time (default %(default)s)"
    )
    parser.add_argument("--rate", type=float, default=2e-3, help="set Marian's learning rate (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="set the seed of training (default %(default)s)")
    parser.add_argument(
        "--sentences", type=int, default=1000, help="translate this many sentences (default %(default)s)"
    )
    parser.add_argument(
        "--tokens", type=int, default=20, help="translate each sentence into this many tokens (default %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="repeat each measurement (default %(default)s)")
    parser.add_argument("--run", help="time this trained translator too")
    parser.add_argument("--file", help="read its source sentences from this file")
    options = parser.parse_args()
    (compare_training if options.train else compare_decoding)(options)


@torch.inference_mode()
def compare_decoding(options):
    work = list(batches(options.sentences))
    default, _ = ours()
    classic, classic_hidden = ours(style="classic")
    marian = theirs(classic_hidden)

    def search(model):
        for ids, mask in work:
            most = [options.tokens] * len(ids)
            found = beam_search(model, ids, mask, Search(BEAM), Marks([1], 2, [0, 1, 2, 3]), most)
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
