"""The command itself, in a process of its own: once from a file, once from stdin."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

from PIL import Image

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.checks.subject import LEAST, Subject, random_calls
from glassformer.config.encoders import OWN
from glassformer.config.errors import RunError
from glassformer.config.presets import IMAGE, TEXT
from glassformer.data.wording import counted
from glassformer.families.base import Family
from glassformer.families.embedding import EmbeddingFamily
from glassformer.families.labelling import LabellingFamily
from glassformer.families.language import LanguageFamily, MaskedFamily
from glassformer.families.translation import TranslationFamily
from glassformer.text.pipelines import MASK

COUNT, WRITTEN, PATIENCE = 4, 12, 600
"""Examples; tokens that a language model writes; seconds that a command may take."""
RUN = "RUN"
"""What stands in a command for the run's folder."""


def check_stdin(subject: Subject) -> Deviation:
    """What a run says of some examples, by file and by stdin."""
    if subject.loaded.config.model.encoder == OWN:
        raise DoesNotApply("the command line does not know a person's own model")
    with tempfile.TemporaryDirectory() as folder:
        command = command_of(subject.loaded.family, subject, Path(folder))
        text = "".join(f"{line}\n" for line in command.lines)
        file = Path(folder, command.file)
        file.write_text(text, encoding="utf-8")
        by_file = [*command.argv, "--file", str(file), *command.file_options]
        stdin = text if command.line_by_line else text.removesuffix("\n")
        difference = _difference(*_run_both(subject, by_file, [*command.argv, "-"], stdin))
    count = counted(len(command.lines), command.noun)
    return Deviation(difference, f"glassformer {command.argv[0]} of {count}")


# --- the command, and what it is given ---


@dataclass(frozen=True)
class Command:
    """A command that uses a run, and the lines that it reads."""

    argv: list[str]
    lines: list[str]
    noun: str = "text"
    line_by_line: bool = True
    """Each line of stdin is an example; if not, all of it is one."""
    file: str = "texts.txt"
    file_options: Sequence[str] = ()
    """Options that a file needs to tell as much as stdin."""


@singledispatch
def command_of(family: Family, subject: Subject, folder: Path) -> Command:
    """The command that uses a run of this family. `folder`: for files that the lines name."""
    return Command(["predict", RUN, "--json"], _texts(subject))


@command_of.register
def _(family: LanguageFamily, subject: Subject, folder: Path) -> Command:
    argv = ["generate", RUN, "--greedy", "--tokens", str(WRITTEN), "--json"]
    return Command(argv, _texts(subject)[:1], line_by_line=False)


@command_of.register
def _(family: MaskedFamily, subject: Subject, folder: Path) -> Command:
    return Command(["predict", RUN, "--json"], [f"{MASK} {text}" for text in _texts(subject)])


@command_of.register
def _(family: TranslationFamily, subject: Subject, folder: Path) -> Command:
    return Command(["translate", RUN, "--beam", "1", "--json"], _texts(subject))


@command_of.register
def _(family: EmbeddingFamily, subject: Subject, folder: Path) -> Command:
    return Command(["embed", RUN], _texts(subject))


@command_of.register
def _(family: LabellingFamily, subject: Subject, folder: Path) -> Command:
    kind, file = subject.loaded.config.data.kind, Command.file
    if kind == TEXT:
        lines = _texts(subject)
    elif kind == IMAGE:
        lines = _images(subject, folder)
    else:
        lines, file = _rows(subject, folder), "rows.jsonl"
    return Command(["predict", RUN, "--json"], lines, "example", file=file, file_options=["--probabilities"])


def _texts(subject: Subject) -> list[str]:
    """Texts of the held-out part, or of tokens that stand side by side by chance; on one line, as stdin takes them."""
    tokenizer = subject.loaded.tokenizer
    if tokenizer is None:
        raise DoesNotApply("it reads no texts")
    held_out = [example.text or tokenizer.decode(example.ids[: WRITTEN + 1]) for example in subject.held_out]
    made_up = [tokenizer.decode(ids[0].tolist()) for ids, *_ in random_calls(subject.loaded, COUNT, WRITTEN)]
    texts = [line for text in [*held_out, *made_up] if (line := " ".join(text.split()))]
    if not texts:
        raise DoesNotApply("no text to give it could be found")
    return texts[:COUNT]


def _images(subject: Subject, folder: Path) -> list[str]:
    pixels = [example.pixels for example in subject.held_out[:COUNT] if example.pixels is not None]
    if not pixels:
        raise DoesNotApply(subject.missing or "no image is held out that is small enough to be looked at")
    return [_save_image(picture, folder / f"{number}.png") for number, picture in enumerate(pixels)]


def _save_image(pixels: Any, file: Path) -> str:
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file)
    return str(file)


def _rows(subject: Subject, folder: Path) -> list[str]:
    """Rows of the held-out part as JSON, or of a refit, which has none, of any; their images are written aside."""
    if subject.prepared is None:
        raise DoesNotApply(subject.missing)
    parts, data = subject.prepared.corpus.parts, subject.loaded.config.data
    part = next(parts[name] for name in ("validation", "test", "train") if name in parts)
    rows = []
    for number in range(min(COUNT, len(part))):
        row = {name: values[number] for name, values in part.columns.items()}
        if subject.token_places and data.text is not None:
            row[data.text] = part.texts[number]
        if part.pixels is not None and data.image is not None:
            row[data.image] = _save_image(part.pixels[number], folder / f"{number}.png")
        rows.append(json.dumps(row, ensure_ascii=False))
    return rows


# --- what comes out ---


def _run_both(subject: Subject, by_file: list[str], by_stdin: list[str], stdin: str) -> tuple[list[Any], list[Any]]:
    """Two processes at once, and what each printed, a JSON object a line."""
    path, device = str(subject.loaded.run.path.resolve()), ["--device", str(subject.device)]

    def run(argv: list[str], text: str) -> list[Any]:
        words = [path if word == RUN else word for word in argv]
        done = subprocess.run(
            [sys.executable, "-m", "glassformer.cli.main", *words, *device],
            input=text.encode(),
            capture_output=True,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
            raise RunError(lines[-1])
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(run, (by_file, by_stdin), ("", stdin))
    return first, second


def _difference(by_file: Sequence[dict[str, Any]], by_stdin: Sequence[dict[str, Any]]) -> float:
    """The largest difference between numbers, as a share of the largest; endless where words differ."""
    if not by_file or len(by_file) != len(by_stdin):
        return float("inf")
    largest, most = LEAST, 0.0
    for first, second in zip(map(_of_file, by_file), map(_of_stdin, by_stdin), strict=True):
        shared = first.keys() & second.keys()
        if not shared:
            return float("inf")
        for name in shared:
            if isinstance(first[name], float) and isinstance(second[name], float):
                largest, most = max(largest, abs(first[name])), max(most, abs(first[name] - second[name]))
            elif first[name] != second[name]:
                return float("inf")
    return most / largest


TAKEN = "_by_model"
"""What `predict --file` adds to the name of a column that the file has already."""


def _of_file(answer: dict[str, Any]) -> dict[str, Any]:
    """What the model says, not a column of the file that goes by the same name."""
    return {name.removesuffix(TAKEN): value for name, value in answer.items() if name + TAKEN not in answer}


def _of_stdin(answer: dict[str, Any]) -> dict[str, Any]:
    """What the model says, by the names that it has in a file."""
    names = dict.fromkeys(("label", "value", "labels"), "predicted")
    own = {names.get(name, name): value for name, value in answer.items() if name != "probabilities"}
    return own | {f"p_{label}": value for label, value in (answer.get("probabilities") or {}).items()}
