"""The architectures that can come in and go out, by their `model_type`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from glassformer.config.resolve import Config
from glassformer.exchange.huggingface.architecture import Architecture, Unsupported, require_settings, short
from glassformer.exchange.huggingface.bart import Bart, Marian
from glassformer.exchange.huggingface.bert import Bert, DistilBert, Roberta, XlmRoberta
from glassformer.exchange.huggingface.causal import Gpt2, Llama, Qwen3

ARCHITECTURES: dict[str, Architecture] = {
    each.model_type: each
    for each in (Gpt2(), Llama(), Qwen3(), Bert(), DistilBert(), Roberta(), XlmRoberta(), Marian(), Bart())
}


class TheirConfig(NamedTuple):
    """A run of ours as an architecture of theirs."""

    architecture: Architecture
    name: str
    """The class, as `architectures` in config.json names it."""
    values: dict[str, Any]
    """The rest of config.json."""


def architecture_of(config: Mapping[str, Any], source: str) -> tuple[Architecture, str]:
    """The family that a config.json names, and the class."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    for each in ARCHITECTURES.values():
        if isinstance(name, str) and name in each.tasks:
            return each, name
    able = ", ".join(known for each in ARCHITECTURES.values() for known in each.tasks)
    if name is None:
        raise Unsupported(
            f"{source}: architectures in config.json is {short(names)}, but must be a list with one of {able}"
        )
    raise Unsupported(f"{source} is a {short(name)}, which cannot be imported; these can: {able}")


def their_config(config: Config, vocab: int, imported_as: str | None = None) -> TheirConfig:
    """Return the first architecture that can express a run; if none can, raise what the nearest one lacks.

    Several architectures can express the same run, such as BERT and RoBERTa. `imported_as`, the class that an imported
    run came from, is tried first.
    """
    if config.model.encoder != "transformer":
        raise Unsupported(f"Hugging Face has no {config.model.encoder} model; --to onnx exports any run")
    nearest: Unsupported | None = None
    for each in sorted(ARCHITECTURES.values(), key=lambda architecture: imported_as not in architecture.tasks):
        name = each.name_for(config.task)
        if name is None:
            continue
        try:
            require_settings(config, each.choices(config.task), each.name)
            return TheirConfig(each, name, each.write(config, vocab))
        except Unsupported as error:
            nearest = error if nearest is None or error.differences < nearest.differences else nearest
    if nearest is None:
        raise Unsupported(f"no architecture there has a model of the task {config.task}; try --to onnx")
    raise Unsupported(f"{nearest}; {_advice(config)}--to onnx exports any run")


def _advice(config: Config) -> str:
    """What would have made a run exportable that reads a text both ways."""
    bert = ARCHITECTURES[Bert.model_type]
    if bert.name_for(config.task) is None or config.model.encoder != "transformer" or config.model.causal:
        return ""
    before = ", and what it begins from" if config.is_finetuned else ""
    return f"train it with --style bert{before}; "
