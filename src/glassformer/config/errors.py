"""Errors that users can cause, and suggestions for misspelt names.

The command line prints an error as one line and exits with its code.
"""

import difflib
import os
import re
from collections.abc import Collection, Iterable
from typing import Self


class GlassformerError(Exception):
    """A failure of a valid request: a damaged run, a full disk, a loss that is not a number."""

    exit_code = 1


class Misuse(GlassformerError):
    """An invalid request: an unknown setting, a missing file, a text that is not text."""

    exit_code = 2


class SettingError(Misuse):
    """An invalid setting, or an invalid combination of two."""


class DataError(Misuse):
    """Data that cannot be read or learned from."""


class MissingPackage(DataError):
    """An optional package is not installed. The work can be skipped and done after installing it."""

    @classmethod
    def needed(cls, task: str, package: str, extra: str) -> Self:
        """Return the error that names the package, and the extra to install it with."""
        return cls(f"{task} needs {package}: pip install 'glassformer[{extra}]'")


class NotThisRun(Misuse, AttributeError):
    """A request that only runs of another task support."""


class RunError(GlassformerError):
    """A run folder that is damaged or cannot be written."""


class NotARun(Misuse):
    """A path that is not a run, where a run is required."""


class TrainingFailed(GlassformerError):
    """Training that cannot continue."""


STRICT = "GLASSFORMER_STRICT"
"""Environment variable for tests: internal errors are raised, and failed parts of a result are errors."""
TOO_SMALL = ("out of memory", "can't allocate memory", "not enough memory")
"""Parts of torch's messages for insufficient memory on a GPU and a CPU, which are plain RuntimeErrors."""


CLOSE, CLOSE_IF_SHORT, SHORT_NAME, CANDIDATES = 0.6, 0.5, 3, 8
"""Minimum similarity of two names for a suggestion (lower for names of at most SHORT_NAME letters), and the number of
closest names to examine.
"""
SECTION = re.compile(r"(--)?(.*\.)?")
"""Leading dashes and the section before the last part of a name."""


def is_strict() -> bool:
    return bool(os.environ.get(STRICT))


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in TOO_SMALL)


def nearest(wrong: str, right: Iterable[str]) -> str | None:
    """Return the name a person most likely meant, None if none is close.

    A section that both names share does not count: `training.metric` is not close to `training.device`.
    """
    names = {name.lower(): name for name in reversed(list(right))}
    closest = difflib.get_close_matches(wrong.lower(), names, n=CANDIDATES, cutoff=CLOSE_IF_SHORT)
    return next((names[name] for name in closest if _is_close(wrong.lower(), name)), None)


def _is_close(wrong: str, name: str) -> bool:
    """Return whether two names are close without the section, or the dashes of a flag, that they share."""
    section = SECTION.match(wrong)
    start = section.end() if section is not None and name.startswith(section[0]) else 0
    least = CLOSE_IF_SHORT if len(wrong) - start <= SHORT_NAME else CLOSE
    return difflib.SequenceMatcher(None, name[start:], wrong[start:]).ratio() >= least


def unknown(what: str, wrong: str, right: Iterable[str]) -> str:
    """Return a message such as 'unknown model "lsmt"; did you mean lstm? (one of: …)'."""
    names = list(right)
    meant = nearest(wrong, names)
    hint = f"; did you mean {meant}?" if meant else ""
    listed = f" (one of: {', '.join(names)})" if len(names) <= 32 else ""
    return f"unknown {what} '{wrong}'{hint}{listed}"


def refuse_unknown(what: str, name: str, right: Collection[str], error: type[Misuse] = SettingError) -> None:
    """Raise `error` unless the name is one of `right`."""
    if name not in right:
        raise error(unknown(what, name, right))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; its class name if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def read_failure(file: object, error: BaseException, kind: str = "", remedy: str = "save or download it again") -> str:
    """Return why a file cannot be read: the system's reason, or that it is damaged or not of its `kind`.

    In the second case, the message includes the remedy and the reader's own message.
    """
    if isinstance(error, FileNotFoundError) or getattr(error, "strerror", None):
        return f"cannot read {file}: {getattr(error, 'strerror', None) or 'No such file or directory'}"
    other = f", or no {kind}" if kind else ""
    return f"{file} is damaged{other}: {remedy} ({first_line(error)[:200]})"


def with_article(value: object) -> str:
    """Return the type of an object with its article: `an int`, `a list`, `None`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def is_overflow(error: Exception) -> bool:
    """Return whether a model could not be built because a size exceeds torch's limits."""
    return "overflow" in repr(error).lower()


def error_line(error: BaseException) -> str:
    """Return an exception, possibly from a user's code, as one line."""
    kind, line = type(error).__name__, first_line(error)
    return kind if line == kind else f"{kind}: {line}"
