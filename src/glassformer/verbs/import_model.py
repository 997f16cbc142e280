"""A model made elsewhere becomes a run, which every verb can use."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.presets import VERSION
from glassformer.exchange.external_model import ExternalModel
from glassformer.exchange.huggingface.importing import ImportedModel, import_external
from glassformer.exchange.source import find
from glassformer.models.build import parameter_count
from glassformer.models.weights import take_weights
from glassformer.notebook.display import progress_bar
from glassformer.reporting.papers import imported_card
from glassformer.runs.files import write_text
from glassformer.runs.folders import fill, is_unfinished, locked
from glassformer.runs.run import CARD, CHAT_TEMPLATE, ORIGINAL, RUNS, WEIGHTS, Run, environment, tokenizer_card


@progress_bar()
@check_arguments
def import_model(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    say: Say = silent,
) -> Run:
    """A Hugging Face folder, a GGUF file or a name on the hub as a run; unset, `out` is runs/<name>-N."""
    place = _place(str(source)) if out is None else Path(out)
    if Path(source).exists() and Path(source).resolve().is_relative_to(place.resolve()):
        raise Misuse(f"--out {place} is or holds {source}, which is imported: name another folder")
    if place.is_file():
        Run.check_free(place)
    with locked(place, "import", say):  # before any work: whether it can be written
        if not is_unfinished(place):
            Run.check_free(place, overwrite=overwrite, goes_on=False)
        external = find(str(source), say)
        imported = import_external(external, say)
        card = _card(external, imported, command)
        with fill(place, CARD, instead=overwrite or is_unfinished(place)) as new:
            _write(Run(new), place, external, imported, card)
    say(f"{place}: {card['parameters']:,} parameters, {imported.config.task}")
    return Run(place)


def _write(run: Run, place: Path, external: ExternalModel, imported: ImportedModel, card: dict[str, Any]) -> None:
    """All files of a run that will lie in another place."""
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


def _place(source: str) -> Path:
    name = Path(source).resolve().name if Path(source).exists() else source.split("/")[-1]
    stem = re.sub(r"[^A-Za-z0-9_.]+", "-", name.removesuffix(".gguf")).strip("-.") or "model"
    number = 1
    while (path := RUNS / f"{stem}-{number}").exists():
        number += 1
    return path


def _card(external: ExternalModel, imported: ImportedModel, command: str | None) -> dict[str, Any]:
    target = external.tokens.target_tokenizer
    return {
        "glassformer": VERSION,
        "status": "imported",
        "task": imported.config.task,
        "labels": None if imported.answers is None else imported.answers.to_json(),
        "parameters": parameter_count(imported.model),
        "imported": {
            "from": Path(external.name).name,
            "format": external.format,
            "architecture": imported.architecture,
            "dtype": external.weights.kind,
        },
        "data": {"name": "", "fingerprint": "", "report": "not known here: the model was imported"},
        "tokenizer": tokenizer_card(external.tokens.tokenizer),
        "target_tokenizer": None if target is None else tokenizer_card(target),
        "specials": external.tokens.specials,
        "command": command,
        "environment": environment(),
        "config": imported.config.to_dict(),
    }
