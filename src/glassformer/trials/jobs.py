"""A job of a comparison and its outcome, as the process that runs the job reads and writes them."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from glassformer.config.errors import RunError
from glassformer.runs.files import json_digest, read_json, write_json
from glassformer.runs.json_shape import WrongShape, from_json

TRAINED, FLOOR, REFERENCE, EXISTING = "trained", "floor", "reference", "existing run"
"""Kinds of jobs: train a model; evaluate a trivial baseline; fit a model of another library; score a finished run."""
KINDS = {TRAINED: "trained", FLOOR: "floor", REFERENCE: "reference", EXISTING: "trained before"}
"""Remarks by kind."""
DIGEST = "digest"
"""Field of an outcome's file: a digest of all other fields."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training run of a comparison: a row of the table, with one seed or fold."""

    name: str
    """Name of the row, such as lstm or majority class."""
    kind: str = TRAINED
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of `train` by dotted key, with the data and the seed; for an existing run, its path and the data."""
    varied: dict[str, Any] = field(default_factory=dict)
    """Settings that distinguish this row from others of its name: {"model.heads": 2}, {"data.train_fraction": 0.1}."""
    repeat: int = 0
    """Index of the seed or fold."""
    begins: str = ""
    """Digest of the weights to fine-tune from; empty if training starts from random weights."""
    cpu_seconds: float | None = None
    """Budget in seconds of one core; None if the settings contain the budget."""

    @property
    def row(self) -> str:
        """Return the key of the row, which all seeds share."""
        return json.dumps([self.name, self.varied], sort_keys=True)

    @property
    def id(self) -> str:
        """Return a readable and unique name for the job's folder."""
        varied = [f"{key.split('.')[-1]}-{str(value).lower()}" for key, value in self.varied.items()]
        begins = [self.begins[:8]] if self.begins else []  # with other initial weights, it is another training run
        words = "-".join([self.name.replace(":", "-").replace(" ", "-"), *varied, *begins])
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", words).strip("-.")
        if varied or plain != words:
            digest = hashlib.sha256(f"{self.kind} {self.row}".encode()).hexdigest()[:6]
            plain = f"{plain[-60:].strip('-.')}-{digest}"
        return f"{plain}-{self.repeat}"


@dataclass(frozen=True)
class CurvePoint:
    """A validation during a training run."""

    updates: int
    seconds: float
    score: float
    """The primary metric."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a job."""

    job: Job
    error: str | None = None
    """One line if the job failed; the other fields are then empty."""
    skipped: bool = False
    """Whether the error is a package that is not installed."""
    part: str = ""
    """Part that it was scored on: test, or validation if there is no test part."""
    metrics: dict[str, float] = field(default_factory=dict)
    primary: str = ""
    lower_is_better: bool = False
    scores: list[float] = field(default_factory=list)
    """Score per example of that part; higher is better."""
    weights: list[float] | None = None
    """Weight of each example in the primary metric (tokens of a window); None: all equal."""
    examples: str = ""
    """Digest of these examples in their order; only outcomes with equal digests can be paired."""
    parameters: int = 0
    learned: int | None = None
    """Number of parameters that were trained; None if nothing was trained here."""
    steps: int = 0
    seconds: float = 0.0
    """Seconds of training, without validations."""
    per_example: float | None = None
    """Seconds to process a single example; of a language model, to generate a token."""
    memory: int | None = None
    """Peak memory of training in bytes, beyond that of an idle process; on a GPU, CUDA's peak."""
    tokenizer: str | None = None
    """Hash of its tokenizer; None if it has none."""
    run: str | None = None
    """Path of its run, relative to the folder of the comparison."""
    curve: list[CurvePoint] = field(default_factory=list)
    threads: int = 0
    """Number of threads; times depend on it, and the last bits of sums."""
    note: str = ""
    """A remark for its row, such as that it may have seen the examples."""
    seen: bool = False
    """Whether it was trained on these examples: it then has a score, but no rank."""
    undertrained: str | None = None
    """Reason why it is undertrained and therefore has no rank; empty if it is not, None if unknown."""

    def write(self, path: Path) -> None:
        """Write the outcome with a digest of all fields."""
        value = asdict(self)
        write_json(path, {**value, DIGEST: json_digest(value)})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an outcome; raise `RunError` if it is damaged or was changed since it was written."""
        value = read_json(path)
        if value.pop(DIGEST, None) != json_digest(value):
            raise RunError(f"{path} is damaged, or was changed after it was written")
        try:
            outcome = from_json(value, cls)
        except WrongShape as error:
            raise RunError(f"{path} is damaged: {error}") from None
        if not outcome._is_consistent():
            raise RunError(f"{path} is damaged")
        return outcome

    def _is_consistent(self) -> bool:
        return (
            self.job.kind in KINDS
            and (self.error is not None or self.primary in self.metrics)
            and (self.weights is None or len(self.weights) == len(self.scores))
        )


def json_safe(value: Any) -> Any:
    """Replace numbers that are infinite or NaN by None, which JSON can express."""
    if isinstance(value, Mapping):
        return {key: json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
