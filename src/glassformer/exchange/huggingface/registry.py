"""The architectures that can come in and go out, by their `model_type`."""

from collections.abc import Mapping
from typing import Any

from glassformer.config.presets import CLASSIFICATION, LABELLING
from glassformer.config.resolve import Config
from glassformer.exchange.huggingface.architecture import Architecture, Unsupported, short
from glassformer.exchange.huggingface.bart import Bart
from glassformer.exchange.huggingface.bert import Bert
from glassformer.exchange.huggingface.gpt2 import Gpt2
from glassformer.exchange.huggingface.llama import Llama, Qwen3
from glassformer.exchange.huggingface.marian import Marian

ARCHITECTURES: dict[str, Architecture] = {
    each.model_type: each for each in (Gpt2(), Llama(), Qwen3(), Bert(), Marian(), Bart())
}


def architecture_of(config: Mapping[str, Any], source: str) -> tuple[Architecture, str]:
    """The family that a config.json names, and the class."""
    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named else None
    for each in ARCHITECTURES.values():
        if isinstance(name, str) and name in each.tasks:
            return each, name
    able = ", ".join(one for each in ARCHITECTURES.values() for one in each.tasks)
    if name is None:
        raise Unsupported(
            f"{source}: architectures in config.json is {short(named)}, but must be a list with one of {able}"
        )
    what = short(name)
    raise Unsupported(f"{source} is a {what}, which cannot be imported; these can: {able}")


def written(config: Config, vocab: int) -> tuple[Architecture, str, dict[str, Any]]:
    """The architecture that is as this run is, its class, and config.json; or why the nearest one is not."""
    nearest: Unsupported | None = None
    task = CLASSIFICATION if config.task in LABELLING else config.task
    for each in ARCHITECTURES.values():
        if task not in each.tasks.values():
            continue
        try:
            return each, *each.write(config, vocab)
        except Unsupported as error:
            nearest = error if nearest is None or error.differences < nearest.differences else nearest
    assert nearest is not None
    raise Unsupported(f"{nearest}; --to onnx exports any run")
