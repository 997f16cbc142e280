"""Process the parts of a folder on a Ray cluster, with Ray Data's `map_batches` over their names.

Each worker loads the model once. Only paths and manifest entries go through Ray; rows stay in their files. One worker
processes a whole part, as without Ray. If the worker dies, another one processes the part again.
"""

import importlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glassformer.config.errors import GlassformerError, MissingPackage, RunError, first_line
from glassformer.config.plugins import load_plugins
from glassformer.config.progress import BYTE, progress_of
from glassformer.families.base import Loaded
from glassformer.families.load import load
from glassformer.families.predict import InputCounts
from glassformer.runs.json_shape import from_json
from glassformer.verbs.parts.manifest import PartEntry
from glassformer.verbs.parts.options import PartOptions
from glassformer.verbs.parts.work import FileWork, Part, PartResult, write_part

RETRIES = 3
"""Number of times that a part is tried again after its worker died."""
OURS = "GLASSFORMER_"
"""Prefix of environment variables that workers need too: limits, plugins, and whether weights are verified."""


@contextmanager
def answer_on_ray(
    run: Path, options: PartOptions, work: FileWork, parts: Sequence[Part]
) -> Iterator[Iterator[PartResult]]:
    """Yield the results of parts from a Ray cluster.

    This uses the cluster that `RAY_ADDRESS` names, a cluster that is already running here, or a new local one.
    """
    ray, data = import_ray()
    begins = not ray.is_initialized()
    if begins:
        variables = {name: value for name, value in os.environ.items() if name.startswith(OURS)}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": variables})
    try:
        room = ray.cluster_resources()
        gpus = 0 if options.device == "cpu" else int(room.get("GPU", 0))
        answers = data.from_items([_to_row(part) for part in parts], override_num_blocks=len(parts)).map_batches(
            PartWorker,
            fn_constructor_args=(os.path.abspath(run), options.device, options.precision, work),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(options.jobs or gpus or int(room.get("CPU", 1)), len(parts))),
            num_gpus=int(gpus > 0),
            num_cpus=int(not gpus),
            ray_remote_args_fn=lambda: {"max_task_retries": RETRIES},  # deprecated as a keyword argument
        )

        def results() -> Iterator[PartResult]:
            sizes = {part.name: part.size for part in parts}
            done, total, progress = 0, sum(sizes.values()), progress_of(BYTE)
            for row in answers.iter_rows():
                result = _from_row(row)
                yield result
                done += sizes[result.part]
                progress(done, total)

        yield results()
    except ray.exceptions.RayError as error:
        what = f"Ray lost the cluster, or {RETRIES + 1} workers over one part ({first_line(error)[:200]})"
        raise RunError(f"{what}: finished parts are kept; run the command again, maybe with fewer --jobs") from None
    finally:
        if begins:
            ray.shutdown()


class PartWorker:
    """Worker process of the cluster, which loads the model once."""

    def __init__(self, run: str, device: str, precision: str, work: FileWork) -> None:
        self.place = run, device, precision
        self.work = work
        self.loaded: Loaded | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Return the result of the one part in a batch, as JSON."""
        fields = json.loads(batch["part"][0])
        part = Part(**{**fields, "path": Path(fields["path"]), "output": Path(fields["output"])})
        try:
            result = asdict(write_part(self._load(), self.work, part))
        except GlassformerError as error:  # other parts would fail with the same error
            result = {"stopped": str(error)}
        return {"result": [json.dumps(result)]}

    def _load(self) -> Loaded:
        if self.loaded is None:
            load_plugins()
            run, device, precision = self.place
            self.loaded = load(run, device, precision=precision)
        return self.loaded


def _to_row(part: Part) -> dict[str, str]:
    """Return a part as a row, with absolute paths because workers may run in another folder."""
    places = {"path": os.path.abspath(part.path), "output": os.path.abspath(part.output)}
    return {"part": json.dumps({**asdict(part), **places})}


def _from_row(row: dict[str, str]) -> PartResult:
    result = json.loads(row["result"])
    if "stopped" in result:
        raise RunError(result["stopped"])
    entry = None if result["entry"] is None else from_json(result["entry"], PartEntry)
    counts = from_json(result["counts"], InputCounts)
    return PartResult(result["part"], entry, tuple(result["remarks"]), result["failure"], counts)


def import_ray() -> tuple[Any, Any]:
    """Return the modules `ray` and `ray.data`, with their logging reduced to errors."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        ray, data = (importlib.import_module(name) for name in ("ray", "ray.data"))
    except ImportError:
        raise MissingPackage.needed("--on ray", "Ray", "ray") from None
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    data.DataContext.get_current().enable_progress_bars = False
    return ray, data
