"""GGUF files, as llama.cpp reads them: models of Llama's kind, often quantised, with their tokenizer, in one file.

What a file says of its model becomes Hugging Face's config.json, and its weights get Hugging Face's names; they are
turned back to plain numbers one at a time.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.bricks.positions import Rotary, slowed
from glassformer.config.errors import DataError
from glassformer.config.sections import Scaling
from glassformer.exchange.external_model import ExternalModel, Weights
from glassformer.exchange.gguf_header import Header, damaged, dequantise, read_header, readable
from glassformer.exchange.gguf_tokens import read_tokens
from glassformer.exchange.huggingface.architecture import module_names, short
from glassformer.exchange.huggingface.causal import rope_scaling

CLASSES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""The architectures that can be read."""

MOST = 1 << 24
"""More than any size of a model is."""

OTHER_MATHS = {
    "expert_count": 0,
    "attention.sliding_window": 0,
    "attention.scale": 0.0,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.causal": True,
    "logit_scale": 0.0,
    "residual_scale": 0.0,
    "embedding_scale": 0.0,
    "use_parallel_residual": False,
}
"""What would change the computation, and the value at which it does not."""

OUTSIDE, INSIDE = module_names("gguf", "outside"), module_names("gguf", "inside")
"""Modules outside and inside the blocks: the file's name → Hugging Face's."""
TENSOR = re.compile(r"(?:blk\.(\d{1,9})\.)?(\w+)\.(weight|bias)")
"""The name of a tensor: the number of its block, its module and weight or bias."""

FREQUENCIES = "rope_freqs.weight"
"""Factors of the rotary's frequencies: told by the settings, no weight."""


class _Values:
    """The values of a file under the name of its architecture; each is checked when it is asked for."""

    def __init__(self, header: Header) -> None:
        self.path, self.values = header.path, header.values
        self.architecture = self.plain("general.architecture")

    def plain(self, key: str, default: Any = None) -> Any:
        """A number or a text; a list in its place is a damage."""
        value = self.values.get(key, default)
        if isinstance(value, np.ndarray | list):
            damaged(self.path, f"{key} is a list")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        return self.plain(f"{self.architecture}.{key}", default)

    def size(self, key: str, default: int | None = None) -> int:
        value = self.values.get(f"{self.architecture}.{key}", default)
        if isinstance(value, np.ndarray) and value.size and (value == value[0]).all():
            value = value[0].item()
        if isinstance(value, np.ndarray):
            raise DataError(
                f"{self.path}: {self.architecture}.{key} differs from layer to layer, as no model's here may"
            )
        if type(value) is not int or not 0 < value <= MOST:
            damaged(self.path, f"{self.architecture}.{key} is {_short(value)}, no size")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            damaged(self.path, f"{self.architecture}.{key} is {_short(value)}, no number above 0")
        return float(value)


def read_gguf(path: Path) -> ExternalModel:
    """The model in a file. Its weights are read when they are asked for; all else is checked now."""
    header = read_header(path)
    config = _config(header)
    return ExternalModel(
        str(path), "gguf", config, GgufWeights(header, config), read_tokens(header, config["vocab_size"])
    )


def _config(header: Header) -> dict[str, Any]:
    """The file's settings by Hugging Face's names. What no model here can do is refused by name."""
    values = _Values(header)
    _check_kind(values)
    width, heads = values.size("embedding_length"), values.size("attention.head_count")
    if values.get("attention.key_length") is None and width % heads:
        damaged(header.path, f"a width of {width} cannot be split into {heads} heads")
    head = values.size("attention.key_length", max(1, width // heads))
    key_heads = values.size("attention.head_count_kv", heads)
    if heads % key_heads:
        damaged(header.path, f"{heads} heads cannot share {key_heads} keys")
    for key in ("attention.value_length", "rope.dimension_count"):
        if values.size(key, head) != head:
            raise DataError(
                f"{header.path}: {values.architecture}.{key} is {values.size(key)}, the heads are {head} wide; "
                "no model here has these apart"
            )
    if head % 2:
        damaged(header.path, f"heads {head} wide cannot be turned by rotary, which needs pairs")
    if (layers := values.size("block_count")) > len(header.tensors):
        damaged(header.path, f"its {len(header.tensors):,} tensors are too few for {layers:,} layers")
    table = header.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        damaged(header.path, "it holds no matrix token_embd.weight")
    base = values.number("rope.freq_base", 10_000.0)
    return {
        "architectures": [CLASSES[values.architecture]],
        "model_type": values.architecture,
        "hidden_size": width,
        "intermediate_size": values.size("feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
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
    if not isinstance(values.architecture, str):
        damaged(values.path, "it does not say what model it holds (general.architecture)")
    if values.architecture not in CLASSES:
        can = " and ".join(CLASSES)
        raise DataError(f"{values.path} holds a model of kind {values.architecture[:40]!r}; {can} can be read")
    if (kind := values.plain("general.type", "model")) != "model":
        raise DataError(f"{values.path} holds no whole model: its general.type is {_short(kind)}")
    if values.plain("split.count", 1) not in (0, 1):
        raise DataError(f"{values.path} is one part of several; join them first (llama-gguf-split --merge)")
    for key, harmless in OTHER_MATHS.items():
        value = values.get(key)
        if value is not None and value != harmless:
            raise DataError(
                f"{values.path}: {values.architecture}.{key} is {_short(value)}, which no model here computes"
            )


def _scaling(values: _Values, header: Header, head: int, base: float) -> dict[str, Any] | None:
    """How the context was stretched; of Llama 3's way, a file holds only what each frequency is divided by."""
    kind = values.get("rope.scaling.type")
    factor = values.number("rope.scaling.factor", values.number("rope.scale_linear", 1.0))
    if kind not in (None, "none", "linear"):
        raise DataError(f"{header.path}: {values.architecture}.rope.scaling.type is {_short(kind)}; linear can be read")
    linear = kind != "none" and factor != 1
    if FREQUENCIES not in header.tensors:
        return rope_scaling(Scaling("linear", factor)) if linear else None
    if linear or header.tensors[FREQUENCIES].shape != (head // 2,):
        damaged(header.path, f"{FREQUENCIES} does not fit its heads, or a linear scaling beside it")
    if header.tensors[FREQUENCIES].kind.name != "F32":
        raise DataError(f"{header.path}: {FREQUENCIES} is written as {header.tensors[FREQUENCIES].kind.name}, not F32")
    factors = torch.from_numpy(read_tensor(header, FREQUENCIES))
    if (factors == 1).all():
        return None
    scaling = Scaling("llama3", round(float(factors.max()), 4))
    plain = Rotary(head_width=head, base=base).frequencies
    if not torch.allclose(plain / slowed(plain, scaling), factors, rtol=1e-4, atol=0):
        raise DataError(f"{header.path}: {FREQUENCIES} stretches the context in another way than Llama 3 does")
    return rope_scaling(scaling)


def _short(value: Any) -> str:
    return "missing" if value is None else short(value)


class GgufWeights(Weights):
    """The weights of one file, by Hugging Face's names.

    Queries and keys of Llama are converted from interleaved to half-split rotary.
    """

    def __init__(self, header: Header, config: Mapping[str, Any]) -> None:
        """Raise `DataError` if a tensor is none of a model's, or if it cannot be read."""
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
        raise DataError(
            f"{header.path}: tensor {name} is written as {kind.name}, which cannot be turned back to numbers; take "
            "another quantisation of the model (Q8_0, Q4_K_M …)"
        )
    if (found := TENSOR.fullmatch(name)) is not None:
        layer, module, part = found.groups()
        if layer is None and module in OUTSIDE:
            return f"{OUTSIDE[module]}.{part}"
        if layer is not None and module in INSIDE:
            return f"model.layers.{layer}.{INSIDE[module]}.{part}"
    raise DataError(f"{header.path} holds a tensor {name[:80]}, which no model here has")


def read_tensor(header: Header, name: str) -> NDArray[np.float32]:
    """One tensor of the file, by the file's own name, in single precision."""
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
    """Rows of each head in the order 0, 2, 4 … 1, 3, 5 …: rotary then turns the first half against the second."""
    pairs = rows.view(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)
