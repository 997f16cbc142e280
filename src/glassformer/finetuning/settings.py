"""Settings for fine-tuning from other runs (`--from`).

The runs fix the settings of the weights that are copied. The other settings get defaults for fine-tuning, such as a low
learning rate and few epochs.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from glassformer.config import presets
from glassformer.config.errors import SettingError
from glassformer.config.model_section import DECODERS, RECURRENT
from glassformer.config.resolve import BUDGETS, FIELDS, Config
from glassformer.config.setting import value_text
from glassformer.finetuning.sources import FinetuneSource, FinetuneSources

FREE = (
    "from_run", "decoder_from", "context", "dropout", "word_dropout", "pool", "head_layers", "head_hidden",
    "head_activation", "head_bias", "head_transform", "causal", "unit", "vectors", "vectors_frozen", "tied",
    "causal_mask", "decoder", "decoder_layers", "attention", "input_feeding", "shared",
)  # fmt: skip
"""Model settings that do not describe the body, or that are handled separately."""
SIDES = ("model.encoder", "model.layers", "model.bidirectional", "model.initial", "model.size", "model.style",
         "model.vocab", "model.initialisation")  # fmt: skip
"""Settings in which the encoder and the decoder of a translator may differ."""
OF_PAIRS = ("decoder", "decoder_layers", "attention", "input_feeding", "tied", "head_bias")
FIXED_POSITIONS = ("learned", "onehot")
"""Kinds of positions whose number is fixed in training."""
RATE = 0.02
"""Learning rate times the width of the model, since wider models need smaller updates."""
HEAD_RATE = 1e-2
"""Learning rate if only the head is trained."""
PARTS_RATE = 3e-4
"""Learning rate of a translator with a new part, which is trained from random weights."""
FURTHER = 0.1
"""Learning rate of a model that continues its own task on text it knows, as a share of the usual rate."""
EPOCHS, MOST_EPOCHS, UPDATES = 3, 20, 200
"""Minimum and maximum default number of epochs, and the number of updates that epochs between them should reach."""
HEAD_EPOCHS, HEAD_UPDATES = 10, 1000
"""Minimum number of epochs, and number of updates to reach, if only the head is trained, which takes little time."""
BATCH, SMALL_BATCH, FEW_ROWS = 32, 16, 1000
WARMUP = 100_000
"""Warm-up updates: more than any run has, so that the maximum of a tenth of the run applies."""


@dataclass(frozen=True)
class Finetuning:
    """A request to fine-tune from other runs. `said`: the settings of the user, by dotted key."""

    sources: FinetuneSources
    said: Mapping[str, Any]

    @staticmethod
    def of(said: Mapping[str, Any]) -> "Finetuning | None":
        """Return the request in these settings, by dotted key; None if they name no run to fine-tune from."""
        runs = said.get("model.from_run"), said.get("model.decoder_from")
        return None if runs == (None, None) else Finetuning(FinetuneSources.of(*runs), said)

    @property
    def task(self) -> str | None:
        """Default task for texts without labels; None if the run suggests none."""
        if self.sources.decoder is not None:
            return presets.DECODER_TASK
        return self.sources.first.task if presets.reads_stream(self.sources.first.task) else None

    @property
    def encoder(self) -> str:
        return self.sources.first.config.model.encoder

    def settings(self, task: str | None, rows: int | None = None) -> dict[str, Any]:
        """Return the settings that follow from the runs, by dotted key; refuse contradicting settings of the user."""
        task = task or presets.DEFAULT_TASK
        fixed = fixed_settings(self.sources, task)
        refuse_others(self.sources, fixed, self.said)
        training = first_training(self.sources, task, self.said, rows)
        return {**first_settings(self.sources, task, self.said), **training, **fixed}

    def finish(self, config: Config) -> Config:
        """Return the configuration with a tenth of the usual rate for a model that continues its own task.

        `train` raises it to the usual rate if the initial loss shows that the model does not know the new text.
        """
        if presets.labels_examples(config.task) and config.data.kind == presets.MIXED:
            raise SettingError(f"{self.sources.first} reads only texts: omit the other columns with --data.kind text")
        usual, chosen = config.training.lr, self.said.get("training.lr")
        if usual is None or chosen is not None or not presets.reads_stream(config.task):
            return config
        return replace(config, training=replace(config.training, lr=further_rate(usual)))


# --- settings of the model ---


def fixed_settings(sources: FinetuneSources, task: str) -> dict[str, Any]:
    """Return the settings that the copied weights determine, by dotted key."""
    refuse_pair(sources, task)
    if not presets.has_decoder(task):
        return {**_body(sources.first), **_head(sources.first, task)}
    if sources.whole:
        shared = {
            "model.shared": sources.first.config.get("model.shared")
        }  # without effect there if it has two tokenizers
        return {**_body(sources.first), **_used(sources.first, OF_PAIRS), **shared}
    fixed = {} if sources.body is None else _body(sources.body)
    if sources.decoder is not None:
        fixed |= _decoder(sources, sources.decoder)
    elif fixed["model.embed"] == "onehot":
        fixed |= {"model.shared": False, "model.tied": False}
    return fixed


def _body(source: FinetuneSource) -> dict[str, Any]:
    body = _used(source, (key[6:] for key in FIELDS if key.startswith("model.") and key[6:] not in FREE))
    return {**body, **{key: source.config.get(key) for key in ("model.size", "model.style", "model.vocab")}}


def _used(source: FinetuneSource, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the named settings that have an effect in the run, by dotted key."""
    keys = [f"model.{name}" for name in names]
    return {key: source.config.get(key) for key in keys if source.config.idle(key) is None}


def _head(source: FinetuneSource, task: str) -> dict[str, Any]:
    """Return the settings of a head that scores tokens if it is kept; for labels, whether the body is causal."""
    if source.task == task and presets.reads_stream(task):
        return _used(source, ("tied", "head_bias", "head_transform", "causal_mask"))
    if presets.labels_examples(task):
        model = source.config.model
        return {"model.causal": model.causal_mask if presets.predicts_next_token(source.task) else model.causal}
    return {}


def _decoder(sources: FinetuneSources, decoder: FinetuneSource) -> dict[str, Any]:
    """Return the settings that a language model determines as the decoder of a translator."""
    own = _body(decoder)
    both = [key for key in own if key not in SIDES]
    if sources.body is not None:
        there = _body(sources.body)
        for key in both:
            if key in there and there[key] != own[key]:
                mine, theirs = value_text(own[key]), value_text(there[key])
                raise SettingError(f"{key} must be the same: {sources.body} has {theirs}, and {decoder} {mine}")
    model = decoder.config.model
    fixed = {key: own[key] for key in both}
    fixed |= {
        "model.decoder": model.encoder,
        "model.decoder_layers": model.layers,
        "model.tied": decoder.config.get("model.tied"),
    }
    fixed |= {"model.head_bias": model.head_bias, "model.vocab": _rows(sources, decoder)}
    if sources.body is not None or model.embed == "onehot":
        fixed["model.shared"] = False  # each side has its own word vectors
    return fixed


def _rows(sources: FinetuneSources, decoder: FinetuneSource) -> int | None:
    """Return `model.vocab` for the word vectors of both sides; None if it equals the number of tokens."""
    if sources.body is None:
        return decoder.config.model.vocab
    if all(source.rows == source.tokenizer.vocab_size for source in sources.runs):
        return None
    if sources.body.rows != decoder.rows:
        rows = f"{sources.body} has {sources.body.rows:,} and {decoder} {decoder.rows:,}"
        raise SettingError(f"both sides must have the same number of word vectors, but {rows}")
    return decoder.rows


def refuse_pair(sources: FinetuneSources, task: str) -> None:
    """Refuse runs that cannot be fine-tuned for this task."""
    source, decoder = sources.first, sources.decoder
    if decoder is not None and not presets.has_decoder(task):
        raise SettingError(f"{decoder} becomes the decoder of a translator, but the task is {task}: pass --from")
    if presets.predicts_next_token(task) and not presets.predicts_next_token(source.task):
        raise SettingError(f"{source} learned {source.task}, but a language model begins from a language model")
    if presets.predicts_hidden_tokens(task) and source.tokenizer.mask is None:
        raise SettingError(f"{source} has a tokenizer without MASK, which --task {presets.settings_task(task)} needs")
    width = source.config.model.embed_width
    has_own_width = presets.pools_tokens(source.task) and width not in (None, source.config.model.width)
    if has_own_width and not presets.labels_examples(task):
        raise SettingError(f"{source} has model.embed_width {width}, which only tasks with labels can have")
    if decoder is not None and decoder.config.model.encoder not in DECODERS:
        known = ", ".join(DECODERS)
        raise SettingError(f"{decoder} is a {decoder.config.model.encoder}, but a decoder must be one of {known}")


def first_settings(sources: FinetuneSources, task: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return defaults of model settings that users may override, by dotted key."""
    source = sources.first
    model = source.config.model
    starts: dict[str, Any] = {"model.context": _context(sources, said), "model.dropout": 0.1}
    if presets.has_decoder(task) and not sources.whole and sources.body is None:
        starts |= {"model.encoder": model.encoder, "model.layers": model.layers}
    if presets.has_decoder(task) and not sources.whole and sources.decoder is None and model.encoder in RECURRENT:
        starts["model.tied"] = False
    if not presets.labels_examples(task):
        return starts
    starts |= {"model.word_dropout": 0.0, "model.pool": "mean", "model.head_layers": 0}
    style = {} if said.get("model.style") is None else presets.style_of(said["model.style"])
    if "pool" in style:  # the user asked for the head of this style
        starts |= {f"model.{name}": style[name] for name in ("pool", "head_layers", "head_activation")}
    elif presets.predicts_next_token(source.task):
        starts |= {"model.pool": "last", "model.head_bias": False}
    elif presets.pools_tokens(source.task):
        starts |= _used(source, ("pool", "head_layers", "head_hidden", "head_activation", "head_bias"))
    return starts


def _context(sources: FinetuneSources, said: Mapping[str, Any]) -> int:
    """Return the number of tokens that the runs read; refuse a setting that their positions do not allow."""
    wanted = said.get("model.context")
    for source in sources.runs:
        model = source.config.model
        if wanted is None or not bound_positions(source.config):
            continue
        if wanted > model.context or (wanted < model.context and source.config.get("model.positions") == "onehot"):
            have = f"has {source.config.get('model.positions')} positions for {model.context} tokens"
            raise SettingError(f"model.context {wanted}: {source} {have}")
    return min(source.config.model.context for source in sources.runs)


def bound_positions(config: Config) -> bool:
    """Return whether a model supports no more positions than it was trained with."""
    return config.idle("model.positions") is None and config.get("model.positions") in FIXED_POSITIONS


def refuse_others(sources: FinetuneSources, fixed: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Refuse settings of the user (`said`) that differ from those that the runs fix."""
    for key, value in said.items():
        if key == "model.vectors" and value is not None:
            raise SettingError(f"model.vectors: {sources.first} brings its own word vectors: leave it away")
        if key == "model.style" and value is not None and _has_style(fixed, value):
            continue
        if key in fixed and value != fixed[key]:
            source = sources.runs[-1] if key in ("model.decoder", "model.decoder_layers") else sources.first
            kept = f"{source.run.path} has {value_text(fixed[key])}, and {source.flag} keeps its body"
            raise SettingError(f"{key} {value_text(value)}: {kept}: leave it away")


def _has_style(fixed: Mapping[str, Any], style: str) -> bool:
    """Return whether a body has all settings of a style, even if it was not made with `model.style`."""
    body = {f"model.{name}": value for name, value in presets.style_of(style).items() if name not in FREE}
    return all(fixed.get(key) == value for key, value in body.items())


# --- settings of training ---


def further_rate(usual: float) -> float:
    """Return the learning rate of a model that continues its own task on text it knows."""
    return float(f"{FURTHER * usual:.12g}")


def usual_rate(further: float) -> float:
    """Return the usual learning rate, of which `further` is the share for continued training."""
    return float(f"{further / FURTHER:.12g}")


def finetuning_rate(task: str, width: int, last_blocks: int | None, *, whole: bool = True) -> float:
    """Return the learning rate, rounded to one digit. `whole`: no part besides the head is new."""
    if presets.labels_examples(task) and last_blocks == 0:
        return HEAD_RATE
    return float(f"{RATE / width:.0e}") if whole else PARTS_RATE


def first_training(sources: FinetuneSources, task: str, said: Mapping[str, Any], rows: int | None) -> dict[str, Any]:
    """Return default settings of training, by dotted key.

    `rows`: number of labelled examples. If it is None, batch size and epochs get no default here.
    """
    if presets.reads_stream(task):
        return {}
    starts: dict[str, Any] = {"training.optimizer": "adamw", "training.weight_decay": 0.01, "training.warmup": WARMUP}
    blocks = said.get("training.last_blocks")
    if said.get("training.optimizer") in (
        None,
        "adamw",
        "muon",
    ):  # learning rates of the others differ by orders of magnitude
        whole = not presets.has_decoder(task) or sources.whole
        starts["training.lr"] = finetuning_rate(task, sources.first.config.model.width, blocks, whole=whole)
    if presets.labels_examples(task) and rows is not None:
        batch = said.get("training.batch_size", SMALL_BATCH if rows < FEW_ROWS else BATCH)
        starts["training.batch_size"] = batch
        if all(said.get(budget) is None for budget in BUDGETS):
            train = max(1, round(rows * said.get("data.train_fraction", 1.0)))
            epochs, updates = (HEAD_EPOCHS, HEAD_UPDATES) if blocks == 0 else (EPOCHS, UPDATES)
            starts["training.epochs"] = float(min(MOST_EPOCHS, max(epochs, math.ceil(updates * batch / train))))
    return starts
