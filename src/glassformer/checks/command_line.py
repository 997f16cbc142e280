"""Check of the command line: compare answers for a file and for standard input."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.checks.subject import MIN_SCALE, Subject, random_calls
from glassformer.config.encoders import OWN
from glassformer.config.errors import RunError
from glassformer.config.presets import TEXT, predicts_hidden_tokens
from glassformer.data.wording import counted
from glassformer.text.pipelines import MASK

MAX_TEXTS, NEW_TOKENS, TIMEOUT_SECONDS = 4, 12, 600
"""Maximum number of texts, number of generated tokens, and maximum seconds of a command."""
RUN_PLACEHOLDER = "RUN"
"""Placeholder for the run's folder in a command."""
VERB_OPTIONS = {
    "embed": (),
    "generate": ("--greedy", "--tokens", str(NEW_TOKENS), "--json"),
    "predict": ("--json",),
    "translate": ("--beam", "1", "--json"),
}


def check_stdin(subject: Subject) -> Deviation:
    """Compare the answers to texts in a file with the answers to the same texts on standard input."""
    family, config = subject.loaded.family, subject.loaded.config
    if config.model.encoder == OWN:
        raise DoesNotApply("the command line does not know a person's own model")
    texts, for_file = _texts(subject), ["--probabilities"] if family.label_kind is not None else []
    if family.verb == "generate":  # all of standard input is one prompt
        texts = texts[:1]
    elif predicts_hidden_tokens(config.task):
        texts = [f"{MASK} {text}" for text in texts]
    argv = [family.verb, RUN_PLACEHOLDER, *VERB_OPTIONS[family.verb]]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "texts.txt")
        file.write_text("\n".join(texts), encoding="utf-8")
        by_file = [*argv, "--file", str(file), *for_file]
        difference = _difference(*_run_both(subject, by_file, [*argv, "-"], "\n".join(texts)))
    return Deviation(difference, f"glassformer {family.verb} of {counted(len(texts), 'text')}")


def _texts(subject: Subject) -> list[str]:
    """Return held-out texts, followed by texts of random tokens, each as one line."""
    tokenizer, family = subject.loaded.tokenizer, subject.loaded.family
    if tokenizer is None or (family.label_kind is not None and subject.loaded.config.data.kind != TEXT):
        raise DoesNotApply("its examples are not texts")
    held_out = [example.text or tokenizer.decode(example.ids[: NEW_TOKENS + 1]) for example in subject.held_out]
    made_up = [tokenizer.decode(ids[0].tolist()) for ids, *_ in random_calls(subject.loaded, MAX_TEXTS, NEW_TOKENS)]
    texts = [line for text in [*held_out, *made_up] if (line := " ".join(text.split()))]
    if not texts:
        raise DoesNotApply("its tokens are all blanks")
    return texts[:MAX_TEXTS]


def _run_both(subject: Subject, by_file: list[str], by_stdin: list[str], stdin: str) -> tuple[list[Any], list[Any]]:
    """Run both commands at once, and return the JSON objects that each command prints."""
    path, device = str(subject.loaded.run.path.resolve()), ["--device", str(subject.device)]

    def run(argv: list[str], text: str) -> list[Any]:
        words = [path if word == RUN_PLACEHOLDER else word for word in argv]
        done = subprocess.run(
            [sys.executable, "-m", "glassformer.cli.main", *words, *device],
            input=text.encode(),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
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
    """Return the largest difference between numbers, as a share of the largest; infinite if other values differ."""
    if not by_file or len(by_file) != len(by_stdin):
        return float("inf")
    largest, most = MIN_SCALE, 0.0
    for first, second in zip(by_file, map(_named_as_in_files, by_stdin), strict=True):
        shared = first.keys() & second.keys()
        numbers = {name for name in shared if isinstance(first[name], float) and isinstance(second[name], float)}
        if not shared or any(first[name] != second[name] for name in shared - numbers):
            return float("inf")
        for name in numbers:
            largest, most = max(largest, abs(first[name])), max(most, abs(first[name] - second[name]))
    return most / largest


def _named_as_in_files(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer printed for standard input under the names of `predict --file`."""
    names = dict.fromkeys(("label", "value", "labels"), "predicted")
    own = {names.get(name, name): value for name, value in answer.items() if name != "probabilities"}
    return own | {f"p_{label}": value for label, value in (answer.get("probabilities") or {}).items()}
