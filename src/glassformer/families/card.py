"""The cards that every run leaves: all there is to know, for programs, and what it is, for a person to read."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.config.presets import (
    CLASSIFICATION,
    IMAGE,
    LABELLING,
    LANGUAGE_MODEL,
    MASKED,
    MIXED,
    MULTILABEL,
    REGRESSION,
    TABLE,
    TEXT,
    TRANSLATION,
    VECTORS,
)
from glassformer.config.resolve import KINDS_IN_WORDS, Config
from glassformer.config.version import VERSION
from glassformer.families.prepare import Prepared
from glassformer.models.build import learned_count, parameter_count, sized
from glassformer.runs.run import CHAT_TEMPLATE, environment, tokenizer_card
from glassformer.text.pipelines import MASK

WHAT = {
    LANGUAGE_MODEL: "A language model",
    MASKED: "A masked language model",
    CLASSIFICATION: "A classifier of",
    MULTILABEL: "A classifier, with several labels, of",
    REGRESSION: "A regressor on",
    TRANSLATION: "A translator",
    VECTORS: "A model of vectors of texts",
}
EXAMPLES = {TEXT: "'A text'", TABLE: "--file rows.csv", IMAGE: "image.png", MIXED: "--file rows.csv"}
"""What to predict of, by the kind of examples."""
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
    size = f"{training.batch_tokens} tokens" if config.task == TRANSLATION else training.batch_size
    tokens = " `tokenizer.json` the tokens," if card["tokenizer"] is not None else ""
    lines = [
        f"# {run.name}",
        "",
        f"{_what(config)} ({_parts(config)}; {size_in_words(card)}), trained with glassformer {card['glassformer']}.",
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
    elif config.task == MULTILABEL:
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
        use_of(run, config),
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


def use_of(run: Path, config: Config) -> str:
    """A command that uses a run."""
    chats = (run / CHAT_TEMPLATE).is_file()
    words = {
        LANGUAGE_MODEL: ("generate", "--chat 'A message'" if chats else "'A prompt'"),
        MASKED: ("predict", f"'A text with a {MASK} in it'"),
        TRANSLATION: ("translate", "'A text'"),
        VECTORS: ("embed", "'A text'"),
    }
    verb, example = words.get(config.task, ("predict", EXAMPLES[config.data.kind]))
    return f"glassformer {verb} {shlex.quote(str(run))} {example}"


def _what(config: Config) -> str:
    of = f" {KINDS_IN_WORDS[config.data.kind]}" if config.task in LABELLING else ""
    return WHAT[config.task] + of


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
