"""Options of the verbs that answer a folder of parts, and what they say of it."""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from glassformer.cli.options import arguments_of
from glassformer.cli.terminal.inputs import check_folder, check_out
from glassformer.cli.terminal.show import print_json, say
from glassformer.config.errors import Misuse
from glassformer.verbs.parts.options import PartOptions

if TYPE_CHECKING:
    from glassformer.verbs.parts.folder import RowsWritten

NAMES = ("format", "shard", "on", "jobs", "overwrite")


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


def answer_parts(options: argparse.Namespace, answer: "Callable[..., RowsWritten]") -> None:
    """Answer a folder of parts, and print the number of rows and the speed."""
    from glassformer.cli.terminal.show import RowProgress
    from glassformer.verbs.parts.folder import PartsFailed

    try:
        with RowProgress():
            written = answer(**arguments_of(options, answer), say=say)
    except PartsFailed as failed:
        _tell(failed.written, as_json=options.json)
        raise
    _tell(written, as_json=options.json)


def _tell(written: "RowsWritten", *, as_json: bool) -> None:
    say(str(written))
    if as_json:
        print_json(written.to_dict())
