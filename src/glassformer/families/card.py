"""The cards that every run leaves: all there is to know, for programs, and what it is, for a person to read."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.config.presets import TEXT
from glassformer.config.resolve import Config
from glassformer.config.version import VERSION
from glassformer.families.base import FAMILIES, Prepared
from glassformer.models.build import learned_count, parameter_count, sized
from glassformer.runs.run import environment, tokenizer_card

BEFORE = "before the refit, on rows held out"
"""How the scores that a refitted run tells are labelled: they are not its own."""
KINDS = {"char": "characters", "word": "words", "bpe": "byte pairs", "other": "tokens made elsewhere"}


def run_card(
    config: Config, prepared: Prepared, model: nn.Module, command: str | None, begun: dict[str, Any] | None = None
) -> dict[str, Any]:
    """For programs, before the first step. `begun`: what is to be said of the run it begins from."""
    return {
        "glassformer": VERSION,
        "status": "training",
        "task": config.task,
        "labels": None if prepared.answers is None else prepared.answers.to_json(),
        "parameters": parameter_count(model),
        "learned": learned_count(model),
        **({} if begun is None else {"from": begun}),
        "data": {
            "name": Path(config.data.path or config.data.source_file or "").name,
            "fingerprint": prepared.corpus.fingerprint,
            "report": prepared.corpus.report(),
            "tokens": prepared.tokens,
        },
        "tokenizer": None if prepared.tokenizer is None else tokenizer_card(prepared.tokenizer),
        **({} if config.data.kind == TEXT or prepared.features is None else {"features": prepared.features.to_json()}),
        "target_tokenizer": None if prepared.target_tokenizer is None else tokenizer_card(prepared.target_tokenizer),
        "command": command,
        "environment": environment(),
        "config": config.to_dict(),
    }


def model_card(run: Path, config: Config, card: dict[str, Any], words: str, reads: str = "") -> str:
    """`words`: how good it is; `reads`: what it reads, where that is not just texts."""
    training = config.training
    family = FAMILIES[config.task]
    size = family.batch_size_in_words(config)
    tokens = " `tokenizer.json` the tokens," if card["tokenizer"] is not None else ""
    lines = [
        f"# {run.name}",
        "",
        f"{family.describe(config)} ({_parts(config)}; {size_in_words(card)}), "
        f"trained with glassformer {card['glassformer']}.",
        "",
        "| | |",
        "|---|---|",
        f"| data | {card['data']['name']}: {card['data']['report']} |",
        *_read(card, reads),
        *_begun(card),
        f"| training | {training.optimizer}, rate {training.lr:g}, batches of {size}, "
        f"seed {training.seed}; {card.get('steps', 0):,} updates, {card.get('seconds', 0.0):.0f} s; {card['status']} |",
    ]
    if isinstance(card["labels"], list):
        lines.insert(-2, f"| classes | {', '.join(card['labels'])} |")
    elif isinstance(card["labels"], dict) and "labels" in card["labels"]:
        lines.insert(-2, f"| labels | {', '.join(card['labels']['labels'])} |")
    if words:
        lines.append(f"| validation | {words} |")
    if "before_refit" in card:
        lines.append(f"| {BEFORE} | {card['before_refit']['words']} (in {', '.join(card['before_refit']['runs'])}) |")
        if "test" in card:
            lines.append(f"| test | {card['words']['test']} |")
        lines.append("| refit | it has learned from all rows but the test: it has no validation score of its own |")
    lines += [
        f"| machine | torch {card['environment']['torch']}, {card['environment']['platform']}, "
        f"GPU: {card['environment']['gpu']} |",
        "",
        "Use it:",
        "",
        "```sh",
        family.command(run, config),
        f"glassformer evaluate {shlex.quote(str(run))}" + (" DATA" if nothing_held_out(card) else ""),
        "```",
        "",
        f"`glassformer.json` holds every setting, `model.safetensors` the weights,{tokens}",
        "`metrics.jsonl` each update and validation, `checkpoints/` what going on needs. Nothing here is executable.",
        "",
    ]
    return "\n".join(lines)


def learned_of(card: Mapping[str, Any]) -> int:
    """How many of a run's parameters were trained: all, where its card says nothing else."""
    return int(card.get("learned", card["parameters"]))


def size_in_words(card: Mapping[str, Any]) -> str:
    """How large a run's model is, in words."""
    return sized(card["parameters"], learned_of(card))


def nothing_held_out(card: dict[str, Any]) -> bool:
    """Whether a run has learned from all its rows."""
    return "before_refit" in card and "test" not in card


def _read(card: dict[str, Any], reads: str) -> list[str]:
    """Rows on what the model reads."""
    lines = [f"| reads | {reads} |"] if reads else []
    if (tokens := card["tokenizer"]) is not None:
        lines.append(f"| tokens | {KINDS[tokens['kind']]}, vocabulary of {tokens['vocab_size']:,} |")
    return lines


def _begun(card: dict[str, Any]) -> list[str]:
    """A row on the run whose weights were taken."""
    if (source := card.get("from")) is None:
        return []
    runs = [source, *([source["decoder"]] if "decoder" in source else [])]
    named = " and ".join(f"{Path(one['run']).name} ({one['task']}; weights {one['weights'][:12]})" for one in runs)
    return [f"| began from | {named}; new: {', '.join(source['new']) or 'nothing'} |"]


def _parts(config: Config) -> str:
    """The encoder with those of its settings that say how large it is and what it is made of."""
    shown = ("style", "layers", "heads", "width", "decoder", "attention", "weighting", "ngrams", "pool", "context")
    used = [name for name in shown if not config.idle(f"model.{name}")]
    named = [f"{name} {value}" for name in used if (value := getattr(config.model, name)) is not None]
    return f"{config.model.encoder}: {', '.join(named)}" if named else config.model.encoder
