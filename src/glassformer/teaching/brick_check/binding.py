"""Arguments by the names that people give them."""

import inspect
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

from glassformer.teaching.brick_check.contract import Offer
from glassformer.teaching.exercise import StudentError

CONFIGS = ("config", "cfg", "conf", "args", "hparams", "opts", "settings")
"""An object that holds all sizes."""
ESSENTIAL = {"width", "heads", "hidden", "input_width"}
"""Those that a brick surely takes from there; whether it looks at others, nobody knows."""


def key_of(name: str, offers: Mapping[str, Offer]) -> str | None:
    """What an argument of this name is."""
    return next((key for key, offer in offers.items() if name == key or name.lower() in offer.names), None)


def bind(
    function: Callable[..., Any], offers: Mapping[str, Offer], by_place: Collection[str]
) -> tuple[dict[str, Any], list[Any], set[str]]:
    """The keywords, and the positional arguments, that a callable is given of what is offered; which offers it names.

    An argument that must be given and that nobody knows takes the first offer of `by_place` that no other names.
    """
    parameters = [
        one
        for one in _parameters(function)
        if one.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]
    known = {one.name: key_of(one.name, offers) for one in parameters}
    free = [key for key in offers if key in by_place and key not in known.values()]
    keywords: dict[str, Any] = {}
    positional: list[Any] = []
    named = {key for key in known.values() if key is not None}
    for one in parameters:
        required, key = one.default is inspect.Parameter.empty, known[one.name]
        if key is None and required and one.name in CONFIGS:
            value: Any = SimpleNamespace(**{name: o.value for key, o in offers.items() for name in (*o.names, key)})
            named |= offers.keys() & ESSENTIAL
        elif key is None and required:
            if not free:
                listed = ", ".join(offers)
                raise StudentError(f"{_called(function)} wants {one.name}, which nobody gives it; given are: {listed}")
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


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise StudentError(f"{_called(function)} does not tell its arguments") from None


def _called(function: Callable[..., Any]) -> str:
    return f"{function.__name__}.__init__" if inspect.isclass(function) else getattr(function, "__qualname__", "it")
