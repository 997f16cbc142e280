"""Generate text on the CPU with real weights (SmolLM2): glassformer, Hugging Face's transformers and llama.cpp.

    python benchmarks/generating_cpu.py SmolLM2.gguf [--text FILE] [--llama FOLDER] [--tokens 64] [--rounds 5]
        [--threads 2]

Ours runs in fp32, bf16 (where the CPU has it) and int8, transformers in fp32 with its cache, llama.cpp in Q8_0. The
GGUF file is imported and exported again for transformers, so both have the same weights. The last column counts the
tokens that equal those of our fp32.

--text: also print, token by token, the loss in each precision and the share of positions with the same most likely
        token as in fp32.
--llama: also measure llama-cpp-python, installed with `pip install --target FOLDER llama-cpp-python`.
"""

import argparse
import ctypes
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from common import alternating
from transformers import AutoModelForCausalLM

import glassformer as gf
from glassformer.decoding.running import generate
from glassformer.decoding.sampling import GREEDY
from glassformer.training.device import cpu_has_bf16

PROMPT = "Once upon a time, in a small village by the sea,"
BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
PLACES = 256


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="import this GGUF file")
    parser.add_argument("--text", help="measure the loss in each precision on this text")
    parser.add_argument("--llama", help="measure llama-cpp-python from this folder")
    parser.add_argument("--tokens", type=int, default=64, help="generate this many tokens (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="repeat each measurement (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="use this many threads (default %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as place:
        run = gf.import_model(options.file, Path(place, "run"))
        names = ["fp32", *(["bf16"] if cpu_has_bf16() else []), "int8"]
        ours = {name: gf.load(run, "cpu", precision=name) for name in names}
        gf.export(ours["fp32"], to="hf", folder=Path(place, "hf"))
        theirs = AutoModelForCausalLM.from_pretrained(Path(place, "hf"), dtype=torch.float32).eval()
        llama = None if options.llama is None else llama_cpp(options, Path(place, "q8.gguf"))
    tokenizer = ours["fp32"].tokenizer
    prompt = [*tokenizer.roles.opening, *tokenizer.encode(PROMPT)]
    never = tokenizer.never(ours["fp32"].model.head.out_features)
    ids = torch.tensor([prompt])

    def we(name):
        written = generate(ours[name].model, [prompt], GREEDY, max_tokens=options.tokens, never=never)
        return [token for (token,) in written]

    def they():
        found = theirs.generate(ids, attention_mask=torch.ones_like(ids), min_new_tokens=options.tokens,
                                max_new_tokens=options.tokens, do_sample=False)  # fmt: skip
        return found[0, len(prompt) :].tolist()

    contestants = {f"glassformer {name}": lambda name=name: we(name) for name in names} | {"Hugging Face fp32": they}
    if llama is not None:
        contestants["llama.cpp Q8_0"] = lambda: llama(prompt)
    tokens = {name: write() for name, write in contestants.items()}
    seconds = alternating(contestants, options.rounds)
    weights = sum(weight.numel() for weight in ours["fp32"].model.parameters())
    copied = bandwidth()
    print(f"{options.threads} threads, batch 1, {options.tokens} tokens; a copy reads {copied / 1e9:.1f} GB/s")
    for name, value in seconds.items():
        speed = options.tokens / value
        size = BYTES.get(name.split()[-1], 34 / 32) * weights
        same = sum(a == b for a, b in zip(tokens[name], tokens["glassformer fp32"], strict=True))
        ratio = seconds["glassformer fp32"] / value
        print(f"{name:18} {speed:7.1f} tokens/s  {ratio:5.2f} × our fp32  weights read at {speed * size / copied:4.0%} "
              f"of a copy's rate  {same} tokens as in fp32")  # fmt: skip
    if llama is not None:
        llama.close()
    if options.text is not None:
        ids = [*tokenizer.roles.opening, *tokenizer.encode(Path(options.text).read_text(encoding="utf-8"))]
        cost(ours, torch.tensor([ids[: PLACES + 1]]))


def llama_cpp(options, path):
    """Return a function from a prompt to the tokens of llama.cpp, with the same file in Q8_0."""
    sys.path.append(options.llama)
    import llama_cpp

    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    how = llama_cpp.llama_model_quantize_default_params()
    how.ftype, how.allow_requantize, how.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, True, options.threads
    llama_cpp.llama_model_quantize(options.file.encode(), str(path).encode(), ctypes.byref(how))
    model = llama_cpp.Llama(str(path), n_ctx=1024, n_threads=options.threads, n_threads_batch=options.threads,
                            verbose=False)  # fmt: skip

    def write(prompt, quiet=quiet):  # the callback must live as long as the model
        model.reset()
        written = model.generate(prompt, top_k=1, temp=0.0, repeat_penalty=1.0)
        return [token for token, _ in zip(written, range(options.tokens), strict=False)]

    write.close = model.close
    return write


def bandwidth():
    """Return the bytes per second that a memory copy larger than the caches reads."""
    numbers, room = torch.zeros(2**27), torch.zeros(2**27)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        room.copy_(numbers)
        seconds.append(time.perf_counter() - began)
    return 4 * 2**27 / min(seconds)


@torch.inference_mode()
def cost(ours, ids):
    """Print the loss and the agreement of the most likely tokens on a text that is read token by token."""
    likeliest = {}
    for name, loaded in ours.items():
        model, state, scores = loaded.model, loaded.model.init_state(1, PLACES), []
        for place in range(ids.shape[1] - 1):
            scores.append(model.head(model.extend(ids[:, place : place + 1], state))[0].float())
        scores = torch.cat(scores)
        likeliest[name] = scores.argmax(-1)
        loss = torch.nn.functional.cross_entropy(scores, ids[0, 1:])
        same = (likeliest[name] == likeliest["fp32"]).float().mean()
        print(f"{name}: loss {loss:.4f} over {len(scores)} tokens, likeliest token as in fp32 at {same:.1%} of places")


if __name__ == "__main__":
    main()
