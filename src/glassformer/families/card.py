"""The card of a run: the contents of `glassformer.json` before the first step, and functions that read it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.config.plugins import parts_of
from glassformer.config.presets import TEXT, VERSION
from glassformer.config.resolve import Config
from glassformer.data.io.place import short_name
from glassformer.data.wording import counted
from glassformer.families.base import Prepared, Processor
from glassformer.models.build import learned_count, parameter_count, sized
from glassformer.runs.run import environment, tokenizer_card

BEFORE = "before the refit, on rows held out"
"""Label of a refitted run's scores, which belong to the run before the refit."""


def base_card(
    status: str, config: Config, processor: Processor, model: nn.Module, command: str | None
) -> dict[str, Any]:
    """Return the card entries that trained and imported runs share."""
    tokenizer, target = processor.tokenizer, processor.target_tokenizer
    return {
        "glassformer": VERSION,
        "status": status,
        "task": config.task,
        "labels": None if processor.answers is None else processor.answers.to_json(),
        "parameters": parameter_count(model),
        "tokenizer": None if tokenizer is None else tokenizer_card(tokenizer),
        "target_tokenizer": None if target is None else tokenizer_card(target),
        "command": command,
        "environment": environment(),
        "config": config.to_dict(),
    }


def run_card(
    config: Config, prepared: Prepared, model: nn.Module, command: str | None, source: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the card before the first step. `source`: the entry about the run that training starts from, or None."""
    return {
        **base_card("training", config, prepared, model, command),
        **({} if (positive := getattr(prepared.answers, "positive", None)) is None else {"positive": positive}),
        "learned": learned_count(model),
        "steps_per_epoch": prepared.task.steps_per_epoch,
        **({} if source is None else {"from": source}),
        "data": {
            "name": short_name(config.data.path or config.data.source_file or ""),
            "fingerprint": prepared.corpus.fingerprint,
            "report": prepared.corpus.report(),
            "tokens": prepared.tokens,
            **({} if (skipped := getattr(prepared.corpus, "skipped", None)) is None else {"skipped": dict(skipped)}),
        },
        **({} if config.data.kind == TEXT or prepared.features is None else {"features": prepared.features.to_json()}),
        **({"bricks": [part.card() for part in parts]} if (parts := parts_of(config)) else {}),
    }


def learned_of(card: Mapping[str, Any]) -> int:
    """Return the number of trained parameters of a run; if its card has no entry, the number of all parameters."""
    return int(card.get("learned", card["parameters"]))


def size_in_words(card: Mapping[str, Any]) -> str:
    """Return a phrase for the size of a run's model, with its trained parameters if not all were trained."""
    return sized(card["parameters"], learned_of(card))


def forgetting_line(source: Mapping[str, Any]) -> str | None:
    """Return the loss on the old run's validation text before and after the training run; None if not measured.

    `source`: what a card says of the old run.
    """
    measured = source.get("forgetting", {})
    if "after" not in measured:
        return None
    return (
        f"loss on the validation text of {Path(source['run']).name}: {measured['before']:.4f} before, "
        f"{measured['after']:.4f} after ({measured['unit']}, {counted(measured['windows'], 'window')})"
    )


def nothing_held_out(card: Mapping[str, Any]) -> bool:
    """Return whether a run was trained on all of its data."""
    return list(card["data"].get("tokens", ())) == ["train"]


def label_names(card: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return the kind of a run's labels and their names; None if the run predicts no labels.

    The kind is "classes", or "labels" if several may apply to an example.
    """
    labels = card.get("labels")
    if isinstance(labels, list):
        return "classes", labels
    return ("labels", labels["labels"]) if isinstance(labels, dict) and "labels" in labels else None
