"""Common parts of exports: the exported run, an atomically written folder, and the comparison with the run.

The comparison computes the scores of both models on random examples of several sizes.
"""

import contextlib
import copy
import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import jinja2
import torch
from torch import Tensor, nn

from glassformer.bricks.capabilities import capability
from glassformer.config.errors import Misuse, RunError
from glassformer.config.messages import say
from glassformer.config.resolve import Config
from glassformer.data.features.inputs import Features
from glassformer.models.capabilities import HasDecoder
from glassformer.models.inputs import Shape
from glassformer.runs.files import read_json, write_json
from glassformer.runs.folders import contents, fill, is_unfinished, locked, writing
from glassformer.runs.run import CARD
from glassformer.tasks.answers import Answers
from glassformer.text.escaping import markdown
from glassformer.text.tokenizer import Tokenizer

Module = TypeVar("Module", bound=nn.Module)

BATCH, LENGTH, SOURCE = "batch", "length", "source_length"
"""Names of dynamic axes."""
README = "README.md"
TOLERANCE = 1e-3
"""Maximum difference, relative to the largest score.

Other kernels add in another order, which changes the scores of deep models by up to about 1e-4 in single precision. A
wrong mask or weight changes them far more.
"""
EXPORT, EXPORTS = "export", "exports.json"
"""Default export folder within a run, and the file that lists other export folders."""
MIN_SCALE = 1e-2
"""Lower bound of the scale for the comparison, so that tiny scores do not count as large differences."""


@dataclass(frozen=True, kw_only=True)
class ExportedRun:
    """A run to export, with everything that belongs to it."""

    model: nn.Module
    config: Config
    tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer | None = None
    """Tokenizer of the targets, if it differs from that of the sources."""
    features: Features | None = None
    answers: Answers | None = None
    name: str = "a run"
    """Name in the model card."""
    imported_as: str | None = None
    """Hugging Face class of an imported run."""
    original: Path | None = None
    """Folder with the original tokenizer files of an imported model."""
    chat_template: str | None = None
    specials: Mapping[str, str] = field(default_factory=dict)
    """Special tokens by their names in the chat template."""

    @property
    def shape(self) -> Shape:
        """Content of an example."""
        if self.features is not None:
            return self.features.shape
        return Shape(vocab=0 if self.tokenizer is None else self.tokenizer.vocab_size)

    @property
    def target_vocab(self) -> int:
        return self.shape.vocab if self.target_tokenizer is None else self.target_tokenizer.vocab_size

    def check(self, model: nn.Module, exported: nn.Module, folder: Path) -> str:
        """Describe the difference of the exported model from `model`; raise `RunError` if it exceeds rounding."""
        longest = self.config.model.context if self.shape.vocab else 1
        difference = largest_difference(model, exported, self.shape, self.target_vocab, longest)
        if not difference <= TOLERANCE:
            share = f"{difference:.2g} of the largest score (allowed: {TOLERANCE:g})"
            raise RunError(f"the exported model differs from its run by {share}: nothing was written to {folder}")
        return f"it differs from the run by at most {difference:.2g} of the largest score"


@dataclass(frozen=True)
class Port:
    """An input tensor of an exported model."""

    name: str
    axes: tuple[int | str, ...]
    """Sizes; names stand for dynamic axes."""
    kind: torch.dtype = torch.int64
    below: tuple[int, ...] = ()
    """Number of ids, or of values per category column."""

    def example(self, sizes: Mapping[str, int], random: torch.Generator) -> Tensor:
        """Return random values of the right type. A mask has rows of different lengths; the third row is empty."""
        shape = [axis if isinstance(axis, int) else sizes[axis] for axis in self.axes]
        if self.kind == torch.bool:
            rows, length = shape
            lengths = torch.tensor([0 if row == 2 else max(1, length * (row + 1) // rows) for row in range(rows)])
            return torch.arange(length) < lengths.unsqueeze(1)
        if self.kind != torch.int64:
            return torch.randn(shape, generator=random)
        if self.axes[-1] in sizes:
            return torch.randint(self.below[0], shape, generator=random)
        columns = [torch.randint(most, (shape[0], 1), generator=random) for most in self.below]
        return torch.cat([torch.empty(shape[0], 0, dtype=torch.int64), *columns], 1)


def ports_of(shape: Shape, *, empty: bool = False) -> tuple[Port, ...]:
    """Return the inputs of a model for these examples; inputs without columns only if `empty`."""
    columns = empty and shape.columns
    ports = (
        (shape.vocab, Port("tokens", (BATCH, LENGTH), below=(shape.vocab,))),
        (shape.vocab, Port("mask", (BATCH, LENGTH), torch.bool)),
        (shape.numbers or columns, Port("numbers", (BATCH, shape.numbers), torch.float32)),
        (shape.categories or columns, Port("categories", (BATCH, len(shape.categories)), below=shape.categories)),
        (shape.image, Port("pixels", (BATCH, *(shape.image or ())), torch.float32)),
    )
    return tuple(port for has_input, port in ports if has_input)


def translator_ports(source_vocab: int, target_vocab: int) -> tuple[Port, Port, Port]:
    """Return the inputs of a translation model: source, its mask, and target."""
    return (
        Port("source", (BATCH, SOURCE), below=(source_vocab,)),
        Port("source_mask", (BATCH, SOURCE), torch.bool),
        Port("target", (BATCH, LENGTH), below=(target_vocab,)),
    )


@torch.inference_mode()
def largest_difference(model: nn.Module, exported: nn.Module, shape: Shape, target_vocab: int, longest: int) -> float:
    """Return the largest difference of two scores, relative to the largest score, ignoring padding.

    It is infinite if a score is not finite.
    """
    is_translator = capability(model, HasDecoder) is not None
    ports = translator_ports(shape.vocab, target_vocab) if is_translator else ports_of(shape, empty=True)
    random = torch.Generator().manual_seed(1)
    worst, largest = 0.0, MIN_SCALE
    for batch, length in ((1, 1), (4, 11), (3, 29), (2, 2)):
        length = min(length, longest)
        sizes = {BATCH: batch, LENGTH: length, SOURCE: min(length + 2, longest)}
        inputs = {port.name: port.example(sizes, random) for port in ports}
        ours, theirs = (each(*inputs.values()).double() for each in (model, exported))
        if ours.shape != theirs.shape:
            return math.inf
        if "mask" in inputs and ours.dim() == 3:  # scores at padding are arbitrary
            ours, theirs = ours[inputs["mask"]], theirs[inputs["mask"]]
        if not ours.numel():
            continue
        difference = float((ours - theirs).abs().max())
        if not math.isfinite(difference):
            return math.inf
        worst, largest = max(worst, difference), max(largest, float(ours.abs().max()))
    return worst / largest


def inference_copy(model: Module) -> Module:
    """Return a copy in single precision on the CPU in evaluation mode; it shares weights already in that form."""
    tensors = tensors_of(model)
    plain = all(tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.int64) for tensor in tensors)
    memo = {id(tensor): tensor for tensor in tensors} if plain else {}
    return copy.deepcopy(model, memo).cpu().float().eval()


def tensors_of(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def check_empty(folder: Path, *, overwrite: bool = False) -> None:
    """Raise `Misuse` unless an export may be written to this folder; existing files need `overwrite`."""
    if folder.exists() and not folder.is_dir():
        raise Misuse(f"{folder} is a file: name a folder to export to")
    if (folder / CARD).exists():
        raise Misuse(f"{folder} is a run: name another folder to export to, such as {folder / 'export'}")
    if folder.is_dir() and contents(folder) and not overwrite and not is_unfinished(folder):
        raise Misuse(f"{folder} is not empty: replace what is in it with --overwrite, or name another folder")


@contextlib.contextmanager
def recorded_export(run: Path, folder: Path) -> Iterator[None]:
    """Record the export folder in the run, relative to it, so that both can move together.

    The entry is written first, so that the export is known however the process is killed. A failed export removes it.
    """
    place = os.path.abspath(folder)
    with contextlib.suppress(ValueError):  # relpath fails across drives
        place = os.path.relpath(place, os.path.abspath(run))
    before: list[str] | None = None
    try:
        before = _recorded(run)
        write_json(run / EXPORTS, {"folders": [*(other for other in before if other != place), place]})
    except RunError as error:
        before = None
        say(f"{run} does not record this export ({error}): check it with --export {folder}")
    try:
        yield
    except BaseException:
        if before is not None:
            write_json(run / EXPORTS, {"folders": before})
        raise


def exports_of(run: Path) -> list[Path]:
    """Return the recorded export folders of a run, whether they still exist or not."""
    places = [*([EXPORT] if (run / EXPORT).exists() else []), *_recorded(run)]
    return [Path(os.path.normpath(run / place)) for place in dict.fromkeys(places)]


def _recorded(run: Path) -> list[str]:
    places = read_json(run / EXPORTS).get("folders") if (run / EXPORTS).exists() else []
    if not isinstance(places, list) or not all(isinstance(place, str) for place in places):
        raise RunError(f"{run / EXPORTS} is damaged: it holds no list of folders")
    return places


@contextlib.contextmanager
def fill_folder(folder: Path, *, overwrite: bool = False, owned: Collection[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder whose files move to `folder` at the end; after an error nothing remains.

    In an overwritten folder, new files replace those of the same name. Other files that match `owned`, by name or
    pattern, are deleted: an earlier export of this kind may have left them.
    """
    check_empty(folder, overwrite=overwrite)
    with locked(folder, "export"):
        with fill(folder, README) as place:
            yield place
            new = {file.name for file in place.iterdir()}
        with writing(folder):
            for old in [path for pattern in owned for path in folder.glob(pattern) if path.name not in new]:
                old.unlink()


def fill_template(module: str, template: str, /, **facts: object) -> str:
    """Return the rendered template next to a module."""
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["markdown"] = markdown
    text = files(module.rpartition(".")[0]).joinpath(template).read_text("utf-8")
    return environment.from_string(text).render(**facts)
