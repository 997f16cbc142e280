"""Export of a run to ONNX graphs for programs without Python or torch, compared with the model.

The README beside them documents inputs and outputs and includes a program that runs them.
"""

from collections.abc import Sequence
from pathlib import Path

from glassformer.bricks.capabilities import capability
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import say
from glassformer.config.presets import VECTORS
from glassformer.config.progress import progress_of
from glassformer.data.features.build import MixedFeatures, TextFeatures
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.tables import TableFeatures
from glassformer.exchange.exporting import ExportedRun, fill_folder, fill_template, inference_copy
from glassformer.exchange.onnx.graph import DECODER, ENCODER, MODEL, Graph, OnnxModel, graphs_of, require_onnx
from glassformer.exchange.onnx.twins import twin_of
from glassformer.models.capabilities import HasDecoder, PredictsNext, ScoresTokens
from glassformer.runs.files import write_json, write_text
from glassformer.tasks.answers import Classes, Labels, Scale

TEMPLATE = "README.md.jinja"
ANSWERS = {Scale: "values", Labels: "labels", Classes: "classes"}
"""Meaning of the scores; labels.json has classes and labels under these names."""

TOKENIZER, TARGET_TOKENIZER, LABELS, FEATURES, README = (
    "tokenizer.json", "target_tokenizer.json", "labels.json", "features.json", "README.md",
)  # fmt: skip
FILES = (
    *(name + end for name in (MODEL, ENCODER, DECODER) for end in ("", ".data")),
    TOKENIZER, TARGET_TOKENIZER, LABELS, FEATURES, README,
)  # fmt: skip
"""All files that an export may write."""


def export_onnx(run: ExportedRun, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write `model.onnx`, or `encoder.onnx` and `decoder.onnx`, and everything needed to run them.

    The graphs are run on other batch sizes and lengths than those of the trace. If the scores differ from the model by
    more than rounding, this raises `RunError` and removes the files.
    """
    require_onnx()
    model = inference_copy(run.model)
    graphs = graphs_of(twin_of(model), run.shape, run.target_vocab, run.answers)
    with fill_folder(folder, overwrite=overwrite, owned=FILES) as place:
        progress = progress_of("graph")
        for number, graph in enumerate(graphs):
            say(f"{graph.file} …")
            progress(number, len(graphs))
            graph.write(place)
        progress(len(graphs), len(graphs))
        for tokenizer, name in ((run.tokenizer, TOKENIZER), (run.target_tokenizer, TARGET_TOKENIZER)):
            if tokenizer is not None:
                tokenizer.save(place / name)
        if run.answers is not None:
            labels = run.answers.to_json()
            write_json(place / LABELS, {"classes": labels} if isinstance(run.answers, Classes) else labels)
        if run.features is not None and (learned := run.features.to_json()):
            write_json(place / FEATURES, learned)
        difference = run.check(model, OnnxModel(place), folder)
        write_text(place / README, readme(run, graphs))
        names = sorted(file.name for file in place.iterdir())
    say(f"run by onnxruntime, {difference}")
    return [folder / name for name in names]


def readme(run: ExportedRun, graphs: Sequence[Graph]) -> str:
    mixed = run.features if isinstance(run.features, MixedFeatures) else None
    parts = [run.features] if mixed is None else [mixed.text, mixed.table, mixed.image]
    target = run.target_tokenizer or run.tokenizer
    return fill_template(
        __name__,
        TEMPLATE,
        run=run,
        config=run.config,
        graphs=graphs,
        program=_program(run),
        text=_text_input(run, next((part for part in parts if isinstance(part, TextFeatures)), None)),
        table=next((part for part in parts if isinstance(part, TableFeatures)), None),
        image=next((part for part in parts if isinstance(part, ImageFeatures)), None),
        mixed=mixed is not None,
        answers=ANSWERS.get(type(run.answers), ""),
        target=target,
        never=[] if target is None else target.never(target.vocab_size),
        rows=scorer.head.out_features if (scorer := capability(run.model, ScoresTokens)) is not None else 0,
    )


def _program(run: ExportedRun) -> str:
    """Return the task of the program in the README."""
    if run.answers is not None:
        return "predict"
    if capability(run.model, HasDecoder) is not None:
        return "translate"
    if run.config.task == VECTORS:
        return "embed"
    return "fill" if capability(run.model, PredictsNext) is None else "generate"


def _text_input(run: ExportedRun, features: TextFeatures | None) -> JsonObject | None:
    """Return how a text becomes ids, for the page; None if the model reads no texts."""
    tokenizer = run.tokenizer if features is None else features.tokenizer
    if tokenizer is None or (features is None and run.answers is not None):
        return None
    roles, context = tokenizer.roles, run.config.model.context if features is None else features.context
    before, after = roles.opening if capability(run.model, HasDecoder) is None else roles.source, roles.closing
    if features is not None and not features.framed:
        before, after = (), ()
    return {
        "tokenizer": tokenizer,
        "before": before,
        "after": after,
        "context": context,
        "room": context - len(before) - len(after),  # capacity without the surrounding tokens
        "pad": tokenizer.pad or 0,
        "mask": tokenizer.mask if tokenizer.mask is not None else tokenizer.unk or 0,  # replaces a masked token
    }
