"""Process a folder of parts into a folder of outputs: streamed, resumable and divided into shards.

Each part is written to a temporary file, renamed, and committed to the manifest of its shard. Running the same command
again, with any number of shards, processes only the parts that are not committed.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from glassformer.config.errors import GlassformerError, Misuse, RunError, read_failure
from glassformer.config.messages import say
from glassformer.config.progress import BYTE, Watch, progress_of, watched
from glassformer.data.wording import EXAMPLES, counted, listed
from glassformer.families.base import Loaded
from glassformer.families.load import load, opened_run
from glassformer.families.predict import InputCounts
from glassformer.models.modules import device_of
from glassformer.runs.run import Run
from glassformer.runs.weight_files import digest_of
from glassformer.verbs.parts.manifest import Identity, Manifest
from glassformer.verbs.parts.on_ray import answer_on_ray, import_ray
from glassformer.verbs.parts.options import PartOptions
from glassformer.verbs.parts.work import FileWork, Part, PartResult, parts_in, write_part


@dataclass(frozen=True)
class RowsWritten:
    """Summary of the files that were written."""

    rows: int
    """Number of rows in the parts that were processed now."""
    parts: int
    skipped: int
    """Number of parts that were finished before."""
    seconds: float
    out: str
    failed: tuple[str, ...] = ()
    counts: InputCounts = field(default_factory=InputCounts)
    """Rows without an answer, unused columns, and deviations of the rows from the training data."""

    is_file: bool = False
    """True if the output is a single file rather than a folder."""

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        names = ("rows", "parts", "skipped", "seconds", "out")
        written = {name: getattr(self, name) for name in names}
        speed = {"failed": list(self.failed), "rows_per_second": self.rows_per_second}
        return {**written, **speed, **self.counts.to_dict()}

    def __str__(self) -> str:
        before = f"; {counted(self.skipped, 'part')} done before" if self.skipped else ""
        digits = ".3g" if self.rows_per_second < 100 else ",.0f"
        rate = f" in {self.seconds:,.1f} s: {self.rows_per_second:{digits}} rows/s"
        speed = "" if self.is_file or not self.rows else rate
        parts = "" if self.is_file else f" of {counted(self.parts, 'part')}"
        return f"{counted(self.rows, 'row')}{parts} written to {self.out}{speed}{before}"


class PartsFailed(GlassformerError):
    """Raised after all other parts are done if some parts could not be read."""

    def __init__(self, line: str, written: RowsWritten) -> None:
        super().__init__(line)
        self.written = written


Results = AbstractContextManager[Iterator[PartResult]]
Answer = Callable[[Sequence[Part]], Results]
"""Function that processes parts, one after the other or in parallel. The results come in any order."""


@contextmanager
def answer_here(
    load_run: Callable[[], Loaded], work: FileWork, parts: Sequence[Part]
) -> Iterator[Iterator[PartResult]]:
    """Yield the results of parts that are processed in this process, one after the other."""
    loaded = load_run()

    def results() -> Iterator[PartResult]:
        done, total = 0, sum(part.size for part in parts)
        for part in parts:
            with watched(_share_of(part, done, total)):
                result = write_part(loaded, work, part)
            yield result
            done += part.size

    yield results()


def _share_of(part: Part, before: int, total: int) -> Watch:
    """Return a listener that converts the rows of a part to bytes, because the total number of rows is unknown."""
    progress = progress_of(BYTE)

    def hear(done: int, of: int, unit: str) -> None:
        if unit != BYTE and of:
            progress(before + part.size * done // of, total)

    return hear


def write_rows(
    run: "str | os.PathLike[str] | Run | Loaded",
    work: FileWork,
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | TextIO,
    options: PartOptions,
) -> RowsWritten:
    """Apply the work to a file or to each part of a folder, and write a file or a folder."""
    file, out = os.fspath(file), os.fspath(out) if isinstance(out, os.PathLike) else out
    work.refuse_format()
    folder = opened_run(run)
    work.check(folder)
    options.check(file)
    if isinstance(run, Loaded):
        options = replace(options, device=str(device_of(run.model)), precision=run.precision)

    def load_here() -> Loaded:
        return run if isinstance(run, Loaded) else load(folder, options.device, precision=options.precision)

    if os.path.isdir(file):
        if not isinstance(out, str):
            raise Misuse(f"{file} is a folder of parts: --out names the folder to write to")
        answer: Answer = partial(answer_here, load_here, work)
        if options.on == "ray":
            import_ray()  # raises if Ray is not installed, before anything is written
            answer = partial(answer_on_ray, folder.path, options, work)
        return write_parts(folder, work, Path(file), Path(out), answer, options)
    loaded = load_here()
    began = time.monotonic()
    counts = work.write(loaded, file, out)
    return RowsWritten(counts.rows, 1, 0, time.monotonic() - began, str(out), counts=counts, is_file=True)


def write_parts(run: Run, work: FileWork, folder: Path, out: Path, answer: Answer, options: PartOptions) -> RowsWritten:
    """Process every unfinished part of a shard. Raise `PartsFailed` at the end if parts could not be read."""
    parts = options.share.select(parts_in(folder, out, work))
    told = {**work.options(), "precision": options.precision}
    identity = Identity(work.verb, str(run.path), _weights(run), told)
    remarks, failures, counts = Remarks(), dict[str, str](), InputCounts()
    with Manifest.opened(out, options.share, identity, overwrite=options.overwrite) as manifest:
        todo = list(_undone(manifest, work, parts))
        with answer(todo) if todo else nullcontext(iter(())) as results:
            began = time.monotonic()
            for result in results:
                remarks.hear(result)
                if result.entry is None:
                    failures[result.part] = result.failure
                else:
                    manifest.commit(result.entry)
                    counts.add(result.counts)
            seconds = time.monotonic() - began
    remarks.tell()
    skipped, failed = len(parts) - len(todo), tuple(sorted(failures))
    written = RowsWritten(counts.rows, len(todo) - len(failed), skipped, seconds, str(out), failed, counts)
    if failed:
        line = f"{len(failed):,} of {counted(len(parts), 'part')} could not be read ({listed(failed, EXAMPLES)})"
        them = "it" if len(failed) == 1 else "them"
        raise PartsFailed(f"{line}: {failures[failed[0]]}; mend {them}, and give the same command again", written)
    return written


def _weights(run: Run) -> str:
    """Return the digest of a run's weights, which identifies the run."""
    try:
        return digest_of(run.path)
    except OSError as error:
        raise RunError(read_failure(run.weights_path, error)) from None


def _undone(manifest: Manifest, work: FileWork, parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts that are not finished. Outputs of finished parts are read again to verify them."""
    read, total, progress = 0, sum(part.size for part in parts), progress_of(BYTE)
    for part in parts:
        if manifest.find(part.name, part.path, work.output_name(part.name)) is None:
            yield part
        read += part.size
        progress(read, total)


class Remarks:
    """Remarks about parts. Of similar remarks, only the first is reported."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.more = 0

    def hear(self, result: PartResult) -> None:
        if result.failure:
            say(f"{result.part}: not done: {result.failure}")
        for line in result.remarks:
            kind = re.sub(r"\S*/|\d[\d,]*", "", line.replace(result.part, ""))
            self.more += kind in self.kinds
            if kind not in self.kinds:
                say(line if result.part in line else f"{result.part}: {line}")
            self.kinds.add(kind)

    def tell(self) -> None:
        if self.more:
            say(f"and {counted(self.more, 'remark')} like these on other parts")
