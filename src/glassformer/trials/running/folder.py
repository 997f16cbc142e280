"""The folder of a comparison: its question, and a folder per job with its outcome."""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from glassformer.config.errors import GlassformerError, Misuse, RunError
from glassformer.runs.files import read_json, write_json
from glassformer.runs.folders import locked, writing
from glassformer.runs.json_shape import WrongShape, from_json
from glassformer.trials.jobs import Job, Outcome
from glassformer.trials.settings import check_out, data_stem, free_folder

QUESTION, JOB, OUTCOME, LOG = "question.json", "job.json", "outcome.json", "log.txt"
EVENTS = "events.jsonl"
"""Events of a running job; deleted when the comparison has finished."""
FIRST_KEYS = ("data.same_text", "data.decimal", "data.rare_values", "data", "mode", "part")
"""Parts of a comparison's identity in which a difference is reported first. With other rules for reading the data, its
fingerprint differs too."""


@dataclass(frozen=True)
class AskedQuestion:
    """The question that the folder of a comparison answers."""

    identity: dict[str, Any]
    """Facts that all jobs share: the settings by dotted key, and the comparison's own options."""
    ids: list[str]
    """Names of the requested jobs."""
    finished: bool = False

    def difference(self, identity: Mapping[str, Any]) -> str | None:
        """Return the first difference to another comparison as a phrase; None if there is none."""
        before = self.identity
        for key in (*FIRST_KEYS, *sorted({*before, *identity} - {*FIRST_KEYS})):
            if before.get(key) != identity.get(key) or (key in before) != (key in identity):
                was, wanted = ("unset" if asked.get(key) is None else asked[key] for asked in (before, identity))
                return "other data" if key == "data" else f"another {key} ({was}, not {wanted})"
        return None


@dataclass(frozen=True)
class Folder:
    """OUT: question.json, jobs/<id>/ (job.json, run/, log.txt, outcome.json), and the table when there are outcomes.

    For a budget in CPU seconds, jobs/<row>.updates.json stores the number of updates.
    """

    path: Path

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    @classmethod
    def choose(cls, out: str | os.PathLike[str] | None, data: str, asked: AskedQuestion) -> "Folder":
        """Return the folder `out`; if None, the folder of the same comparison that was stopped, else a new one."""

        def is_same(path: Path) -> bool:
            try:
                return cls(path)._question() == asked
            except RunError:  # a damaged comparison cannot continue
                return False

        return cls(free_folder(f"compare-{data_stem(data)}", is_same) if out is None else Path(out))

    def open(self, asked: AskedQuestion, *, overwrite: bool) -> None:
        """Create the folder, or check that it belongs to the same question."""
        if overwrite:
            with writing(self.path):
                shutil.rmtree(self.jobs, ignore_errors=True)
        before = None if overwrite else self._question()
        if before is not None and (changed := before.difference(asked.identity)):
            raise Misuse(
                f"--out {self.path} holds a comparison with {changed}: name another --out, or replace it with "
                "--overwrite"
            )
        ids = asked.ids if before is None else list(dict.fromkeys([*before.ids, *asked.ids]))
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        self._write(replace(asked, ids=ids))  # first: it marks the folder as a comparison
        with writing(self.path):
            self.jobs.mkdir(exist_ok=True)

    def finish(self) -> None:
        with writing(self.path):
            for events in self.jobs.glob(f"*/{EVENTS}"):
                events.unlink()
        if (question := self._question()) is not None:
            self._write(replace(question, finished=True))

    def _write(self, question: AskedQuestion) -> None:
        write_json(self.path / QUESTION, asdict(question))

    def _question(self) -> AskedQuestion | None:
        path = self.path / QUESTION
        try:
            return from_json(read_json(path), AskedQuestion) if path.is_file() else None
        except WrongShape as error:
            raise RunError(f"{path} is damaged: {error}; replace the comparison with --overwrite") from None

    def locked(self) -> contextlib.AbstractContextManager[IO[str]]:
        """Hold the lock of the folder, which the job processes hold too, so that their end is waited for."""
        check_out(self.path, "comparison", holds=self._question() is not None)
        return locked(self.path, "comparison")

    # --- jobs ---

    def job_folder(self, job: Job) -> Path:
        return self.jobs / job.id

    def begin(self, job: Job, *, part: str) -> None:
        """Prepare the folder of a job for its process; a run in it that was stopped stays."""
        folder = self.job_folder(job)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in (OUTCOME, EVENTS):
                (folder / name).unlink(missing_ok=True)
        file = folder / JOB
        if file.is_file() and read_json(file).get("job") != asdict(job):
            raise RunError(f"{folder} holds another training run than {job.id}: replace all with --overwrite")
        write_json(file, {"job": asdict(job), "part": part})

    def outcome(self, job: Job) -> Outcome | None:
        """Return the outcome of a job; None if there is none, or if it is invalid."""
        outcome = _read_outcome(self.job_folder(job))
        return outcome if outcome is not None and outcome.job == job else None

    def outcomes(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Return the outcomes of these jobs in their order, and then those of earlier questions."""
        ids = {job.id for job in jobs}
        others = [_read_outcome(folder) for folder in sorted(self.jobs.iterdir()) if folder.name not in ids]
        return [outcome for outcome in [*map(self.outcome, jobs), *others] if outcome is not None]

    def invalid_outcomes(self, jobs: Sequence[Job]) -> list[Path]:
        """Return the files of outcomes that are damaged, were changed after they were written, or are another job's."""
        mine = {self.job_folder(job): job for job in jobs}

        def is_valid(folder: Path) -> bool:
            return (self.outcome(mine[folder]) if folder in mine else _read_outcome(folder)) is not None

        return [path for path in sorted(self.jobs.glob(f"*/{OUTCOME}")) if not is_valid(path.parent)]


def _read_outcome(folder: Path) -> Outcome | None:
    """Return the outcome of a job's folder; None if it is missing, damaged or another job's."""
    with contextlib.suppress(GlassformerError, OSError):
        outcome = Outcome.read(folder / OUTCOME)
        return outcome if outcome.job.id == folder.name else None
    return None
