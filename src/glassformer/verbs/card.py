"""The model card that every run leaves: what it is, for a person to read."""

import shlex
from pathlib import Path
from typing import Any

from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, REGRESSION
from glassformer.config.resolve import Config, used_keys

WHAT = {LANGUAGE_MODEL: "A language model", CLASSIFICATION: "A classifier of texts", REGRESSION: "A regressor on texts"}
KINDS = {"char": "characters", "word": "words", "bpe": "byte pairs", "other": "tokens made elsewhere"}


def model_card(run: Path, config: Config, card: dict[str, Any], words: str) -> str:
    training = config.training
    verb, example = ("generate", "A prompt") if config.task == LANGUAGE_MODEL else ("predict", "A text")
    lines = [
        f"# {run.name}",
        "",
        f"{WHAT[config.task]} ({_parts(config)}; {card['parameters']:,} parameters), trained with glassformer "
        f"{card['glassformer']}.",
        "",
        "| | |",
        "|---|---|",
        f"| data | {card['data']['name']}: {card['data']['report']} |",
        f"| tokens | {KINDS[card['tokenizer']['kind']]}, vocabulary of {card['tokenizer']['vocab_size']:,} |",
        f"| training | {training.optimizer}, rate {training.lr:g}, batches of {training.batch_size}, "
        f"seed {training.seed}; {card.get('steps', 0):,} updates, {card.get('seconds', 0.0):.0f} s; {card['status']} |",
    ]
    if isinstance(card["labels"], list):
        lines.insert(-2, f"| classes | {', '.join(card['labels'])} |")
    if words:
        lines.append(f"| validation | {words} |")
    lines += [
        f"| machine | torch {card['environment']['torch']}, {card['environment']['platform']}, "
        f"GPU: {card['environment']['gpu']} |",
        "",
        "Use it:",
        "",
        "```sh",
        f"glassformer {verb} {shlex.quote(str(run))} '{example}'",
        f"glassformer evaluate {shlex.quote(str(run))}",
        "```",
        "",
        "`glassformer.json` holds every setting, `model.safetensors` the best weights, `tokenizer.json` the tokens,",
        "`metrics.jsonl` each update and validation, `checkpoints/` what going on needs. Nothing here is executable.",
        "",
    ]
    return "\n".join(lines)


def _parts(config: Config) -> str:
    """The encoder with those of its settings that say how large it is and what it is made of."""
    shown = ("style", "layers", "heads", "width", "weighting", "ngrams", "pool", "context")
    used = [name for name in shown if name in used_keys(config.model.encoder) and not config.idle(f"model.{name}")]
    named = [f"{name} {value}" for name in used if (value := getattr(config.model, name)) is not None]
    return f"{config.model.encoder}: {', '.join(named)}"
