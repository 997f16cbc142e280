"""The command itself, in a process of its own: once from a file, once from stdin."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from glassformer.checks.made_up import made_up
from glassformer.checks.result import DoesNotApply, Found
from glassformer.checks.subject import LEAST, Subject
from glassformer.config.encoders import OWN
from glassformer.config.errors import RunError
from glassformer.config.presets import IMAGE, TEXT
from glassformer.data.features.build import MixedFeatures
from glassformer.data.split.labelled import LabelledCorpus
from glassformer.families.embedding import LoadedEmbedder
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.masked import LoadedMasked
from glassformer.families.translation import LoadedTranslator
from glassformer.text.pipelines import MASK

COUNT, WRITTEN, PATIENCE = 4, 12, 600
"""Examples; tokens that a language model writes; seconds that a command may take."""


def piped(subject: Subject) -> Found:
    """What a run says of some examples, by file and by stdin."""
    loaded = subject.loaded
    if loaded.config.model.encoder == OWN:
        raise DoesNotApply("the command line does not know a person's own model")
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(loaded, LoadedPredictor):
            return _predicting(subject, loaded, Path(folder))
        texts = [_line(text) for text in _texts(subject)]
        if isinstance(loaded, LoadedTranslator):
            words, stdin = ["translate", "RUN", "--beam", "1", "--json"], "".join(f"{text}\n" for text in texts)
        elif isinstance(loaded, LoadedMasked):
            texts = [f"{MASK} {text}" for text in texts]
            words, stdin = ["predict", "RUN", "--json"], "".join(f"{text}\n" for text in texts)
        elif isinstance(loaded, LoadedEmbedder):
            words, stdin = ["embed", "RUN"], "".join(f"{text}\n" for text in texts)
        else:
            texts = texts[:1]
            words, stdin = ["generate", "RUN", "--greedy", "--tokens", str(WRITTEN), "--json"], texts[0]
        file = Path(folder, "texts.txt")
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        by_file, by_stdin = _both(subject, [*words, "--file", str(file)], [*words, "-"], stdin)
        return Found(_said_apart(by_file, by_stdin), f"glassformer {words[0]} of {_counted(texts, 'text')}")


def _predicting(subject: Subject, loaded: LoadedPredictor, folder: Path) -> Found:
    if loaded.config.data.kind == TEXT:
        lines = [_line(text) for text in _texts(subject)]
    elif loaded.config.data.kind == IMAGE:
        lines = _images(subject, folder)
    else:
        lines = _rows(subject, loaded, folder)
    as_table = loaded.config.data.kind not in (TEXT, IMAGE)
    file = folder / ("rows.jsonl" if as_table else "texts.txt")
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = ["predict", "RUN", "--json"]
    by_file, by_stdin = _both(
        subject, [*words, "--file", str(file), "--probabilities"], [*words, "-"], "".join(f"{line}\n" for line in lines)
    )
    return Found(_said_apart(by_file, by_stdin), f"glassformer predict of {_counted(lines, 'example')}")


# --- what is given ---


def _texts(subject: Subject) -> list[str]:
    """Of the held-out part, or of tokens that stand side by side by chance."""
    tokenizer = subject.loaded.tokenizer
    assert tokenizer is not None
    given = [one.text or tokenizer.decode(one.ids[: WRITTEN + 1]) for one in subject.given]
    more = made_up(subject.loaded, COUNT, WRITTEN, subject.device)
    made = [tokenizer.decode(ids[0].tolist()) for ids, *_ in more if ids is not None]
    texts = [text for text in [*given, *made] if _line(text)]
    if not texts:
        raise DoesNotApply("no text to give it could be found")
    return texts[:COUNT]


def _line(text: str) -> str:
    """On one line, as stdin takes it."""
    return " ".join(text.split())


def _images(subject: Subject, folder: Path) -> list[str]:
    pixels = [one.pixels for one in subject.given[:COUNT] if one.pixels is not None]
    if not pixels:
        raise DoesNotApply(subject.missing or "no image is held out that is small enough to be looked at")
    return [_picture(one, folder / f"{number}.png") for number, one in enumerate(pixels)]


def _picture(pixels: Any, file: Path) -> str:
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file)
    return str(file)


def _rows(subject: Subject, loaded: LoadedPredictor, folder: Path) -> list[str]:
    """Rows of the held-out part as JSON, or of a refit, which has none, of any; their images are written aside."""
    if subject.prepared is None:
        raise DoesNotApply(subject.missing)
    assert isinstance(subject.prepared.corpus, LabelledCorpus)
    parts, data = subject.prepared.corpus.parts, loaded.config.data
    part = next(parts[name] for name in ("validation", "test", "train") if name in parts)
    rows = []
    for number in range(min(COUNT, len(part))):
        row = {name: values[number] for name, values in part.columns.items()}
        if isinstance(loaded.features, MixedFeatures) and loaded.features.text is not None and data.text is not None:
            row[data.text] = part.texts[number]
        if part.pixels is not None and data.image is not None:
            row[data.image] = _picture(part.pixels[number], folder / f"{number}.png")
        rows.append(json.dumps(row, ensure_ascii=False))
    return rows


# --- what comes out ---


def _both(subject: Subject, by_file: list[str], by_stdin: list[str], stdin: str) -> tuple[list[Any], list[Any]]:
    """Two processes at once, and what each printed, a JSON object a line."""
    device = ["--device", str(subject.device)]
    with contextlib.ExitStack() as ending:
        started = []
        for words in (by_file, by_stdin):
            started.append(ending.enter_context(_started(subject, [*words, *device])))
            ending.callback(started[-1].kill)  # nothing happens to one that has ended
        said = [
            process.communicate(given, timeout=PATIENCE)
            for process, given in zip(started, (b"", stdin.encode()), strict=True)
        ]
    for process, (_, complaint) in zip(started, said, strict=True):
        if process.returncode:
            lines = complaint.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
            raise RunError(lines[-1])
    first, second = ([json.loads(line) for line in out.decode().splitlines()] for out, _ in said)
    return first, second


def _started(subject: Subject, words: list[str]) -> "subprocess.Popen[bytes]":
    words = [str(subject.loaded.run.path.resolve()) if word == "RUN" else word for word in words]
    return subprocess.Popen(
        [sys.executable, "-m", "glassformer.cli.main", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )


def _said_apart(by_file: Sequence[dict[str, Any]], by_stdin: Sequence[dict[str, Any]]) -> float:
    """The largest difference between numbers, as a share of the largest; endless where words differ."""
    if not by_file or len(by_file) != len(by_stdin):
        return float("inf")
    largest, most = LEAST, 0.0
    for one, other in zip(map(_of_file, by_file), map(_of_stdin, by_stdin), strict=True):
        shared = one.keys() & other.keys()
        if not shared:
            return float("inf")
        for name in shared:
            if isinstance(one[name], float) and isinstance(other[name], float):
                largest, most = max(largest, abs(one[name])), max(most, abs(one[name] - other[name]))
            elif one[name] != other[name]:
                return float("inf")
    return most / largest


TAKEN = "_by_model"
"""What `predict --file` adds to the name of a column that the file has already."""


def _of_file(said: dict[str, Any]) -> dict[str, Any]:
    """What the model says, not a column of the file that goes by the same name."""
    return {name.removesuffix(TAKEN): value for name, value in said.items() if name + TAKEN not in said}


def _of_stdin(said: dict[str, Any]) -> dict[str, Any]:
    """By the names that it has in a file."""
    out = dict(said)
    out |= {f"p_{label}": value for label, value in (out.pop("probabilities", None) or {}).items()}
    for name in ("label", "value", "labels"):
        if name in out:
            out["predicted"] = out.pop(name)
    return out


def _counted(given: Sequence[str], noun: str) -> str:
    return f"{len(given)} {noun}{'s' * (len(given) != 1)}"
