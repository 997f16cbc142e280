"""The supported architectures, in so far as `architectures.toml` cannot describe them.

BERT and RoBERTa add a vector to each token that marks which of two texts it belongs to. A model here reads one text, so
the import adds the first of these vectors to every position; an export writes zeros for them.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.config.errors import SettingError
from glassformer.config.json_types import JsonObject
from glassformer.config.model_section import Scaling, Transformer
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, MASKED, VECTORS
from glassformer.config.resolve import Config
from glassformer.exchange.huggingface.architecture import (
    Architecture,
    ConfigValues,
    Match,
    ParsedConfig,
    Tensors,
    Unsupported,
    first_of,
    head_task,
    short,
    transformer_of,
    with_labels,
)

# --- causal models ---


class Causal(Architecture):
    """A language model, or a classifier that reads the last token."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        parsed = super().read(values, architecture)
        if parsed.task != LANGUAGE_MODEL:
            return with_labels(parsed, values)
        tied = values.boolean("tie_word_embeddings", self.table["tied"])
        repeated = {"lm_head.weight": self.their_name("embed.table.weight", self.base)} if tied else {}
        return replace(parsed, settings={**parsed.settings, "tied": tied}, repeated=repeated)

    def write(self, config: Config, vocab: int) -> JsonObject:
        tied = config.task == LANGUAGE_MODEL and bool(config.get("model.tied"))
        return {**super().write(config, vocab), "tie_word_embeddings": tied}


class Gpt2(Causal):
    """Learned positions, layer norm before each sublayer, and one matrix for queries, keys and values."""

    def special_matches(self, model: Transformer, task: str, base: str) -> list[Match]:
        return [
            match
            for layer in range(model.layers)
            for theirs, parts in self.table["transposed"].items()
            for match in _transposed([f"encoder.blocks.{layer}.{part}" for part in parts], f"{base}h.{layer}.{theirs}")
        ]


def _transposed(ours: list[str], theirs: str) -> list[Match]:
    """Match linear maps of one size, which GPT-2 stores side by side."""
    weights, biases = (tuple(f"{part}.{kind}" for part in ours) for kind in ("weight", "bias"))
    return [
        Match(
            weights,
            (f"{theirs}.weight",),
            lambda whole: whole[0].T.chunk(len(ours)),
            lambda parts: [torch.cat(list(parts)).T],
        ),
        Match(
            biases, (f"{theirs}.bias",), lambda whole: whole[0].chunk(len(ours)), lambda parts: [torch.cat(list(parts))]
        ),
    ]


class Llama(Causal):
    """Rotary positions, RMS norm and a gated feed-forward network."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        parsed = super().read(values, architecture)
        base, scaling = self._rotary(values)
        return replace(parsed, settings={**parsed.settings, "rotary_base": base, "rotary_scaling": scaling})

    def _rotary(self, values: ConfigValues) -> tuple[float, str | None]:
        """Return the base and the scaling of the positions. transformers 5 writes both in one object."""
        rope_object = values.get("rope_scaling") or values.get("rope_parameters") or {}
        if not isinstance(rope_object, dict):
            raise Unsupported(f"config.json: rope_parameters is {short(rope_object)}, but must be an object")
        rope = ConfigValues({"rope_theta": values.get("rope_theta"), **rope_object}, values.name)
        rope.require(self.table["theirs"])
        base = rope.number("rope_theta", 10_000.0)
        kind = rope_object.get("rope_type", rope_object.get("type", "default"))
        if kind == "default":
            return base, None
        if kind not in ("linear", "llama3"):
            raise Unsupported(f"{values.name} with rope_type {short(kind)} is not supported: only linear or llama3")
        scaling = f"{kind}:{rope.number('factor', most=1e6)}"
        if kind == "llama3":
            low, high = (rope.number(f"{end}_freq_factor", most=1e6) for end in ("low", "high"))
            scaling += f":{low}:{high}:{rope.size('original_max_position_embeddings')}"
        try:
            return base, str(Scaling.read(scaling))
        except SettingError as error:
            raise Unsupported(f"config.json: {error}") from None

    def check_heads(self, model: Transformer) -> None:
        """Raise `Unsupported` unless the number of heads divides the width, though heads may have any width."""
        if model.width % model.heads:
            raise Unsupported(f"{self.name} needs a model.width that model.heads {model.heads} divides")

    def write(self, config: Config, vocab: int) -> JsonObject:
        model = transformer_of(config)
        scaling = None if model.rotary_scaling is None else rope_scaling(Scaling.read(model.rotary_scaling))
        return {
            **super().write(config, vocab),
            # the base and the scaling in both forms: transformers 5 reads the first, older versions the others
            "rope_parameters": {"rope_theta": model.rotary_base, **(scaling or {"rope_type": "default"})},
            "rope_theta": model.rotary_base,
            "rope_scaling": scaling,
        }


def rope_scaling(scaling: Scaling) -> JsonObject:
    """Return the scaling of rotary positions as config.json has it."""
    values: JsonObject = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "llama3":
        values |= {
            "low_freq_factor": scaling.low,
            "high_freq_factor": scaling.high,
            "original_max_position_embeddings": scaling.context,
        }
    return values


class Qwen3(Llama):
    """Llama with a norm of queries and keys."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        kinds = values.get("layer_types") or []
        if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
            raise values.unsupported("layer_types", ["full_attention"])
        return super().read(values, architecture)

    def check_heads(self, model: Transformer) -> None:
        """Accept any heads: their width is an entry of config.json."""


# --- bidirectional encoders with learned positions ---


class Bert(Architecture):
    """BERT, DistilBERT, RoBERTa and XLM-RoBERTa."""

    def __init__(self, model_type: str) -> None:
        super().__init__(model_type)
        self.unused_positions: int = self.table["unused_positions"]
        """Rows before the first position."""
        self.biases: list[str] = self.table["biases"]
        """Names of the bias of a masked language model's head; an untied head uses the second one, if there are two."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        body = super().read(values, architecture)
        rows = body.settings["context"] - self.unused_positions
        if rows < 1:
            raise Unsupported(f"config.json: {self.name} needs max_position_embeddings above {self.unused_positions}")
        settings = {**body.settings, "context": rows}
        if body.task == MASKED:
            tied, (bias, *second) = values.boolean("tie_word_embeddings", True), self.biases
            words = {f"{self.table['modules']['head']}.weight": self.their_name("embed.table.weight", self.base)}
            repeated = words | dict.fromkeys(second, bias) if tied else {}
            return replace(body, settings={**settings, "tied": tied, "head_bias": True}, repeated=repeated)
        if body.task == VECTORS:
            return replace(body, settings={**settings, "unit": False})
        settings |= {"head_hidden": settings["width"], "word_dropout": 0.0}
        return with_labels(replace(body, settings=settings), values)

    def special_matches(self, model: Transformer, task: str, base: str) -> list[Match]:
        matches = self.position_matches(f"{base}embeddings")
        if task != MASKED:
            return matches
        # An untied head adds the second bias, but files then contain the first one as well.
        first, *second = self.biases
        biases = (first,) if model.tied else (*second, first)
        if model.head_bias:
            return [*matches, first_of("head.bias", biases, lambda bias: bias, optional=biases[1:])]
        table = "embed.table.weight"  # their head always has a bias
        names = (self.their_name(table, base), *biases)
        return [*matches, first_of(table, names, lambda words: words.new_zeros(len(words)))]

    def position_matches(self, embeddings: str) -> list[Match]:
        """Match the position vectors; the vector of a first text is part of each of them."""
        unused, types = self.unused_positions, f"{embeddings}.token_type_embeddings.weight"
        rows: int = self.table["constants"]["type_vocab_size"]
        match = Match(
            ("encoder.positions.table.weight",),
            (f"{embeddings}.position_embeddings.weight", types),
            lambda tensors: [tensors[0][unused:] + tensors[1][0]],
            lambda tensors: [_with_zeros(unused, tensors[0]), _with_zeros(rows, tensors[0][:0])],
            any_rows=(types,),
        )
        return [match]

    def write(self, config: Config, vocab: int) -> JsonObject:
        model, task = transformer_of(config), head_task(config.task)
        if task == CLASSIFICATION and model.head_hidden != model.width:
            raise Unsupported(f"{self.name} has no model.head_hidden {model.head_hidden}: only {model.width}")
        return {
            **super().write(config, vocab),
            "max_position_embeddings": model.context + self.unused_positions,
            "tie_word_embeddings": task != MASKED or bool(model.tied),
        }

    def aliases(self, name: str) -> list[str]:
        """Return the other names of a weight: without the prefix of the body, and the oldest names of a norm's."""
        names = [name, *super().aliases(name)]
        if ".LayerNorm." in name:
            names += [alias.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for alias in names]
        return [*names[1:], *(self.biases[:1] if name in self.biases[1:] else ())]


class DistilBert(Bert):
    """BERT without token types, with half the layers and ReLU in the classifier's hidden layer."""

    def position_matches(self, embeddings: str) -> list[Match]:
        return []


def _with_zeros(rows: int, table: Tensor) -> Tensor:
    """Return a table with rows of zeros before its own."""
    return torch.cat([table.new_zeros(rows, table.shape[1]), table])


# --- translation models ---

WORDS, BIAS = "model.shared.weight", "final_logits_bias"
STACKS = ("encoder", "decoder")


class Seq2SeqArchitecture(Architecture):
    """An encoder and a decoder with similar blocks and one shared embedding table."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        for key, default in (("attention_heads", 16), ("ffn_dim", 4096)):
            if len({values.size(f"{stack}_{key}", default) for stack in STACKS}) > 1:
                raise Unsupported(f"{values.name} with different encoder_{key} and decoder_{key} is not supported")
        parsed = super().read(values, architecture)
        repeated = dict.fromkeys(["lm_head.weight", *(f"model.{stack}.embed_tokens.weight" for stack in STACKS)], WORDS)
        return replace(parsed, settings={**parsed.settings, "head_bias": True}, repeated=repeated)

    def special_matches(self, model: Transformer, task: str, base: str) -> list[Match]:
        if not model.head_bias:  # their head always has a bias
            return [first_of("embed_source.table.weight", (WORDS, BIAS), lambda words: words.new_zeros(1, len(words)))]
        head = Match(
            ("head.bias",),
            (BIAS,),
            lambda tensors: [tensors[0][0]],
            lambda tensors: [tensors[0].unsqueeze(0)],
            optional=(BIAS,),
        )
        return [head]

    def write(self, config: Config, vocab: int) -> JsonObject:
        if not config.get("model.shared"):  # sides with separate tokens cannot share the table
            raise Unsupported(f"{self.name} has no model.shared false: only true")
        return super().write(config, vocab)


class Bart(Seq2SeqArchitecture):
    """Learned positions, and a norm after the word vectors of both sides."""

    def special_matches(self, model: Transformer, task: str, base: str) -> list[Match]:
        unused: int = self.table["unused_positions"]
        positions = [
            Match(
                (f"{stack}.positions.table.weight",),
                (f"model.{stack}.embed_positions.weight",),
                lambda tensors: [tensors[0][unused:]],
                lambda tensors: [_with_zeros(unused, tensors[0])],
            )
            for stack in STACKS
        ]
        return [*super().special_matches(model, task, base), *positions]


class Marian(Seq2SeqArchitecture):
    """The Transformer of 2017 with sinusoidal positions, all sines before all cosines."""

    def read(self, values: ConfigValues, architecture: str) -> ParsedConfig:
        values.require({"decoder_vocab_size": (values.get("vocab_size"),)})
        return super().read(values, architecture)

    def matches(self, ours: Iterable[str], model: Transformer, architecture: str) -> list[Match]:
        matches = super().matches(ours, model, architecture)
        return [_reordered(match, model.width) for match in matches] if model.positions == "sine" else matches


def _reordered(match: Match, width: int) -> Match:
    """Return a match between models whose hidden features have different orders.

    Here sines and cosines alternate; there all sines come first. The order only matters to the weights that read or
    write hidden features. With their rows and columns permuted, the model computes the same.
    """
    there = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    back = there.argsort()

    def reorder(tensors: Tensors, order: Tensor) -> Tensors:
        axes = map(_axis, match.ours)
        pairs = zip(tensors, axes, strict=True)
        return [each if axis is None else each.index_select(axis, order.to(each.device)) for each, axis in pairs]

    return replace(
        match,
        to_ours=lambda tensors: reorder(match.to_ours(tensors), back),
        to_theirs=lambda tensors: match.to_theirs(reorder(tensors, there)),
    )


def _axis(name: str) -> int | None:
    """Return the axis of a weight that indexes hidden features; None if there is none."""
    part, kind = name.split(".")[-2:]
    if part in ("norm", "embed_norm", "output"):  # these write to the layers' outputs
        return 0
    reads = part in ("table", "query", "key", "value", "input")
    return 1 if reads and kind == "weight" else None


CLASSES = {
    "gpt2": Gpt2,
    "llama": Llama,
    "qwen3": Qwen3,
    "bert": Bert,
    "distilbert": DistilBert,
    "roberta": Bert,
    "xlm-roberta": Bert,
    "marian": Marian,
    "bart": Bart,
}
ARCHITECTURES: dict[str, Architecture] = {model_type: each(model_type) for model_type, each in CLASSES.items()}
"""The architectures that can be imported and exported, by their `model_type`."""
