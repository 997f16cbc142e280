"""What every export shares: the run that goes out, a copy of its model, and a folder that is whole or not there."""

import contextlib
import copy
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse, RunError
from glassformer.config.resolve import Config
from glassformer.data.features.inputs import Features
from glassformer.exchange.comparison import TOLERANCE, largest_difference
from glassformer.models.inputs import Shape
from glassformer.runs.files import flush, writing
from glassformer.runs.run import CARD
from glassformer.tasks.answers import Answers
from glassformer.text.tokenizer import Tokenizer

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class ExportedRun:
    """What goes out, and all that belongs to it."""

    model: nn.Module
    config: Config
    tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer | None = None
    """The targets' own, where they are cut in another way than the sources."""
    features: Features | None = None
    answers: Answers | None = None
    name: str = "a run"
    """What the model card calls it."""
    original: Path | None = None
    """The folder of the files about tokens that came with an imported model."""
    chat_template: str | None = None
    specials: Mapping[str, str] = field(default_factory=dict)
    """Special tokens by the names that the template has for them."""

    @property
    def shape(self) -> Shape:
        """What an example is made of."""
        if self.features is not None:
            return self.features.shape
        return Shape(vocab=0 if self.tokenizer is None else self.tokenizer.vocab_size)

    @property
    def target_vocab(self) -> int:
        return self.shape.vocab if self.target_tokenizer is None else self.target_tokenizer.vocab_size

    def check(self, model: nn.Module, exported: nn.Module, folder: Path) -> str:
        """How far what was exported is from `model`, in words; an error where rounding cannot explain it."""
        longest = self.config.model.context if self.shape.vocab else 1
        difference = largest_difference(model, exported, self.shape, self.target_vocab, longest)
        if not difference <= TOLERANCE:
            raise RunError(
                f"the exported model differs from its run by {difference:.2g} of the largest score, where rounding "
                f"explains {TOLERANCE:g}: nothing was written to {folder}"
            )
        return f"it differs from the run by at most {difference:.2g} of the largest score"


def inference_copy(model: Module) -> Module:
    """A copy in single precision on the CPU, in use rather than in training; weights that are so already are shared."""
    tensors = tensors_of(model)
    plain = all(tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.int64) for tensor in tensors)
    memo = {id(tensor): tensor for tensor in tensors} if plain else {}
    return copy.deepcopy(model, memo).cpu().float().eval()


def tensors_of(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def check_empty(folder: Path, *, overwrite: bool = False) -> None:
    """Whether an export may be written here: what is there is never replaced unasked."""
    if folder.exists() and not folder.is_dir():
        raise Misuse(f"{folder} is a file: name a folder to export to")
    if (folder / CARD).exists():
        raise Misuse(
            f"{folder} is a run, which an export would spoil: name another folder, such as {folder / 'export'}"
        )
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise Misuse(f"{folder} is not empty: replace what is in it with --overwrite, or name another folder")


@contextlib.contextmanager
def fill_folder(folder: Path, *, overwrite: bool = False, owned: Collection[str] = ()) -> Iterator[Path]:
    """A folder beside `folder` to write to. At the end it takes its place; after an error nothing is left of it.

    Where there is one to be overwritten, the new files replace those of their names, and of the others in it those
    `owned` go, which an export of this kind may have left.
    """
    check_empty(folder, overwrite=overwrite)
    whole = Path(os.path.abspath(folder))  # "." has no name
    temporary = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    with writing(folder):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            new = sorted(temporary.iterdir())
            for file in new:
                flush(file)
            if not folder.is_dir():
                os.replace(temporary, folder)
            else:
                for file in new:
                    if (folder / file.name).is_dir():
                        shutil.rmtree(folder / file.name)
                    os.replace(file, folder / file.name)
                for name in set(owned) - {file.name for file in new}:
                    (folder / name).unlink(missing_ok=True)
            flush(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
