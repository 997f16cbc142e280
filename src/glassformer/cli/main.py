"""Entry point of `glassformer VERB …`. It runs the verb and turns an error into one line and an exit code."""

import importlib
import itertools
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from glassformer.cli.options import VERB_TABLES, filled
from glassformer.cli.terminal.show import mute, open_closed_streams, say, screens
from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import GlassformerError, Misuse, error_line, is_strict, out_of_memory, unknown
from glassformer.config.messages import listening
from glassformer.config.plugins import load_plugins, use
from glassformer.config.presets import VERSION
from glassformer.text.escaping import on_one_line

VERBS: dict[str, str] = {verb: table["brief"] for verb, table in VERB_TABLES.items() if "brief" in table}
VERBS_WITHOUT_BRICKS = {"grade", "lesson"}
"""Verbs that refuse --brick: `*.py` in a folder of submissions may expand to `--brick=FILE.py`, the name of a file."""

HELP = filled(
    files("glassformer.cli").joinpath("help.txt").read_text("utf-8"),
    version=VERSION,
    verbs="\n".join(f"  {verb:10} {summary}" for verb, summary in VERBS.items()),
    models="\n".join(f"  {name:11} {info.summary}" for name, info in ENCODERS.items()),
)
INSTANT = {
    **dict.fromkeys(("-h", "--help", "help"), HELP),
    **dict.fromkeys(("-V", "--version"), f"glassformer {VERSION}\n"),
}
"""Output of words that need no verb, such as --version."""


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    with screens():
        try:
            _load_plugins(argv)
            code = _run(argv)
            sys.stdout.flush()
            return code
        except BrokenPipeError:  # the reader of our output, such as `head`, has closed the pipe
            for stream in (sys.stdout, sys.stderr):
                mute(stream)
            return 0
        except GlassformerError as error:
            if os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes, one per machine prints the error
                _say_error(str(error))
            return error.exit_code
        except BaseException as error:  # includes panics in Rust, which are not an `Exception`
            _say_error(_unexpected(error, argv))
            return 1


def _say_error(line: str) -> None:
    """Print the one line of an error; a closed stderr does not change the exit code."""
    try:
        print(f"glassformer: {on_one_line(line)}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        mute(sys.stderr)


def _unexpected(error: BaseException, argv: list[str]) -> str:
    """Return the line for an unexpected error. The traceback of an internal error is written to a file."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped"
    if out_of_memory(error):
        return (
            "out of memory: lower --batch-size (for translation --batch-tokens), --model.context or --size, or raise "
            "--training.accumulation_steps"
        )
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    if is_strict():
        raise error
    return f"stopped on an error of its own: {error_line(error)}; {_leave_traceback(error, argv)}"


def _leave_traceback(error: BaseException, argv: list[str]) -> str:
    """Write a traceback to a file for a bug report; return a phrase that names the file."""
    lines = [f"glassformer {VERSION}, Python {sys.version}", f"{argv!r}", *traceback.format_exception(error)]
    try:
        first, *_ = os.environ.get("GLASSFORMER_CACHE", "").split(os.pathsep)
        folder = Path(first or tempfile.gettempdir()).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"glassformer-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        file.write_text("\n".join(lines), encoding="utf-8", errors="backslashreplace")
    except (OSError, RuntimeError):  # a full disk, no home
        return "its traceback could not be written"
    return f"the traceback is in {file}: please report it"


def _load_plugins(argv: list[str]) -> None:
    """Load plugins and bricks. One that cannot be imported stops every verb, but not --help or --version."""
    try:
        load_plugins()
        use(*_bricks(argv))
    except Misuse as error:
        if argv and argv[0] not in INSTANT and not {"-h", "--help"}.intersection(argv):
            raise
        _say_error(str(error))


def _bricks(argv: list[str]) -> list[str]:
    """Return the files that --brick names."""
    if not argv or argv[0] not in VERBS or argv[0] in VERBS_WITHOUT_BRICKS:
        return []
    words = argv[: argv.index("--")] if "--" in argv else argv
    after = [word for before, word in itertools.pairwise(words) if before == "--brick"]
    return [*after, *(word.removeprefix("--brick=") for word in words if word.startswith("--brick="))]


def module_of(verb: str) -> str:
    return f"glassformer.cli.{VERB_TABLES[verb].get('module', verb)}"


def _run(argv: list[str]) -> int:
    verb = argv[0] if argv else "--help"
    if verb in INSTANT:
        print(INSTANT[verb], end="")
        return 0
    if verb.startswith("-") and (after := next((word for word in argv if word in VERBS), None)):
        raise Misuse(f"{verb} goes after the verb: glassformer {after} … {verb}")
    if verb not in VERBS:
        raise Misuse(unknown("verb", verb, VERBS))
    module = importlib.import_module(module_of(verb))
    run: Callable[[list[str]], None] = getattr(module, f"run_{verb}", None) or module.run
    try:
        with listening(say):
            run(argv[1:])
    except SystemExit as stop:  # raised by argparse after --help, or by a verb that has reported its failure
        return int(stop.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
