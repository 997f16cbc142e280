"""What is tried, and what it came to: one job of a comparison, as the process that trains it reads and writes it."""

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

TRAINED, FLOOR, REFERENCE, GIVEN = "trained", "floor", "reference", "given"
"""A model that is trained; what learns nothing (or only counts); another library's model; a run that was there."""
KINDS = {TRAINED: "trained", FLOOR: "floor", REFERENCE: "reference", GIVEN: "trained before"}
"""The kinds in words."""
DIGEST = "digest"
"""The field of an outcome's file that holds a digest of all others."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training of a comparison: a row of its table, with one seed (or one fold)."""

    name: str
    """The row's name: lstm, majority class."""
    kind: str = TRAINED
    settings: dict[str, Any] = field(default_factory=dict)
    """What `train` takes by dotted key, the data and the seed among them; of a given run, how to evaluate it."""
    varied: dict[str, Any] = field(default_factory=dict)
    """What tells this row from others of its name, by dotted key: {"model.heads": 2}, {"data.train_fraction": 0.1}."""
    repeat: int = 0
    """Which of the seeds or folds."""
    begins: str = ""
    """A digest of the weights that it begins from, where these are another run's."""
    cpu_seconds: float | None = None
    """How long it is trained, where that is not among its settings: seconds of one core."""

    @property
    def row(self) -> str:
        """Return the key of the row, which all seeds share."""
        return json.dumps([self.name, self.varied], sort_keys=True)

    @property
    def id(self) -> str:
        """Return a readable and unique name for the job's folder."""
        varied = [f"{key.split('.')[-1]}-{str(value).lower()}" for key, value in self.varied.items()]
        begins = [self.begins[:8]] if self.begins else []  # other weights, another training run
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
    """What a job came to."""

    job: Job
    error: str | None = None
    """One line, where it failed; then the rest is empty."""
    skipped: bool = False
    """Whether the error is a package that is not installed."""
    part: str = ""
    """What it was judged on: test, or validation where there is no test part."""
    metrics: dict[str, float] = field(default_factory=dict)
    primary: str = ""
    lower_is_better: bool = False
    scores: list[float] = field(default_factory=list)
    """One for each example of that part, the higher the better."""
    weights: list[float] | None = None
    """How much each example counts in the primary metric (tokens of a window); None: all alike."""
    examples: str = ""
    """A digest of these examples in their order: only outcomes with the same one can be paired."""
    parameters: int = 0
    learned: int | None = None
    """How many of these were trained here."""
    steps: int = 0
    seconds: float = 0.0
    """Seconds of training, validations left out."""
    per_example: float | None = None
    """Seconds that one example alone takes in use: read, scored; translated; of a language model, a token written."""
    memory: int | None = None
    """Bytes at the most while it was trained, beyond what an idle process holds; on a GPU, CUDA's peak."""
    tokenizer: str | None = None
    """The hash of its tokenizer, where it reads words."""
    run: str | None = None
    """Its folder, as seen from the comparison's."""
    curve: list[CurvePoint] = field(default_factory=list)
    threads: int = 0
    """How many it was trained with: times depend on it, and sums to the last bit."""
    note: str = ""
    """What a reader of its row should know: that it may have seen the examples it is judged on."""
    seen: bool = False
    """It has learned from them: it has a score, and no rank."""
    undertrained: str | None = None
    """Why its training cannot be said to have come to its end: it is not judged; empty: it has. None: not known."""

    def write(self, path: Path) -> None:
        """Write it with a digest of all its fields."""
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
    """The same value, with null for every number that is endless or unknown: JSON knows no infinity."""
    if isinstance(value, Mapping):
        return {key: json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
