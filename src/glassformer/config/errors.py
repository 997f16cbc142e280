"""The errors a person can cause. The command line prints each as one line and exits with its code."""


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


TOO_SMALL = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says of a machine on a GPU and on a CPU, in plain RuntimeErrors."""


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in TOO_SMALL)


def error_line(error: Exception) -> str:
    """What went wrong in code that may be a person's own, in a line."""
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}".rstrip(": ")
