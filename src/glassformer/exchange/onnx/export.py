"""A model as ONNX graphs, for programs without Python or torch; compared with the model before anyone sees them."""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.config.errors import RunError
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.data.features.inputs import Features
from glassformer.exchange.export_folder import check_empty, filling
from glassformer.exchange.onnx.graph import BATCH, LENGTH, SOURCE, needed
from glassformer.exchange.onnx.parts import DECODER, ENCODER, MODEL, Exported, graphs_of, ports_of
from glassformer.exchange.onnx.readme import Scored, readme
from glassformer.exchange.onnx.twins import in_use, twin_of
from glassformer.models.seq2seq import Seq2Seq
from glassformer.models.shape import Shape
from glassformer.models.token_model import TokenModel
from glassformer.runs.files import write_json, write_text
from glassformer.tasks.answers import Answers, Classes
from glassformer.text.tokenizer import Tokenizer

TOLERANCE = 1e-3
"""Allowed difference, as a share of the largest score. Other kernels add up in another order: in single precision that
moves the scores of deep models by up to some 1e-4 of it. What is computed wrongly, a mask or a weight, is off by far
more."""
LEAST = 1e-2
"""Scores smaller than this are compared as if they were as large."""

TOKENIZER, TARGET_TOKENIZER, LABELS, FEATURES, README = (
    "tokenizer.json", "target_tokenizer.json", "labels.json", "features.json", "README.md",
)  # fmt: skip
FILES = (
    *(name + end for name in (MODEL, ENCODER, DECODER) for end in ("", ".data")),
    TOKENIZER, TARGET_TOKENIZER, LABELS, FEATURES, README,
)  # fmt: skip
"""All that an export may write."""


def export_onnx(
    model: nn.Module,
    *,
    tokenizer: Tokenizer | None,
    target_tokenizer: Tokenizer | None,
    features: Features | None,
    answers: Answers | None,
    config: Config,
    folder: Path,
    say: Say = silent,
    overwrite: bool = False,
) -> list[Path]:
    """`model.onnx`, or `encoder.onnx` and `decoder.onnx` of a translator, and all that is needed to run them.

    What was written is run at once, on batches and lengths other than those that the graph was made with; if it differs
    from the model by more than rounding can explain, that is an error, and nothing is left behind.
    """
    needed()
    check_empty(folder, overwrite=overwrite)
    shape = Shape(vocab=0 if tokenizer is None else tokenizer.vocab_size) if features is None else features.shape
    target_vocab = shape.vocab if target_tokenizer is None else target_tokenizer.vocab_size
    apart = None if target_tokenizer is tokenizer else target_tokenizer
    plain = in_use(model)
    graphs = graphs_of(twin_of(plain), shape, target_vocab, answers)
    names = []
    with filling(folder, overwrite=overwrite, owned=FILES) as place:
        for graph in graphs:
            say(f"{graph.file} …")
            graph.write(place)
        if tokenizer is not None:
            tokenizer.save(place / TOKENIZER)
        if apart is not None:
            apart.save(place / TARGET_TOKENIZER)
        if answers is not None:
            labels = answers.to_json()
            write_json(place / LABELS, {"classes": labels} if isinstance(answers, Classes) else labels)
        if features is not None and (learned := features.to_json()):
            write_json(place / FEATURES, learned)
        longest = config.model.context if shape.vocab else 1
        difference = largest_difference(plain, Exported(place), shape, target_vocab, longest)
        if not difference <= TOLERANCE:
            raise RunError(
                f"the exported model differs from its run by {difference:.2g} of the largest score, where rounding "
                f"explains {TOLERANCE:g}: nothing was written to {folder}"
            )
        write_text(place / README, readme(graphs, tokenizer, apart, features, answers, config, _scored(plain)))
        names = sorted(file.name for file in place.iterdir())
    say(f"run by onnxruntime, it differs from the run by at most {difference:.2g} of the largest score")
    return [folder / name for name in names]


def _scored(model: nn.Module) -> Scored:
    """What a program must know of the scores of a model of language."""
    if not isinstance(model, TokenModel | Seq2Seq):
        return Scored()
    return Scored(model.head.out_features, model.encoder.causal)


@torch.inference_mode()
def largest_difference(model: nn.Module, exported: nn.Module, shape: Shape, target_vocab: int, longest: int) -> float:
    """Of the scores of made-up examples, as a share of the largest; padding aside. Endless where one is no number."""
    random = torch.Generator().manual_seed(1)
    worst, largest = 0.0, LEAST
    for batch, length in ((1, 1), (4, 11), (3, 29), (2, 2)):
        length = min(length, longest)
        inputs, real = _inputs(
            model, shape, target_vocab, {BATCH: batch, LENGTH: length, SOURCE: min(length + 2, longest)}, random
        )
        wanted, found = (each(*inputs).double() for each in (model, exported))
        if wanted.shape != found.shape:
            return math.inf
        if real is not None and wanted.dim() == 3:
            wanted, found = wanted[real], found[real]
        if not wanted.numel():
            continue
        gap = float((wanted - found).abs().max())
        if not math.isfinite(gap):
            return math.inf
        worst, largest = max(worst, gap), max(largest, float(wanted.abs().max()))
    return worst / largest


def _inputs(
    model: nn.Module, shape: Shape, target_vocab: int, sizes: Mapping[str, int], random: torch.Generator
) -> tuple[list[Tensor], Tensor | None]:
    """What a model is called with, and which places of its scores are real, where some may not be."""
    made = {port.name: port.made_up(sizes, random) for port in ports_of(shape)}
    if isinstance(model, Seq2Seq):
        (tokens, *_), (target, *_) = (ports_of(Shape(vocab=vocab)) for vocab in (shape.vocab, target_vocab))
        read = {**sizes, LENGTH: sizes[SOURCE]}
        mask = ports_of(shape)[1].made_up(read, random)
        return [tokens.made_up(read, random), mask, target.made_up(sizes, random)], None
    if shape.columns:
        made.setdefault("numbers", torch.zeros(sizes[BATCH], 0))
        made.setdefault("categories", torch.zeros(sizes[BATCH], 0, dtype=torch.int64))
    order = ("tokens", "mask", "numbers", "categories", "pixels")
    return [made[name] for name in order if name in made], made.get("mask")
