"""The model card that every run leaves: what it is, for a person to read."""

import shlex
from pathlib import Path
from typing import Any

from glassformer.config.resolve import Config

KINDS = {"char": "characters", "word": "words", "bpe": "byte pairs", "other": "tokens made elsewhere"}


def model_card(run: Path, config: Config, card: dict[str, Any], words: str) -> str:
    model, training = config.model, config.training
    style = f", style {model.style}" if model.style else ""
    heads = f"{model.heads} heads, " if model.encoder == "transformer" else ""
    layers = f"{model.layers} layer{'s' * (model.layers != 1)}"
    lines = [
        f"# {run.name}",
        "",
        f"A language model ({model.encoder}{style}: {layers}, {heads}width {model.width}, "
        f"context {model.context}; {card['parameters']:,} parameters), trained with glassformer {card['glassformer']}.",
        "",
        "| | |",
        "|---|---|",
        f"| data | {card['data']['name']}: {card['data']['report']} |",
        f"| tokens | {KINDS[card['tokenizer']['kind']]}, vocabulary of {card['tokenizer']['vocab_size']:,} |",
        f"| training | {training.optimizer}, rate {training.lr:g}, batches of {training.batch_size}, "
        f"seed {training.seed}; {card.get('steps', 0):,} updates, {card.get('seconds', 0.0):.0f} s; {card['status']} |",
    ]
    if words:
        lines.append(f"| validation | {words} |")
    lines += [
        f"| machine | torch {card['environment']['torch']}, {card['environment']['platform']}, "
        f"GPU: {card['environment']['gpu']} |",
        "",
        "Use it:",
        "",
        "```sh",
        f"glassformer generate {shlex.quote(str(run))} 'A prompt'",
        f"glassformer evaluate {shlex.quote(str(run))}",
        "```",
        "",
        "`glassformer.json` holds every setting, `model.safetensors` the best weights, `tokenizer.json` the tokens,",
        "`metrics.jsonl` each update and validation, `checkpoints/` what going on needs. Nothing here is executable.",
        "",
    ]
    return "\n".join(lines)
