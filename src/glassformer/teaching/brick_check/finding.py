"""Which brick is meant, and which contract it is held against."""

import inspect
import os
import re
from collections.abc import Callable
from typing import Any

from torch import nn

from glassformer.config.errors import Misuse, unknown
from glassformer.config.plugins import import_file, kind_of_part, named_in, parts_in, split_name
from glassformer.encoders.base import Encoder
from glassformer.teaching.brick_check import (
    attention,
    encoder,
    feed_forward,
    functions,
    norm,
    pooling,
    positions,
    recurrent,
)
from glassformer.teaching.brick_check.contract import Contract

CONTRACTS: list[Contract] = [
    contract
    for kind in (pooling, attention, norm, positions, feed_forward, recurrent, functions, encoder)
    for contract in kind.CONTRACTS
]
"""Of two that a name fits, the first counts."""
KINDS = list(dict.fromkeys(contract.name for contract in CONTRACTS))
GROUPS = list(dict.fromkeys(contract.group for contract in CONTRACTS if contract.group))


def find_brick(brick: "Callable[..., Any] | str | os.PathLike[str]") -> Callable[..., Any]:
    """A class or a function, or the one that `FILE.py:Name` names."""
    if isinstance(brick, str | os.PathLike):
        file, name = split_name(os.fspath(brick))
        module = import_file(file)
        registered = parts_in(module)
        if name is None and len(registered) != 1:
            raise Misuse(f"which brick of {brick}? Name it: {brick}:Attention")
        brick = registered[0] if name is None else named_in(module, file, name)
    if inspect.isclass(brick) and issubclass(brick, nn.Module):
        return brick
    if inspect.isfunction(brick) or inspect.isbuiltin(brick):
        return brick
    raise Misuse(f"a brick is a class of nn.Module or a function, not {brick!r}"[:200])


def find_contracts(brick: Callable[..., Any], like: str | None) -> list[Contract]:
    """Those that it may be meant to fulfil: one, or those of a group."""
    is_function = not inspect.isclass(brick)
    fitting = [contract for contract in CONTRACTS if contract.is_function == is_function]
    if like is None and not is_function and issubclass(brick, Encoder):  # type: ignore[arg-type]
        return [encoder.ENCODER]
    name = re.sub(r"[_\W]", "", brick.__name__).lower()
    kind = like or kind_of_part(brick)
    if kind is None:
        named = [contract for contract in fitting if re.fullmatch(contract.pattern, name)]
        if not named:
            raise Misuse(f"what should {brick.__name__} be? Say --like (like=) one of {', '.join(KINDS)}")
        if named[0] is attention.ATTENTION and attention.needs_memory(brick):
            return [attention.CROSS_ATTENTION]
        return named[:1]
    spelled = kind.lower().replace("_", "-").replace(" ", "-")
    spelled = {"layernorm": "layer-norm", "rmsnorm": "rms-norm", "elman": "rnn"}.get(spelled, spelled)
    known = [contract for contract in CONTRACTS if spelled in (contract.name, contract.group)]
    if not known:
        raise Misuse(unknown("kind of brick", kind, [*KINDS, *GROUPS]))
    found = [contract for contract in known if contract in fitting]
    if not found:
        ours, theirs = ("class", "function") if is_function else ("function", "class")
        raise Misuse(f"{known[0].name} is held against a {ours}, not a {theirs}")
    named = [contract for contract in found if re.fullmatch(contract.pattern, name)]
    return named[:1] or found
