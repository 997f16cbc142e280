"""A run folder: everything a trained model needs, and the log of its training."""

import contextlib
import json
import math
import os
import platform
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse, NotARun, RunError, read_failure, with_article
from glassformer.config.json_types import JsonObject
from glassformer.config.limits import parse_json
from glassformer.config.messages import say
from glassformer.config.parts import sweep
from glassformer.config.plugins import changed_parts, missing_part
from glassformer.config.presets import is_known_task
from glassformer.config.resolve import FIELDS, Config, bound_settings, flatten, resolve
from glassformer.data.datasets.dataset import HUB
from glassformer.models.weights import put_weights
from glassformer.runs.checkpoints import STATE, Checkpoint, list_checkpoints, load_checkpoint, read_state
from glassformer.runs.files import (
    REMEDY,
    json_digest,
    read_json,
    read_log,
    read_metadata,
    read_with_metadata,
    tensor_shapes,
    tensors_digest,
    write_json,
    write_tensors,
    write_text,
)
from glassformer.runs.folders import CARD as CARD
from glassformer.runs.folders import RUNS as RUNS
from glassformer.runs.folders import complete, contents, find_run, last_run, locked, writing
from glassformer.runs.json_shape import WrongShape, check_shape
from glassformer.runs.weight_files import WHOLE
from glassformer.text.tokenizer import Roles, Tokenizer

FORMAT = 2
"""The format of a run's folder. A run of another format is refused."""
CHAT_TEMPLATE = "chat_template.jinja"
ORIGINAL = "original"
"""Folder of an imported run with its original token files."""


class DataCard(TypedDict):
    """The data set of a run, as its card describes it."""

    name: str
    fingerprint: str
    report: str
    tokens: NotRequired[dict[str, int]]


class TokenizerCard(TypedDict):
    hash: str
    kind: str
    vocab_size: int
    roles: JsonObject


class ForgettingCard(TypedDict):
    """Loss on a sample of the old run's validation text."""

    before: float
    after: NotRequired[float]
    unit: str
    windows: int


class SourceCard(TypedDict):
    """The run whose weights initialised a training run."""

    run: str
    task: str
    new: list[str]
    forgetting: NotRequired[ForgettingCard]


class RefitCard(TypedDict):
    """The runs before a refit, and their scores."""

    runs: list[str]
    steps: int
    words: str


Metrics = dict[str, float | None]
Card = TypedDict(  # `from` cannot be the name of an attribute
    "Card",
    {
        "format": int,
        "glassformer": str,
        "status": str,
        "task": str,
        "labels": Any,  # each family reads its own
        "features": NotRequired[Any],
        "parameters": int,
        "learned": NotRequired[int],
        "steps_per_epoch": NotRequired[float | None],
        "from": NotRequired[SourceCard],
        "data": DataCard,
        "tokenizer": TokenizerCard | None,
        "target_tokenizer": TokenizerCard | None,
        "command": str | None,
        "environment": dict[str, str],
        "bricks": NotRequired[list[Any]],
        "config": JsonObject,
        "steps": NotRequired[int],
        "total_steps": NotRequired[int | None],
        "seconds": NotRequired[float],
        "words": NotRequired[dict[str, str]],
        "best": NotRequired[Metrics],
        "validation": NotRequired[Metrics],
        "test": NotRequired[Metrics],
        "before_refit": NotRequired[RefitCard],
        "imported": NotRequired[JsonObject],
        "weights": NotRequired[str | None],
    },
)
"""The structure of `glassformer.json`."""
ENDED_FIELDS = ("task", "parameters", "steps", "seconds", "words", "best")
"""Fields besides the scores on the card of a run that has ended; a card without one of them is written again."""
DONE = ("finished", "stopped early")
"""Status values of a training run that has ended."""
SETTLED = (*DONE, "imported")
"""Status values with which a card contains the digest of the weights."""
WEIGHTS, MEANING, SETTINGS = "weights", "meaning", "settings"
"""Notes in the weights file: a digest of the weights, a digest of the card's `BOUND_FIELDS`, and the settings that
the weights depend on. The card of a finished run also holds the digest of the weights. The state of a checkpoint holds
the last two notes.
"""
CARD_NOTES: dict[str, type] = {MEANING: str, SETTINGS: dict}
"""The type of each note on a card."""
NOTE_TYPES: dict[str, type] = {WEIGHTS: str, **CARD_NOTES}
"""The type of each note on weights."""
NOTES = "glassformer"
"""The only metadata entry of a run's weights file: safetensors writes several entries in any order, and equal weights
must give equal files."""
BOUND_FIELDS = ("labels", "positive", "features", "tokenizer", "target_tokenizer")
"""Fields of a card, beside its settings, that change the meaning of the weights."""
NO_VERIFY = "GLASSFORMER_NO_VERIFY"
"""Environment variable that disables verification of weights, as `--no-verify` does."""


class Run:
    """A folder with `glassformer.json`, `model.safetensors`, `tokenizer.json`, `metrics.jsonl` and checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)

    # --- opening and creating ---

    @staticmethod
    def check_free(path: Path, *, overwrite: bool = False, goes_on: bool = True) -> None:
        """Raise `Misuse` if a new run would overwrite files. `goes_on`: the message suggests resuming."""
        if path.is_file():
            raise Misuse(f"{path} is a file: name a folder for the run")
        try:
            str(path).encode()
        except UnicodeEncodeError:  # safetensors would write it, but not read it
            raise Misuse(f"{path} is not a name in UTF-8: name another --out") from None
        if (path / CARD).exists():
            if not overwrite:
                resume = "go on with --resume, " if goes_on else ""
                raise Misuse(f"{path} already holds a run: {resume}replace it with --overwrite, or name another --out")
        elif path.is_dir() and contents(path):
            raise Misuse(f"{path} is not empty and holds no run: name another --out")

    @staticmethod
    @contextlib.contextmanager
    def locked(path: Path, work: str) -> "Iterator[None]":
        """Lock a run's folder within the context, and remove what killed processes left in it."""
        with locked(path, work):
            with writing(path):
                complete(path, CARD)
            for folder in (path, path / "checkpoints", path / "history"):
                sweep(folder)
            yield

    @staticmethod
    def open(where: "str | os.PathLike[str]") -> "Run":
        """Open a run by its folder or an object with a folder (a loaded model); `last`: the newest under runs/."""
        if not isinstance(where, str | os.PathLike):
            raise NotARun(f"a run is named by its folder, not by {with_article(where)}")
        path = find_run(where)
        run = Run(path)
        card = run.card()
        version = card.get("format")
        if type(version) is not int or version != FORMAT:
            raise RunError(f"{path / CARD} has format {version!r}, but this glassformer reads format {FORMAT}")
        try:
            check_shape(card, Card)
        except WrongShape as error:
            raise RunError(f"{path / CARD} is damaged: {REMEDY} ({error})") from None
        if card["tokenizer"] is None and not isinstance(
            card.get("features"), dict
        ):  # every run has a tokenizer or features
            raise RunError(f"{path / CARD} is damaged: {REMEDY} (it has no tokenizer)")
        return run

    @staticmethod
    def last() -> "Run":
        return Run.open(last_run())

    @staticmethod
    def next_name(data: str, model: str) -> Path:
        """Return runs/<data>-<model>-N with the first free N."""
        name = Path(data.removeprefix(HUB).split(":")[0]).name
        stem, model = (re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-") for part in (name.split(".")[0], model))
        number = 1
        while (path := RUNS / f"{stem or 'data'}-{model}-{number}").exists():
            number += 1
        return path

    @staticmethod
    @contextlib.contextmanager
    def new_name(data: str, model: str) -> "Iterator[Path]":
        """Make an empty folder with the next free name; delete it at the end if it is still empty."""
        with writing(RUNS):
            while True:
                path = Run.next_name(data, model)
                with contextlib.suppress(FileExistsError):  # another process was faster
                    path.mkdir(parents=True)
                    break
        try:
            yield path
        finally:
            with contextlib.suppress(OSError):
                path.rmdir()
                RUNS.rmdir()

    # --- card and configuration ---

    def card(self) -> JsonObject:
        return read_json(self.path / CARD)

    def write_card(self, card: JsonObject) -> None:
        write_json(self.path / CARD, {"format": FORMAT, **card})

    def update_card(self, **changes: Any) -> None:
        self.write_card({**self.card(), **changes})

    def config(self) -> Config:
        card = self.card()
        settings = card["config"]
        if (missing := missing_part(self.path, card)) is not None:
            raise RunError(missing)
        if isinstance(task := settings.get("task"), str) and not is_known_task(task):
            raise RunError(f"{self.path} has the task {task!r}: register its family first (--brick mine.py)")
        config = self._resolved(settings)
        if config.task != card.get("task", config.task):
            difference = f"its task is {card['task']}, but its config has task {config.task}"
            raise RunError(f"{self.path / CARD} is damaged: {REMEDY} ({difference})")
        return config

    def _resolved(self, settings: Mapping[str, Any]) -> Config:
        """Return the configuration of the card's settings, or of some of them."""
        try:
            return resolve(settings, {}, strict=False)
        except Misuse as error:
            raise RunError(f"{self.path / CARD} is damaged: {REMEDY} ({error})") from None

    def changed_parts(self) -> Iterator[str]:
        """Yield a line, once, for each file of the user's own code that has changed since training."""
        return changed_parts(self.path, self.card())

    # --- weights, tokenizers, checkpoints and log ---

    @property
    def weights_path(self) -> Path:
        return self.path / WHOLE

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoints_path(self) -> Path:
        return self.path / "checkpoints"

    def tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer; None if the run does not read text."""
        entry = self.card()["tokenizer"]
        return None if entry is None else self._tokenizer("tokenizer.json", entry)

    def target_tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer of the targets; None if they share that of the inputs."""
        entry = self.card()["target_tokenizer"]
        return None if entry is None else self._tokenizer("target_tokenizer.json", entry)

    def _tokenizer(self, name: str, entry: JsonObject) -> Tokenizer:
        path = self.path / name
        if not path.is_file():
            raise RunError(f"{path} is missing: the run is not complete")
        try:
            roles = Roles.from_json(entry["roles"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.path / CARD} is damaged: {REMEDY} (the roles of its tokens: {error})") from None
        try:
            tokenizer = Tokenizer.load(path, roles)
        except Misuse as error:
            raise RunError(str(error)) from None
        if tokenizer.hash != entry.get("hash"):
            raise RunError(f"{path} is not the tokenizer that this run was trained with")
        return tokenizer

    def write_weights(self, weights: dict[str, Tensor], card: JsonObject | None = None) -> str:
        """Write the weights, with notes on them and on a card (default: the run's own); return the weights' digest."""
        digest = tensors_digest(weights)
        if card is None:
            card = self.card() if (self.path / CARD).is_file() else {}
        write_tensors(self.weights_path, weights, {NOTES: json.dumps({WEIGHTS: digest, **card_notes(card)})})
        return digest

    def weights_digest(self) -> str:
        """Return the digest that is written beside the weights."""
        digest: str = self._notes()[WEIGHTS]
        return digest

    def _notes(self) -> JsonObject:
        """Return the notes on the weights; raise `RunError` if any is missing."""
        return _checked_notes(self._raw_notes(read_metadata(self.weights_path)), NOTE_TYPES, self.weights_path)

    def _raw_notes(self, metadata: Mapping[str, str]) -> JsonObject:
        """Return the notes in the metadata of the weights file, unchecked."""
        try:
            notes = parse_json(metadata.get(NOTES, "{}"), str(self.weights_path))
        except ValueError as error:
            raise RunError(read_failure(self.weights_path, error, remedy=REMEDY)) from None
        return notes if isinstance(notes, dict) else {}

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name, from the header of their file."""
        self._refuse_missing()
        return tensor_shapes(self.weights_path)

    def _refuse_missing(self) -> None:
        if not self.weights_path.is_file():
            remedy = f"continue with --resume --out {self.path}" if list_checkpoints(self.checkpoints_path) else REMEDY
            raise RunError(f"{self.weights_path} is missing: {remedy}")

    def read_weights(self, *, verify: bool = True) -> dict[str, Tensor]:
        """Return the weights; raise `RunError` if they or the card have changed since they were written."""
        self._refuse_missing()
        self.verify_card(verify=verify)
        card, (weights, metadata) = self.card(), read_with_metadata(self.weights_path)
        if not verify or os.environ.get(NO_VERIFY):
            return weights
        if self.card() != card:  # a training run has just written new weights
            return self.read_weights(verify=verify)
        file = self.weights_path
        # Weights are written before the card. Until training has ended, the digest in the weights file counts.
        written = card.get(WEIGHTS) if card.get("status") in SETTLED else self._raw_notes(metadata).get(WEIGHTS)
        if tensors_digest(weights) != written:
            raise RunError(f"{file} is damaged: its weights are not those that were trained (--no-verify takes them)")
        for name, weight in weights.items():
            if weight.numel() and not all(math.isfinite(end) for end in weight.aminmax()):
                raise RunError(f"{file} is damaged: {name} holds values that are no numbers (--no-verify takes them)")
        return weights

    def verify_card(self, *, verify: bool = True) -> None:
        """Raise `RunError` if the card's settings, labels, features or tokenizers are not those of training."""
        self._refuse_missing()
        if verify and not os.environ.get(NO_VERIFY):
            self._verify(self._notes)

    def verify_resumable(self) -> None:
        """Raise `RunError` if the card is not that of the weights and of each checkpoint; ignore torn files."""
        if os.environ.get(NO_VERIFY):
            return
        if self._has_notes():
            self._verify(self._notes)
        for path in list_checkpoints(self.checkpoints_path):
            try:
                state, _ = read_state(path)
            except RunError:  # resuming reports it and uses an earlier checkpoint
                continue
            self._verify(partial(_checked_notes, state, CARD_NOTES, path / STATE))

    def _has_notes(self) -> bool:
        """Return whether the notes on the weights can be read; they cannot if the file is torn or missing."""
        try:
            self._raw_notes(read_metadata(self.weights_path))
        except RunError:
            return False
        return True

    def _verify(self, read_notes: Callable[[], Mapping[str, Any]]) -> None:
        """Raise `RunError` if the card differs from these notes."""
        card, notes = self.card(), read_notes()
        changes = list(self._changes(card, notes))
        if self.card() != card:  # a training run has just written a new card
            self._verify(read_notes)
        elif changes:
            more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
            what = f"{self.path / CARD} was changed after training: {changes[0]}{more}"
            raise RunError(f"{what}; restore it from a backup, or pass --no-verify to ignore the change")

    def _changes(self, card: JsonObject, notes: Mapping[str, Any]) -> Iterator[str]:
        """Yield each difference between a card and the notes on weights or on a checkpoint, as a clause."""
        now = _values(self.config())
        settings = flatten(card["config"])
        now |= settings  # an added setting is named even if the model does not have it
        trained = dict(notes[SETTINGS])
        if (
            added := bound_settings(settings).keys() - trained.keys()
        ):  # settings that did not exist had their defaults in training
            rest = {key: value for key, value in settings.items() if key not in added}
            defaults = _values(self._resolved(rest))
            trained |= {key: defaults[key] for key in sorted(added)}
        for key, value in trained.items():
            if now.get(key) != value:
                name, here = (key if key in now else reprlib.repr(key)), reprlib.repr(now.get(key))
                yield f"{name} is {here}, but the weights were trained with {reprlib.repr(value)}"
        if notes[MEANING] != _meaning(card):
            yield "its labels, features or tokenizer differ from those of training"

    def load_weights(self, model: nn.Module, *, verify: bool = True) -> None:
        put_weights(model, self.read_weights(verify=verify), str(self.weights_path))

    def newest_checkpoint(self) -> Checkpoint | None:
        """Return the newest valid checkpoint; skip damaged ones with a message. None if there is none."""
        paths = list_checkpoints(self.checkpoints_path)
        while paths:
            try:
                return load_checkpoint(paths.pop())
            except RunError as error:
                earlier = "going back to the checkpoint before it" if paths else "and there is no checkpoint before it"
                say(f"{error}: passed over, {earlier}")
        return None

    def add_metrics(self, *lines: JsonObject) -> None:
        with writing(self.metrics_path), self.metrics_path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def read_metrics(self) -> list[JsonObject]:
        """Return all valid lines of the log."""
        return read_log(self.metrics_path)

    def rewind_metrics(self, step: int) -> None:
        """Delete the lines of the log after a step."""
        lines = [line for line in self.read_metrics() if line.get("step", 0) <= step]
        write_text(self.metrics_path, "".join(json.dumps(line) + "\n" for line in lines))


def _values(config: Config) -> JsonObject:
    """Return the task and every setting, by dotted key."""
    return {"task": config.task, **{key: config.get(key) for key in FIELDS}}


def card_notes(card: Mapping[str, Any]) -> JsonObject:
    """Return the notes on a card."""
    return {MEANING: _meaning(card), SETTINGS: bound_settings(card.get("config", {}))}


def _checked_notes(notes: JsonObject, kinds: Mapping[str, type], file: Path) -> JsonObject:
    """Return the notes in a file; raise `RunError` if any is missing."""
    for name, kind in kinds.items():
        if not isinstance(notes.get(name), kind):
            raise RunError(f"{file} is damaged: it does not hold its {name} (--no-verify ignores it)")
    return notes


def _meaning(card: Mapping[str, Any]) -> str:
    """Return a digest of the fields of a card that define the meaning of a model's inputs and outputs."""
    return json_digest({name: card.get(name) for name in BOUND_FIELDS})


def tokenizer_card(tokenizer: Tokenizer) -> JsonObject:
    """Return the card's entry about a tokenizer, with the roles that its file does not contain."""
    return {
        "hash": tokenizer.hash,
        "kind": tokenizer.kind,
        "vocab_size": tokenizer.vocab_size,
        "roles": tokenizer.roles.to_json(),
    }


def environment() -> dict[str, str]:
    """Return the versions and hardware that results may depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
    }
