"""What a run has beside its weights and its tokens, and hands on to one that goes on with its task."""

import shutil
from pathlib import Path

from glassformer.config.errors import SettingError
from glassformer.config.resolve import Config
from glassformer.finetuning.source import Sources
from glassformer.runs.files import writing
from glassformer.runs.run import CHAT_TEMPLATE, ORIGINAL, Run


def refuse_same(from_run: str | None, decoder_from: str | None, out: Path) -> None:
    """A run that is begun from is not written over, nor is a folder that holds it."""
    for flag, where in (("--from", from_run), ("--decoder-from", decoder_from)):
        if where is not None and Path(where).resolve().is_relative_to(out.resolve()):
            raise SettingError(f"--out {out} is or holds the run that {flag} begins from: name another folder")


def bring_along(config: Config, run: Run) -> None:
    """How it chats, and the files about tokens that it came with, into a new run's folder."""
    sources = Sources.of(config.model.from_run, config.model.decoder_from)
    if sources is None or sources.first.task != config.task:
        return
    before = sources.first.run
    with writing(run.path):
        if (before.path / CHAT_TEMPLATE).is_file():
            shutil.copyfile(before.path / CHAT_TEMPLATE, run.path / CHAT_TEMPLATE)
        if (before.path / ORIGINAL).is_dir():
            shutil.copytree(before.path / ORIGINAL, run.path / ORIGINAL)
    if specials := sources.first.card.get("specials"):
        run.update_card(specials=specials)
