"""A run for other programs."""

import os
from pathlib import Path

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, Say, silent, unknown
from glassformer.config.presets import TEXT
from glassformer.config.resolve import KINDS_IN_WORDS
from glassformer.exchange.exporting import ExportedRun, check_empty, recorded_export
from glassformer.exchange.huggingface.export import export_huggingface
from glassformer.exchange.onnx.export import export_onnx
from glassformer.families.base import Loaded
from glassformer.families.load import load
from glassformer.notebook.display import progress_bar
from glassformer.runs.folders import locked
from glassformer.runs.run import ORIGINAL, Run

FORMATS = ("hf", "onnx")


@progress_bar()
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
    place = Path(folder)
    if place.exists() and not place.is_dir():
        check_empty(place)
    with locked(place, "export", say):  # before any work: whether it can be written
        check_empty(place, overwrite=overwrite)
        return _export(run, to, place, overwrite=overwrite, say=say)


def _export(
    run: "str | os.PathLike[str] | Run | Loaded", to: str, folder: Path, *, overwrite: bool, say: Say
) -> list[Path]:
    loaded = run if isinstance(run, Loaded) else load(run, "cpu", say=say)
    if loaded.precision != "fp32":
        raise Misuse(f"a model in {loaded.precision} is for use: load it in fp32 to export it")
    here, target = loaded.run.path, getattr(loaded, "target_tokenizer", None)
    exported = ExportedRun(
        model=loaded.model,
        config=loaded.config,
        tokenizer=loaded.tokenizer,
        target_tokenizer=None if target is loaded.tokenizer else target,
        features=loaded.features,
        answers=getattr(loaded, "answers", None),
        name=here.name,
        imported_as=loaded.run.card().get("imported", {}).get("architecture"),
        original=here / ORIGINAL if (here / ORIGINAL).is_dir() else None,
        chat_template=getattr(loaded, "chat_template", None),
        specials=getattr(loaded, "specials", {}),
    )
    kind = loaded.config.data.kind
    if to == "hf" and (loaded.tokenizer is None or (loaded.features is not None and kind != TEXT)):
        raise Misuse(f"{here} reads {KINDS_IN_WORDS[kind]}: only models of texts go to hf; try --to onnx")
    write = export_onnx if to == "onnx" else export_huggingface
    with recorded_export(here, folder, say):
        return write(exported, folder, overwrite=overwrite, say=say)
