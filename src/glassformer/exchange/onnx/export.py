"""A model as ONNX graphs, for programs without Python or torch; compared with the model before anyone sees them."""

from pathlib import Path

from glassformer.config.errors import Say, silent
from glassformer.exchange.exporting import ExportedRun, check_empty, fill_folder, inference_copy
from glassformer.exchange.onnx.graph import require_onnx
from glassformer.exchange.onnx.parts import DECODER, ENCODER, MODEL, OnnxModel, graphs_of
from glassformer.exchange.onnx.readme import readme
from glassformer.exchange.onnx.twins import twin_of
from glassformer.runs.files import write_json, write_text
from glassformer.tasks.answers import Classes

TOKENIZER, TARGET_TOKENIZER, LABELS, FEATURES, README = (
    "tokenizer.json", "target_tokenizer.json", "labels.json", "features.json", "README.md",
)  # fmt: skip
FILES = (
    *(name + end for name in (MODEL, ENCODER, DECODER) for end in ("", ".data")),
    TOKENIZER, TARGET_TOKENIZER, LABELS, FEATURES, README,
)  # fmt: skip
"""All that an export may write."""


def export_onnx(run: ExportedRun, folder: Path, *, overwrite: bool = False, say: Say = silent) -> list[Path]:
    """`model.onnx`, or `encoder.onnx` and `decoder.onnx` of a translator, and all that is needed to run them.

    What was written is run at once, on batches and lengths other than those that the graph was made with; if it differs
    from the model by more than rounding can explain, that is an error, and nothing is left behind.
    """
    require_onnx()
    check_empty(folder, overwrite=overwrite)
    model = inference_copy(run.model)
    graphs = graphs_of(twin_of(model), run.shape, run.target_vocab, run.answers)
    with fill_folder(folder, overwrite=overwrite, owned=FILES) as place:
        for graph in graphs:
            say(f"{graph.file} …")
            graph.write(place)
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
