"""Options of the verbs that answer a folder of parts, and what they say of it."""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Option, flag
from glassformer.cli.terminal.inputs import check_folder, check_out
from glassformer.cli.terminal.show import print_json, say
from glassformer.config.errors import Misuse
from glassformer.verbs.parts.options import ENGINES, PartOptions, Shard

if TYPE_CHECKING:
    from glassformer.verbs.parts.folder import RowsWritten

NAMES = ("format", "shard", "on", "jobs", "overwrite")


def part_options(*kinds: str) -> dict[str, list[Option]]:
    """`kinds`: what a verb can write."""
    return {
        "a folder of parts": [
            Option("--format", choices=kinds, help="what every part is written as (default: as it is read, if that "
                   "can be written)"),
            Option("--shard", check=Shard.parse, metavar="I/N", help="take every N-th part only, from the I-th on: for "
                   "N processes or machines that share a disk"),
            Option("--on", choices=ENGINES, default="local", help="where: this process, or the workers of a Ray "
                   "cluster (pip install 'glassformer[ray]')"),
            Option("--jobs", type=int, metavar="N", help="how many workers of Ray (default: as many as there is room "
                   "for)"),
            flag("--overwrite", "replace what another run, or other options, wrote to --out"),
        ]
    }  # fmt: skip


def takes_parts(options: argparse.Namespace, endings: tuple[str, ...] = ()) -> bool:
    """Return whether --file is a folder of parts; refuse at once what cannot be.

    `endings`: of --out, where it is a file.
    """
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    is_folder = options.file is not None and os.path.isdir(options.file)
    if is_folder and options.out is None:
        raise Misuse(f"{options.file} is a folder of parts: --out names the folder to write to")
    if is_folder:
        check_folder(options.out)
    elif options.format is not None:
        raise Misuse("--format is for a folder of parts: of one file, the name of --out says it")
    elif options.file is None and any(getattr(options, name) not in (None, False, "local") for name in NAMES):
        raise Misuse("--shard, --on, --jobs and --overwrite go with --file FOLDER")
    if options.file is not None:
        PartOptions(options.shard, options.on, options.jobs, options.overwrite).check(options.file)
    if not is_folder:
        check_out(options.out, endings)
    return is_folder


def answer_parts(options: argparse.Namespace, answer: "Callable[..., RowsWritten]", **more: Any) -> None:
    """Answer a folder of parts, and say how many rows, and how fast. `more`: a verb's own options."""
    from glassformer.cli.terminal.show import RowProgress
    from glassformer.verbs.parts.folder import PartsFailed

    how = {name: getattr(options, name) for name in (*NAMES, "device")}
    try:
        with RowProgress():
            written = answer(options.run, options.file, options.out, **how, **more, say=say)
    except PartsFailed as failed:
        _tell(failed.written, as_json=options.json)
        raise
    _tell(written, as_json=options.json)


def _tell(written: "RowsWritten", *, as_json: bool) -> None:
    say(str(written))
    if as_json:
        print_json(written.to_dict())
