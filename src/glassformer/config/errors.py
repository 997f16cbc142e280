"""What a person is told: the errors they can cause, the names they may have meant, and what happens on the way.

The command line prints an error as one line and exits with its code.
"""

import difflib
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping


class GlassformerError(Exception):
    """Work that was rightly asked for and failed: a damaged run, a full disk, a loss that is not a number."""

    exit_code = 1


class Misuse(GlassformerError):
    """Something asked for that cannot be: an unknown setting, a missing file, a text that is not text."""

    exit_code = 2


class SettingError(Misuse):
    """A setting, or two of them together, that cannot be."""


class DataError(Misuse):
    """Data that cannot be read, or not be learned from."""


class NotThisRun(Misuse, AttributeError):
    """Something asked of a run that runs of another task can do."""


class RunError(GlassformerError):
    """A run folder that is damaged, or cannot be written."""


class NotARun(Misuse):
    """A path that was given as a run and is none."""


class TrainingFailed(GlassformerError):
    """Training that cannot go on."""


STRICT = "GLASSFORMER_STRICT"
"""Set in the environment, as tests do: an error of our own is raised, and what cannot be made is one."""
TOO_SMALL = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says of a machine on a GPU and on a CPU, in plain RuntimeErrors."""


def is_strict() -> bool:
    return bool(os.environ.get(STRICT))


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in TOO_SMALL)


def nearest(wrong: str, right: Iterable[str], old: Mapping[str, str] = {}) -> str | None:
    """The name a person most likely meant, if any is close. `old`: names of before, and what they are called now."""
    names = {name.lower(): name for name in reversed([*right, *old])}
    match = next(iter(difflib.get_close_matches(wrong.lower(), names, n=1, cutoff=0.5)), None)
    return None if match is None else old.get(names[match], names[match])


def unknown(what: str, wrong: str, right: Iterable[str], old: Mapping[str, str] = {}) -> str:
    """'unknown model "lsmt"; did you mean lstm? (one of: …)'."""
    names = list(right)
    meant = nearest(wrong, names, old)
    hint = f"; did you mean {meant}?" if meant else ""
    listed = f" (one of: {', '.join(names)})" if len(names) <= 32 else ""
    return f"unknown {what} '{wrong}'{hint}{listed}"


def refuse_unknown(what: str, name: str, right: Collection[str], error: type[Misuse] = SettingError) -> None:
    """Refuse a name that is none of the right ones."""
    if name not in right:
        raise error(unknown(what, name, right))


Say = Callable[[str], None]
"""Who is told what happens on the way, line by line."""


def silent(anything: object) -> None:
    """A listener that does not want to know."""


WITHIN = ("glassformer", "contextlib")
"""What stands between a call and its warning: this package, and what decorates its functions."""


def warn(line: str) -> None:
    """A listener in a program, where nobody reads the lines of a terminal: a warning, at the call into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in WITHIN:
        level, frame = level + 1, frame.f_back
    warnings.warn(line, stacklevel=level)


def first_line(error: BaseException) -> str:
    """What an error says, its first line; one that says nothing, by its kind."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def read_failure(file: object, error: BaseException, kind: str = "", remedy: str = "save or download it again") -> str:
    """Why a file cannot be read: in the system's words, where it has some; else it is damaged (or not of its `kind`),
    and what to do, with what its reader says behind it.
    """
    if isinstance(error, FileNotFoundError) or getattr(error, "strerror", None):
        return f"cannot read {file}: {getattr(error, 'strerror', None) or 'No such file or directory'}"
    other = f", or no {kind}" if kind else ""
    return f"{file} is damaged{other}: {remedy} ({first_line(error)[:200]})"


def with_article(value: object) -> str:
    """What an object is: `an int`, `a list`, `None`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def is_overflow(error: Exception) -> bool:
    """Whether a model could not be built since its sizes are beyond all counting."""
    return "overflow" in repr(error).lower()


def error_line(error: BaseException) -> str:
    """What went wrong in code that may be a person's own, in one line."""
    kind, line = type(error).__name__, first_line(error)
    return kind if line == kind else f"{kind}: {line}"
