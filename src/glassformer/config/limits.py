"""Limits: how much a file may make of itself before it is refused, in one line that says how to raise the limit.

`--limit pixels=400M` on the command line, `GLASSFORMER_LIMITS=pixels=400M,columns=200000` in the environment,
`gf.limits(pixels=400_000_000)` in Python: all three are the environment's variable, so that processes which a verb
starts have the same.
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
"""A packed file may always hold so many times its own bytes: text and pictures shrink less, bombs much more."""
SMALL = 2**26
"""Bytes that a compressed file of any size may unpack to; reading them takes less than a second."""
STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Where the shell puts what it pipes in, as <(…): read once, these end by themselves."""
AMOUNT = re.compile(r"([0-9]*\.?[0-9]+)\s*(?:([kMGT])(i?))?B?", re.IGNORECASE)


class LimitExceeded(DataError):
    """A file that would take more than a limit allows."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a file may be, at most."""

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
    """The limits that hold; those named here from now on, for this process and those that it starts."""
    if changes:
        before = os.environ.get(VARIABLE, "")
        text = ",".join([*filter(None, [before]), *(f"{name}={value}" for name, value in changes.items())])
        _parse(text)  # what cannot be is refused before it holds
        os.environ[VARIABLE] = text
    return _parse(os.environ.get(VARIABLE, ""))


@functools.lru_cache(maxsize=16)
def _parse(text: str) -> Limits:
    """`pixels=400M,columns=200000`; of one name, the last counts."""
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
    """What a limit allows; `file_bytes`: the size of a packed file, which may hold more in proportion."""
    return max(float(getattr(limits(), name)), TIMES * file_bytes)


def refuse_bomb(path: str | os.PathLike[str], unpacked: float, packed: int) -> None:
    """Raise `LimitExceeded` for a packed file whose compression ratio is too high for text and tables."""
    if unpacked > SMALL:
        refuse_beyond("ratio", math.ceil(unpacked / max(1, packed)), f"{path} unpacks to {{}} times its size and more")


def refuse_beyond(name: str, amount: float, what: str, *, file_bytes: int = 0) -> None:
    """Refuse `what` ("a.png has {}") if it is of more than a limit allows; `{}` stands for the amount.

    `file_bytes`: the size of a packed file, which may hold more in proportion.
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
    """An amount of what a limit counts, for a person to read."""
    return size(amount) if name.endswith("_bytes") else f"{amount:,.4g}" if amount < 1 else f"{amount:,.0f}"


def limits_help() -> str:
    """Every limit with its default, for `--help`."""
    usual = Limits()
    return ", ".join(f"{name} {_amount(name, getattr(usual, name))}" for name in FIELDS)


# --- files ---


def refuse_endless(path: str | os.PathLike[str], *, streams: bool = False) -> int:
    """Refuse a pipe or a device, which may never end; gives a file's size. What is not there raises OSError.

    `streams`: what the shell pipes in will do.
    """
    status = os.stat(path)
    piped = streams and str(path).startswith(STREAMS) and not stat.S_ISBLK(status.st_mode)
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or piped:
        return status.st_size
    raise DataError(f"{path} is a pipe or a device, and a file is wanted: save it as a file first")


def read_bytes(path: str | os.PathLike[str], limit: str = "json_bytes", *, streams: bool = False) -> bytes:
    """A file, whole."""
    length = refuse_endless(path, streams=streams)
    refuse_beyond(limit, length, f"{path} is {{}}")
    with open(path, "rb") as file:
        read = file.read(getattr(limits(), limit) + 1) if streams else file.read()
    refuse_beyond(limit, len(read), f"{path} is {{}} and more")
    return read


def read_text(path: str | os.PathLike[str], limit: str = "json_bytes", *, streams: bool = False) -> str:
    """A file of UTF-8, whole, its line ends as \\n."""
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
