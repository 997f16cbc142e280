"""The folder of a comparison: what it asks, and a folder for each training with what it came to."""

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
"""What happens to a job as it goes; gone once the comparison is finished."""
FIRST_KEYS = ("data.same_text", "data.decimal", "data.rare_values", "data", "mode", "part")
"""Parts of a comparison's identity in which a difference is reported first. With other rules for reading the data, its
fingerprint differs too."""


@dataclass(frozen=True)
class AskedQuestion:
    """What the folder of a comparison was made for."""

    identity: dict[str, Any]
    """What all jobs share: the settings by dotted key, and the comparison's own options."""
    ids: list[str]
    """The names of the jobs that were asked for."""
    finished: bool = False

    def difference(self, identity: Mapping[str, Any]) -> str | None:
        """Return the first thing in which another comparison differs, in words; None if nothing does."""
        before = self.identity
        for key in (*FIRST_KEYS, *sorted({*before, *identity} - {*FIRST_KEYS})):
            if before.get(key) != identity.get(key) or (key in before) != (key in identity):
                was, wanted = ("unset" if asked.get(key) is None else asked[key] for asked in (before, identity))
                return "other data" if key == "data" else f"another {key} ({was}, not {wanted})"
        return None


class Folder:
    """OUT: question.json, jobs/<id>/ (job.json, run/, log.txt, outcome.json), and the table once there is one; of a
    budget in CPU seconds, jobs/<row>.updates.json."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def choose(cls, out: "str | os.PathLike[str] | None", data: str, asked: AskedQuestion) -> "Folder":
        """Return the folder `out`; if None, the folder of the same comparison that was stopped, else a new one."""

        def is_same(path: Path) -> bool:
            try:
                return cls(path)._question() == asked
            except RunError:  # damaged: whatever it was, it cannot go on
                return False

        return cls(free_folder(f"compare-{data_stem(data)}", is_same) if out is None else Path(out))

    def open(self, asked: AskedQuestion, *, overwrite: bool) -> None:
        """Make it, or see that what is there belongs to the same question."""
        path = self.path
        if overwrite:
            with writing(path):
                shutil.rmtree(path / "jobs", ignore_errors=True)
        there = None if overwrite else self._question()
        if there is not None and (changed := there.difference(asked.identity)):
            raise Misuse(
                f"--out {path} holds a comparison with {changed}: name another --out, or replace it with --overwrite"
            )
        before = [] if there is None else there.ids
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        # first: it makes the folder that of a comparison
        self._write(replace(asked, ids=list(dict.fromkeys([*before, *asked.ids]))))
        with writing(path):
            (path / "jobs").mkdir(exist_ok=True)

    def finish(self) -> None:
        with writing(self.path):
            for events in self.path.glob(f"jobs/*/{EVENTS}"):
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

    # --- its jobs ---

    def job_folder(self, job: Job) -> Path:
        return self.path / "jobs" / job.id

    def begin(self, job: Job, *, part: str) -> Path:
        """A job's folder as the process that does it finds it; a half-trained run in it stays."""
        folder = self.job_folder(job)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in (OUTCOME, EVENTS):
                (folder / name).unlink(missing_ok=True)
        there = folder / JOB
        if there.is_file() and read_json(there).get("job") != asdict(job):
            raise RunError(f"{folder} holds another training than {job.id} asks for: replace all with --overwrite")
        write_json(there, {"job": asdict(job), "part": part})
        return folder

    def outcome(self, job: Job) -> Outcome | None:
        """What a job came to, if it is done, and was this very one."""
        outcome = _read_outcome(self.job_folder(job))
        return outcome if outcome is not None and outcome.job == job else None

    def outcomes(self, jobs: Sequence[Job]) -> list[Outcome]:
        """What is done: outcomes of these jobs in their order, and then of those that were asked for before."""
        mine = [outcome for job in jobs if (outcome := self.outcome(job)) is not None]
        ids = {job.id for job in jobs}
        others = [_read_outcome(folder) for folder in sorted((self.path / "jobs").iterdir()) if folder.name not in ids]
        return [*mine, *(outcome for outcome in others if outcome is not None)]

    def invalid_outcomes(self, jobs: Sequence[Job]) -> list[Path]:
        """Return the files of outcomes that are damaged, were changed after they were written, or are another job's."""
        mine = {self.job_folder(job): job for job in jobs}

        def is_valid(folder: Path) -> bool:
            return (self.outcome(mine[folder]) if folder in mine else _read_outcome(folder)) is not None

        return [path for path in sorted(self.path.glob(f"jobs/*/{OUTCOME}")) if not is_valid(path.parent)]

    # --- one at a time ---

    def locked(self) -> "contextlib.AbstractContextManager[IO[str]]":
        """Held by the comparison and by its trainings, so that nobody else writes here; those of a comparison that was
        killed are waited for.
        """
        check_out(self.path, "comparison", holds=self._question() is not None)
        return locked(self.path, "comparison")


def _read_outcome(folder: Path) -> Outcome | None:
    """Return the outcome of a job's folder; None if it is missing, damaged or another job's."""
    with contextlib.suppress(GlassformerError, OSError):
        outcome = Outcome.read(folder / OUTCOME)
        return outcome if outcome.job.id == folder.name else None
    return None
