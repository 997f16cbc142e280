"""Passes sizes and inputs to a student's class or function by the names of its parameters."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from glassformer.teaching.brick_check.contract import Offer
from glassformer.teaching.exercise import StudentError

CONFIG_NAMES = ("config", "cfg", "conf", "args", "hparams", "opts", "settings")
"""Names of a parameter that holds all sizes."""
ESSENTIAL = ("width", "heads", "hidden", "input_width")
"""Sizes that a brick with such a parameter is taken to read; parameters of unknown names take them in this order."""


class Config:
    """All sizes as attributes, under any of their names."""

    def __init__(self, offers: Mapping[str, Offer]) -> None:
        self._offers = offers

    def __getattr__(self, name: str) -> Any:
        key = key_of(name, self._offers)
        if key is None:
            raise AttributeError(f"the configuration has no {name}; it has {', '.join(self._offers)}")
        return self._offers[key].value


def key_of(name: str, offers: Mapping[str, Offer]) -> str | None:
    """Return the offer that a parameter's name stands for."""
    if name in offers:
        return name
    return next((key for key, offer in offers.items() if re.fullmatch(offer.names, name.lower())), None)


def bind(
    function: Callable[..., Any], offers: Mapping[str, Offer], by_place: Collection[str]
) -> tuple[dict[str, Any], list[Any], set[str]]:
    """Return the keyword and positional arguments for a callable, and the offers that it names.

    A parameter without default and of an unknown name takes the first offer of `by_place` that no other one names.
    """
    title = f"{function.__name__}.__init__" if inspect.isclass(function) else getattr(function, "__qualname__", "it")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise StudentError(f"{title} does not tell its arguments") from None
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = {one: key_of(one.name, offers) for one in signature.parameters.values() if one.kind not in variadic}
    free = [key for key in by_place if key in offers and key not in known.values()]
    named = {key for key in known.values() if key is not None}
    keywords: dict[str, Any] = {}
    positional: list[Any] = []
    for one, key in known.items():
        required = one.default is inspect.Parameter.empty
        if key is None and required and one.name in CONFIG_NAMES:
            value: Any = Config(offers)
            named |= offers.keys() & set(ESSENTIAL)
        elif key is None and required:
            if not free:
                raise StudentError(f"{title} wants {one.name}, which is unknown; known are: {', '.join(offers)}")
            key = free.pop(0)
            named.add(key)
            value = offers[key].value
        elif key is not None and (required or offers[key].always):
            value = offers[key].value
        else:
            continue
        if one.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            keywords[one.name] = value
    return keywords, positional, named
