"""Limits for files; a file beyond a limit is refused with a message on how to raise the limit.

Set them with `--limit pixels=400M` on the command line, `GLASSFORMER_LIMITS=pixels=400M,columns=200000` in the
environment, or `gf.limits(pixels=400_000_000)` in Python. All three use the environment variable, so that child
processes have the same limits.
"""

import dataclasses
import functools
import json
import math
import os
import re
import stat
from typing import Any

from glassformer.config.errors import DataError, SettingError, refuse_unknown
from glassformer.config.setting import Rule, parse, setting
from glassformer.config.units import size

VARIABLE = "GLASSFORMER_LIMITS"
TIMES = 50
"""Compression ratio that is always allowed: text and images compress less, decompression bombs far more."""
SMALL = 2**26
"""Unpacked bytes that are always allowed; reading them takes less than a second."""
STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Paths of pipes from the shell, as for <(…), which end by themselves."""
AMOUNT = re.compile(r"([0-9]*\.?[0-9]+)\s*(?:([kMGT])(i?))?B?", re.IGNORECASE)


class LimitExceeded(DataError):
    """A file that would take more than a limit allows."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Maximum sizes of files and their parts."""

    unpacked_bytes: int = setting(2**30, least=1)
    """what a file may unpack to, or a table hold, where that is more than 50 times the file"""
    ratio: int = setting(100, least=1)
    """compression ratio of a packed file that unpacks to more than 64 MiB"""
    columns: int = setting(10_000, least=1)
    """columns of a table"""
    field_bytes: int = setting(2**25, least=1)
    """one field, line or attribute, and a text that a tokenizer makes longer"""
    pixels: int = setting(50_000_000, least=1)
    """pixels of one image"""
    json_bytes: int = setting(2**28, least=1)
    """a file of JSON, YAML or tokens, which is read whole"""
    submission_bytes: int = setting(2**20, least=1)
    """a file of Python that is graded"""
    notebook_bytes: int = setting(2**26, least=1)
    """a notebook that is graded, with its pictures"""
    json_depth: int = setting(100, least=1)
    """lists, objects or elements within one another"""
    memory_share: float = setting(1.0, least=0.01)
    """times the free memory that weights, gradients and optimiser of a training may take"""


FIELDS = {field.name: field for field in dataclasses.fields(Limits)}


def limits(**changes: Any) -> Limits:
    """Return the current limits, after changing those given for this process and its child processes."""
    if changes:
        before = os.environ.get(VARIABLE, "")
        text = ",".join([*filter(None, [before]), *(f"{name}={value}" for name, value in changes.items())])
        _parse(text)  # raises an error before an invalid limit applies
        os.environ[VARIABLE] = text
    return _parse(os.environ.get(VARIABLE, ""))


@functools.lru_cache(maxsize=16)
def _parse(text: str) -> Limits:
    """Parse `pixels=400M,columns=200000`; the last value of a name counts."""
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = (word.strip() for word in part.partition("="))
        refuse_unknown("limit", name, FIELDS)
        rule: Rule = FIELDS[name].metadata["rule"]
        match = AMOUNT.fullmatch(value)
        if not sign or match is None:
            raise SettingError(f"limit {name} wants a number, such as {name}=400M or 4GB, not {value!r}")
        digits, unit, binary = match.groups()
        amount = float(digits) * (1024 if binary else 1000) ** (" kmgt".index(unit.lower()) if unit else 0)
        whole = round(amount) if FIELDS[name].type is int else amount
        values[name] = parse(f"limit {name}", FIELDS[name], whole)
        if rule.least is not None and values[name] < rule.least:
            raise SettingError(f"limit {name} is {value}, but must be {rule.least:g} or more")
    return Limits(**values)


def most_of(name: str, file_bytes: int = 0) -> float:
    """Return the value of a limit; a packed file of `file_bytes` may hold proportionally more."""
    return max(float(getattr(limits(), name)), TIMES * file_bytes)


def refuse_bomb(path: str | os.PathLike[str], unpacked: float, packed: int) -> None:
    """Raise `LimitExceeded` for a packed file whose compression ratio is too high for text and tables."""
    if unpacked > SMALL:
        refuse_beyond("ratio", math.ceil(unpacked / max(1, packed)), f"{path} unpacks to {{}} times its size and more")


def refuse_beyond(name: str, amount: float, what: str, *, file_bytes: int = 0) -> None:
    """Raise `LimitExceeded` if the amount exceeds a limit; `{}` in `what` ("a.png has {}") stands for the amount.

    A packed file of `file_bytes` may hold proportionally more.
    """
    most = most_of(name, file_bytes)
    if amount <= most:
        return
    is_exact = "and more" not in what and " about {}" not in what
    needed = round(amount) * (1 if is_exact else 2)  # reading stopped early, so the total is unknown
    raise LimitExceeded(
        f"{what.replace('{}', _amount(name, amount))}, more than the limit of {_amount(name, most)}: "
        f"--limit {name}={needed} raises it"
    )


def _amount(name: str, amount: float) -> str:
    """Format an amount in the unit of the limit."""
    return size(amount) if name.endswith("_bytes") else f"{amount:,.4g}" if amount < 1 else f"{amount:,.0f}"


def limits_help() -> str:
    """Return every limit with its default, for `--help`."""
    usual = Limits()
    return ", ".join(f"{name} {_amount(name, getattr(usual, name))}" for name in FIELDS)


# --- files ---


def refuse_endless(path: str | os.PathLike[str], *, streams: bool = False) -> int:
    """Return the size of a file; raise `DataError` for a pipe or a device, which may never end.

    With `streams`, pipes from the shell are allowed. A missing file raises OSError.
    """
    status = os.stat(path)
    piped = streams and str(path).startswith(STREAMS) and not stat.S_ISBLK(status.st_mode)
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or piped:
        return status.st_size
    raise DataError(f"{path} is a pipe or a device, and a file is wanted: save it as a file first")


def read_bytes(path: str | os.PathLike[str], limit: str = "json_bytes", *, streams: bool = False) -> bytes:
    """Read a file into memory, enforcing the size limit."""
    length = refuse_endless(path, streams=streams)
    refuse_beyond(limit, length, f"{path} is {{}}")
    with open(path, "rb") as file:
        read = file.read(getattr(limits(), limit) + 1) if streams else file.read()
    refuse_beyond(limit, len(read), f"{path} is {{}} and more")
    return read


def read_text(path: str | os.PathLike[str], limit: str = "json_bytes", *, streams: bool = False) -> str:
    r"""Read a UTF-8 file into memory, enforcing the size limit, with line ends as `\n`."""
    return read_bytes(path, limit, streams=streams).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def parse_json(text: str, name: str, **options: Any) -> Any:
    """Parse JSON; raise `ValueError` if it is invalid and `LimitExceeded` if it is nested too deep.

    `name`: the name of the JSON in errors. `options`: as in `json.loads`.
    """
    try:
        value = json.loads(text, **options)
    except RecursionError:
        raise LimitExceeded(f"{name}: lists and objects nested deeper than can be read") from None
    opened = text.count("[") + text.count("{")
    if opened > 1 and opened > limits().json_depth:
        _refuse_deep(value, name)
    return value


def _refuse_deep(value: Any, name: str) -> None:
    depth, level = 0, [value]
    while level := [inner for inner in level if isinstance(inner, dict | list)]:
        depth += 1
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
    refuse_beyond("json_depth", depth, f"{name}: lists and objects within one another, {{}} deep")
