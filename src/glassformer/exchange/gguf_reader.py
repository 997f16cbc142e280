"""GGUF files of llama.cpp: models like Llama, often quantised, with their tokenizer in one file.

The metadata becomes Hugging Face's config.json, and the weights get Hugging Face's names. They are dequantised one at a
time.
"""

import math
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from torch import Tensor

from glassformer.bricks.positions import Rotary, slow_frequencies
from glassformer.config.errors import DataError
from glassformer.config.json_types import JsonObject
from glassformer.config.model_section import Scaling
from glassformer.exchange.external_model import ExternalModel, ExternalTokens, Weights
from glassformer.exchange.gguf_header import Header, damaged, dequantise, read_header, readable
from glassformer.exchange.huggingface.architecture import read_tables, short
from glassformer.exchange.huggingface.architectures import rope_scaling
from glassformer.exchange.token_reader import frame
from glassformer.text.tokenizer import Roles, Tokenizer

TABLES = read_tables()["gguf"]
MAX_SIZE = 1 << 24
"""Maximum of any size of a model."""

TENSOR = re.compile(r"(?:blk\.(\d{1,9})\.)?(\w+)\.(weight|bias)")
"""Name of a tensor: block number, module, and weight or bias."""

FREQUENCIES = "rope_freqs.weight"
"""Factors of the rotary frequencies; the settings imply them, so it is not a weight."""


class _Values:
    """Metadata under the name of the architecture, checked on access."""

    def __init__(self, header: Header) -> None:
        self.path, self.values = header.path, header.values
        self.architecture = self.plain("general.architecture")

    def plain(self, key: str, default: object = None) -> Any:
        """Return a number or a string."""
        value = self.values.get(key, default)
        if isinstance(value, np.ndarray | list):
            damaged(self.path, f"{key} is a list")
        return value

    def get(self, key: str, default: object = None) -> Any:
        return self.plain(f"{self.architecture}.{key}", default)

    def refuse(self, key: str, why: str) -> NoReturn:
        value = self.values.get(f"{self.architecture}.{key}")
        shown = "missing" if value is None else short(value)
        raise DataError(f"{self.path}: {self.architecture}.{key} is {shown}, {why}")

    def size(self, key: str, default: int | None = None) -> int:
        """Return a size; a list with the same size for every layer counts as one number."""
        value = self.values.get(f"{self.architecture}.{key}", default)
        if isinstance(value, np.ndarray) and value.size and (value == value[0]).all():
            value = value[0].item()
        if isinstance(value, np.ndarray):
            self.refuse(key, "but must not differ from layer to layer")
        if type(value) is not int or not 0 < value <= MAX_SIZE:
            self.refuse(key, "no size")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            self.refuse(key, "no number above 0")
        return float(value)


def read_gguf(path: Path) -> ExternalModel:
    """Return the model in a file. Everything but the weights is checked now."""
    header = read_header(path)
    config = _config(header)
    tokens = read_tokens(header, config["vocab_size"])
    return ExternalModel(str(path), "gguf", config, GgufWeights(header, config), tokens)


def _config(header: Header) -> JsonObject:
    """Return the metadata under Hugging Face's names; raise `DataError` for unsupported values."""
    values = _Values(header)
    _check_kind(values)
    width, heads = values.size("embedding_length"), values.size("attention.head_count")
    head = values.size("attention.key_length", max(1, width // heads))
    for key in ("attention.value_length", "rope.dimension_count"):
        if values.size(key, head) != head:
            values.refuse(key, f"but the heads are {head} wide")
    if head % 2:
        damaged(header.path, f"its heads are {head} wide, but rotary positions need an even width")
    table = header.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        damaged(header.path, "it holds no matrix token_embd.weight")
    base = values.number("rope.freq_base", 10_000.0)
    return {
        "architectures": [TABLES["classes"][values.architecture]],
        "model_type": values.architecture,
        "hidden_size": width,
        "intermediate_size": values.size("feed_forward_length"),
        "num_hidden_layers": values.size("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": values.size("attention.head_count_kv", heads),
        "head_dim": head,
        "hidden_act": "silu",
        "rms_norm_eps": values.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": base,
        "rope_scaling": _scaling(values, header, head, base),
        "max_position_embeddings": values.size("context_length"),
        "vocab_size": table.shape[0],
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "mlp_bias": values.architecture == "llama" and "blk.0.ffn_gate.bias" in header.tensors,
    }


def _check_kind(values: _Values) -> None:
    classes = TABLES["classes"]
    if values.architecture not in classes:
        kind = short(values.architecture)
        raise DataError(f"{values.path} holds a model of kind {kind}; {' and '.join(classes)} can be read")
    if (kind := values.plain("general.type", "model")) != "model":
        raise DataError(f"{values.path} holds no whole model: its general.type is {short(kind)}")
    if values.plain("split.count", 1) not in (0, 1):
        raise DataError(f"{values.path} is one part of several; join them first (llama-gguf-split --merge)")
    for key, harmless in TABLES["harmless"].items():
        if values.get(key) not in (None, harmless):
            values.refuse(key, "which no model here computes")


def _scaling(values: _Values, header: Header, head: int, base: float) -> JsonObject | None:
    """Return the scaling of the positions; of that of Llama 3, a file holds only the factor of each frequency."""
    kind = values.get("rope.scaling.type")
    factor = values.number("rope.scaling.factor", values.number("rope.scale_linear", 1.0))
    if kind not in (None, "none", "linear"):
        values.refuse("rope.scaling.type", "but must be linear")
    linear = kind != "none" and factor != 1
    tensor = header.tensors.get(FREQUENCIES)
    if tensor is None:
        return rope_scaling(Scaling("linear", factor)) if linear else None
    if linear or tensor.shape != (head // 2,) or tensor.kind.name != "F32":
        damaged(header.path, f"{FREQUENCIES} does not fit its heads, is not F32, or has a linear scaling beside it")
    factors = torch.from_numpy(read_tensor(header, FREQUENCIES))
    if (factors == 1).all():
        return None
    scaling = Scaling("llama3", round(float(factors.max()), 4))
    plain = Rotary(head_width=head, base=base).frequencies
    if not torch.allclose(plain / slow_frequencies(plain, scaling), factors, rtol=1e-4, atol=0):
        raise DataError(f"{header.path}: {FREQUENCIES} stretches the context in another way than Llama 3 does")
    return rope_scaling(scaling)


class GgufWeights(Weights):
    """The weights of one file, by Hugging Face's names.

    Queries and keys of Llama are converted from interleaved to half-split rotary.
    """

    def __init__(self, header: Header, config: JsonObject) -> None:
        """Raise `DataError` if a tensor is not part of the model or cannot be read."""
        self._header = header
        self._names = {_their_name(header, name): name for name in header.tensors if name != FREQUENCIES}
        self.shapes = {theirs: header.tensors[name].shape for theirs, name in self._names.items()}
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
        self._heads = heads if config["model_type"] == "llama" else {}

    def kind_of(self, name: str) -> str:
        return self._header.tensors[self._names[name]].kind.name

    def read(self, name: str) -> Tensor:
        numbers = torch.from_numpy(read_tensor(self._header, self._names[name]))
        heads = self._heads.get(name.split(".")[-2])
        return numbers if heads is None else half_split(numbers, heads)


def _their_name(header: Header, name: str) -> str:
    kind = header.tensors[name].kind
    if not readable(kind):
        what = f"tensor {name} is written as {kind.name}, which cannot be turned back to numbers"
        raise DataError(f"{header.path}: {what}; take another quantisation of the model (Q8_0, Q4_K_M …)")
    if (match := TENSOR.fullmatch(name)) is not None:
        layer, module, part = match.groups()
        if layer is None and module in TABLES["outside"]:
            return f"{TABLES['outside'][module]}.{part}"
        if layer is not None and module in TABLES["inside"]:
            return f"model.layers.{layer}.{TABLES['inside'][module]}.{part}"
    raise DataError(f"{header.path} holds a tensor {name[:80]}, which no model here has")


def read_tensor(header: Header, name: str) -> NDArray[np.float32]:
    """Return a tensor by its name in the file, in single precision."""
    tensor = header.tensors[name]
    try:
        bytes = np.fromfile(header.path, np.uint8, count=tensor.size, offset=tensor.offset)
    except OSError as error:
        raise DataError(f"cannot read {header.path}: {error.strerror or error}") from None
    if len(bytes) != tensor.size:
        damaged(header.path, f"it ends within tensor {name}")
    numbers = dequantise(bytes.reshape(*tensor.shape[:-1], -1), tensor.kind)
    if not np.isfinite(numbers).all():
        damaged(header.path, f"tensor {name} holds numbers that are infinite or none")
    return numbers.reshape(tensor.shape)


def half_split(rows: Tensor, heads: int) -> Tensor:
    """Return the rows of each head in the order 0, 2, 4 … 1, 3, 5 …, as half-split rotary needs them."""
    pairs = rows.view(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


# --- its tokens ---

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4
"""Types of tokens by number."""

MAX_TOKEN_CHARS = 1024
"""Maximum length of a token, because every split of a token is tried as a merge."""

ROLES = ("bos", "eos", "padding", "unknown", "eot", "eom")
NAMED = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
"""Roles by their names in a chat template."""


def read_tokens(header: Header, rows: int) -> ExternalTokens:
    """Return the tokens for a model with `rows` embedding rows."""
    template = header.values.get("tokenizer.chat_template")
    if not isinstance(template, str | None):
        damaged(header.path, "tokenizer.chat_template is no text")
    tokens = _TokenValues(header, rows)
    kind = tokens.get("model", str)
    if kind == "gpt2":
        rust, add_bos = _byte_pairs(tokens)
    elif kind == "llama":
        rust, add_bos = _pieces(tokens), True
    else:
        raise DataError(f"{header.path} holds a tokenizer of kind {str(kind)[:40]!r}; gpt2 and llama can be read")
    specials = {name: tokens.texts[id] for name, role in NAMED.items() if (id := tokens.roles[role]) is not None}
    return ExternalTokens(_tokenizer(rust, tokens, add_bos), chat_template=template, specials=specials)


class _TokenValues:
    """Tokenizer metadata, checked on access."""

    def __init__(self, header: Header, rows: int) -> None:
        self.path, self.values = header.path, header.values
        self.texts = self.strings("tokens")
        if not 0 < len(self.texts) <= rows:
            damaged(self.path, f"it has {len(self.texts):,} tokens and a table of {rows:,} rows for them")
        self.ids = {text: id for id, text in enumerate(self.texts)}
        if len(self.ids) != len(self.texts):
            twice = next(text for id, text in enumerate(self.texts) if self.ids[text] != id)
            damaged(self.path, f"two tokens are both {twice[:40]!r}")
        for text, id in self.ids.items():
            if not 0 < len(text) <= MAX_TOKEN_CHARS:
                damaged(self.path, f"token {id} is {len(text):,} characters long")
        self.kinds = self.numbers("token_type", NORMAL)
        self.roles = {role: self.id(role) for role in ROLES}

    def get(self, key: str, type_: type, default: object = None) -> Any:
        value = self.values.get(f"tokenizer.ggml.{key}", default)
        if value is not None and type(value) is not type_:
            damaged(self.path, f"tokenizer.ggml.{key} is of the wrong type")
        return value

    def strings(self, key: str) -> list[str]:
        value = self.values.get(f"tokenizer.ggml.{key}")
        if not isinstance(value, list):
            damaged(self.path, f"it has no list of texts tokenizer.ggml.{key}")
        return value

    def numbers(self, key: str, default: float | None = None) -> list[float]:
        """Return the values under a key, one per token."""
        value = self.values.get(f"tokenizer.ggml.{key}")
        if value is None and default is not None:
            return [default] * len(self.texts)
        if not isinstance(value, np.ndarray) or len(value) != len(self.texts) or not np.isfinite(value).all():
            damaged(self.path, f"tokenizer.ggml.{key} is not one number for each of {len(self.texts):,} tokens")
        numbers: list[float] = value.tolist()
        return numbers

    def id(self, role: str) -> int | None:
        value = self.values.get(f"tokenizer.ggml.{role}_token_id")
        if value is not None and (type(value) is not int or not 0 <= value < len(self.texts)):
            damaged(self.path, f"tokenizer.ggml.{role}_token_id is {str(value)[:40]!r}, the id of no token")
        return value

    def of_kind(self, *kinds: int) -> list[int]:
        return [id for id, kind in enumerate(self.kinds) if kind in kinds]

    @cached_property
    def specials(self) -> set[int]:
        """Ids that stand for no text."""
        return {*self.of_kind(CONTROL, UNKNOWN), *(id for id in self.roles.values() if id is not None)}


def _byte_pairs(tokens: _TokenValues) -> tuple[tokenizers.Tokenizer, bool]:
    name, tables = tokens.get("pre", str, "default"), read_tables()["gguf"]
    if name not in tables["pre_tokenizers"]:
        known = ", ".join(tables["pre_tokenizers"])
        raise DataError(f"{tokens.path} cuts its texts as {name[:40]!r} (tokenizer.ggml.pre); {known} are known here")
    cut = tables["pre_tokenizers"][name]
    pattern = tables["patterns"].get(cut["pattern"])
    merges = [tuple(merge.split(" ")) for merge in tokens.strings("merges")]
    rust = _build(tokens, merges, ignore_merges=cut.get("ignore_merges", False))
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=pattern is None)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if cut.get("digits") else []
    matches = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
    rust.pre_tokenizer = pre_tokenizers.Sequence([*digits, *matches, last]) if digits or matches else last
    if cut.get("nfc"):
        rust.normalizer = normalizers.NFC()
    rust.decoder = decoders.ByteLevel()
    return rust, cut.get("add_bos", False)


def _pieces(tokens: _TokenValues) -> tokenizers.Tokenizer:
    """Return a SentencePiece BPE pipeline: merges by score, with byte fallback."""
    unknown = next(iter(tokens.of_kind(UNKNOWN)), tokens.roles["unknown"])
    name = None if unknown is None else tokens.texts[unknown]
    rust = _build(tokens, _merges(tokens), unk_token=name, fuse_unk=True, byte_fallback=True)
    prefix = tokens.get("add_space_prefix", bool, True)
    blanks = normalizers.Replace(" ", "▁")
    rust.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), blanks]) if prefix else blanks
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    rust.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)] if prefix else back)
    return rust


def _merges(tokens: _TokenValues) -> list[tuple[str, ...]]:
    """Return every pair of tokens whose concatenation is a token, highest score first."""
    scores = tokens.numbers("scores")
    pieces = {tokens.texts[id]: scores[id] for id in tokens.of_kind(NORMAL) if id not in tokens.specials}
    pairs = [
        (-score, -pieces[piece[:at]], -pieces[piece[at:]], piece[:at], piece[at:])
        for piece, score in pieces.items()
        for at in range(1, len(piece))
        if piece[:at] in pieces and piece[at:] in pieces
    ]
    pairs.sort(key=lambda pair: pair[:3])
    return [pair[3:] for pair in pairs]


def _build(tokens: _TokenValues, merges: Sequence[tuple[str, ...]], **options: Any) -> tokenizers.Tokenizer:
    for merge in merges:
        if len(merge) != 2 or not {*merge, "".join(merge)} <= tokens.ids.keys():
            damaged(tokens.path, f"the merge {' '.join(merge)[:40]!r} is not of two tokens that make a third")
    return tokenizers.Tokenizer(models.BPE(tokens.ids, [(merge[0], merge[1]) for merge in merges], **options))


def _tokenizer(rust: tokenizers.Tokenizer, tokens: _TokenValues, add_bos: bool) -> Tokenizer:
    """Return a tokenizer with its special tokens, their roles, and the tokens around a text."""
    added = {True: sorted(tokens.specials), False: [id for id in tokens.of_kind(USER) if id not in tokens.specials]}
    for special, ids in added.items():
        rust.add_tokens([AddedToken(tokens.texts[id], normalized=False, special=special) for id in ids])
    unknown: str | None = rust.model.unk_token  # byte-level BPE has none
    by_role = tokens.roles
    start = by_role["bos"] if tokens.get("add_bos_token", bool, add_bos) else None
    closing = by_role["eos"] if tokens.get("add_eos_token", bool, False) else None
    stops = dict.fromkeys(id for role in ("eot", "eom") if (id := by_role[role]) is not None and id != by_role["eos"])
    roles = Roles(
        pad=by_role["padding"],
        start=start,
        end=by_role["eos"],
        unk=None if unknown is None else tokens.ids[unknown],
        opening=() if start is None else (start,),
        closing=() if closing is None else (closing,),
        stops=tuple(stops),
    )
    frame(rust, [tokens.texts[id] for id in roles.opening], [tokens.texts[id] for id in roles.closing])
    return Tokenizer(rust, roles)
