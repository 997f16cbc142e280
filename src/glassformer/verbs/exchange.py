"""Import models from other libraries as runs, and export runs for other programs."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, unknown
from glassformer.config.messages import Say, say, takes_listener
from glassformer.config.presets import TEXT
from glassformer.config.resolve import KINDS_IN_WORDS
from glassformer.exchange.exporting import ExportedRun, check_empty, recorded_export
from glassformer.exchange.external_model import ExternalModel
from glassformer.exchange.huggingface.export import export_huggingface
from glassformer.exchange.huggingface.importing import ImportedModel, import_external
from glassformer.exchange.onnx.export import export_onnx
from glassformer.exchange.source import find
from glassformer.families.base import Loaded, Processor
from glassformer.families.card import base_card
from glassformer.families.generate import Writer
from glassformer.families.load import load
from glassformer.models.weights import take_weights
from glassformer.notebook.display import progress_bar
from glassformer.reporting.papers import imported_card
from glassformer.runs.files import write_text
from glassformer.runs.folders import fill, is_unfinished, locked
from glassformer.runs.run import CARD, CHAT_TEMPLATE, ORIGINAL, RUNS, WEIGHTS, Run

FORMATS = ("hf", "onnx")


@progress_bar()
@check_arguments
@takes_listener
def export(
    run: "str | os.PathLike[str] | Run | Loaded",
    *,
    to: str,
    folder: str | os.PathLike[str],
    overwrite: bool = False,
    say: Say = say,
) -> list[Path]:
    """Export a run and return the files that were written.

    `to` is `hf`, a folder that transformers loads, or `onnx`, graphs for onnxruntime.
    """
    if to not in FORMATS:
        raise Misuse(unknown("format", to, FORMATS))
    place = Path(folder)
    if place.exists() and not place.is_dir():
        check_empty(place)
    with locked(place, "export"):  # a folder that cannot be written is an error before any work
        check_empty(place, overwrite=overwrite)
        return _export(run, to, place, overwrite=overwrite)


def _export(run: "str | os.PathLike[str] | Run | Loaded", to: str, folder: Path, *, overwrite: bool) -> list[Path]:
    loaded = run if isinstance(run, Loaded) else load(run, "cpu")
    if loaded.precision != "fp32":
        raise Misuse(f"a model in {loaded.precision} is for use: load it in fp32 to export it")
    here, target = loaded.run.path, loaded.target_tokenizer
    writer = loaded.capability(Writer)
    exported = ExportedRun(
        model=loaded.model,
        config=loaded.config,
        tokenizer=loaded.tokenizer,
        target_tokenizer=None if target is loaded.tokenizer else target,
        features=loaded.features,
        answers=loaded.answers,
        name=here.name,
        imported_as=loaded.run.card().get("imported", {}).get("architecture"),
        original=here / ORIGINAL if (here / ORIGINAL).is_dir() else None,
        chat_template=None if writer is None else writer.chat_template,
        specials={} if writer is None else writer.specials,
    )
    kind = loaded.config.data.kind
    if to == "hf" and (loaded.tokenizer is None or (loaded.features is not None and kind != TEXT)):
        raise Misuse(f"{here} reads {KINDS_IN_WORDS[kind]}: only models of texts go to hf; try --to onnx")
    write = export_onnx if to == "onnx" else export_huggingface
    with recorded_export(here, folder):
        return write(exported, folder, overwrite=overwrite)


# --- import ---


@progress_bar()
@check_arguments
@takes_listener
def import_model(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    say: Say = say,
) -> Run:
    """Import a Hugging Face folder, a GGUF file or a model on the hub as a run.

    `out` is the run's folder; unset, runs/<name>-N.
    """
    place = _free_place(str(source)) if out is None else Path(out)
    if Path(source).exists() and Path(source).resolve().is_relative_to(place.resolve()):
        raise Misuse(f"--out {place} is or holds {source}, which is imported: name another folder")
    if place.is_file():
        Run.check_free(place)
    with locked(place, "import"):  # a folder that cannot be written is an error before any work
        if not is_unfinished(place):
            Run.check_free(place, overwrite=overwrite, goes_on=False)
        external = find(str(source))
        imported = import_external(external)
        card = _card(external, imported, command)
        with fill(place, CARD, instead=overwrite or is_unfinished(place)) as new:
            _fill_run(Run(new), place, external, imported, card)
    say(f"{place}: {card['parameters']:,} parameters, {imported.config.task}")
    return Run(place)


def _fill_run(run: Run, place: Path, external: ExternalModel, imported: ImportedModel, card: dict[str, Any]) -> None:
    """Write all files of a run that will be moved to `place`."""
    tokens = external.tokens
    card[WEIGHTS] = run.write_weights(take_weights(imported.model), card)
    tokens.tokenizer.save(run.path / "tokenizer.json")
    if tokens.target_tokenizer is not None:
        tokens.target_tokenizer.save(run.path / "target_tokenizer.json")
    if tokens.files:
        (run.path / ORIGINAL).mkdir()
    for file in tokens.files:
        shutil.copyfile(file, run.path / ORIGINAL / file.name)
    if tokens.chat_template is not None:
        write_text(run.path / CHAT_TEMPLATE, tokens.chat_template)
    write_text(run.path / "README.md", imported_card(place, imported.config, card, run.path))
    run.write_card(card)


def _free_place(source: str) -> Path:
    name = Path(source).resolve().name if Path(source).exists() else source.split("/")[-1]
    stem = re.sub(r"[^A-Za-z0-9_.]+", "-", name.removesuffix(".gguf")).strip("-.") or "model"
    number = 1
    while (path := RUNS / f"{stem}-{number}").exists():
        number += 1
    return path


def _card(external: ExternalModel, imported: ImportedModel, command: str | None) -> dict[str, Any]:
    tokens = external.tokens
    processor = Processor(
        tokenizer=tokens.tokenizer, target_tokenizer=tokens.target_tokenizer, answers=imported.answers
    )
    return {
        **base_card("imported", imported.config, processor, imported.model, command),
        "imported": {
            "from": Path(external.name).name,
            "format": external.format,
            "architecture": imported.architecture,
            "dtype": external.weights.kind,
        },
        "data": {"name": "", "fingerprint": "", "report": "not known here: the model was imported"},
        "specials": tokens.specials,
    }
