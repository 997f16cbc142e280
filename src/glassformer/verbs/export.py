"""A run for other programs."""

import os
from pathlib import Path

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, Say, silent, unknown
from glassformer.config.presets import TEXT
from glassformer.config.resolve import KINDS_IN_WORDS
from glassformer.exchange.exporting import ExportedRun
from glassformer.exchange.huggingface.export import export_huggingface
from glassformer.exchange.onnx.export import export_onnx
from glassformer.families.base import Loaded
from glassformer.families.load import load
from glassformer.runs.run import ORIGINAL, Run

FORMATS = ("hf", "onnx")


@check_arguments
def export(
    run: "str | os.PathLike[str] | Run | Loaded",
    *,
    to: str,
    folder: str | os.PathLike[str],
    overwrite: bool = False,
    say: Say = silent,
) -> list[Path]:
    """`to` hf: a folder that transformers loads; `onnx`: graphs for onnxruntime. Gives the files that were written."""
    if to not in FORMATS:
        raise Misuse(unknown("format", to, FORMATS))
    loaded = run if isinstance(run, Loaded) else load(run, "cpu", say=say)
    here, target = loaded.run.path, getattr(loaded, "target_tokenizer", None)
    exported = ExportedRun(
        model=loaded.model,
        config=loaded.config,
        tokenizer=loaded.tokenizer,
        target_tokenizer=None if target is loaded.tokenizer else target,
        features=loaded.features,
        answers=getattr(loaded, "answers", None),
        name=here.name,
        original=here / ORIGINAL if (here / ORIGINAL).is_dir() else None,
        chat_template=getattr(loaded, "chat_template", None),
        specials=getattr(loaded, "specials", {}),
    )
    if to == "onnx":
        return export_onnx(exported, Path(folder), overwrite=overwrite, say=say)
    kind = loaded.config.data.kind
    if loaded.tokenizer is None or (loaded.features is not None and kind != TEXT):
        raise Misuse(f"{here} reads {KINDS_IN_WORDS[kind]}: only models of texts go to hf; try --to onnx")
    return export_huggingface(exported, Path(folder), overwrite=overwrite, say=say)
