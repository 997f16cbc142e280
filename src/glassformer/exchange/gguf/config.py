"""What a GGUF file says of its model, in the words of Hugging Face's config.json."""

import math
from typing import Any

import numpy as np
import torch

from glassformer.bricks.positions import Rotary, slowed
from glassformer.config.errors import DataError
from glassformer.config.scaling import Scaling
from glassformer.exchange.gguf.header import Header, damaged
from glassformer.exchange.gguf.weights import FREQUENCIES, read_tensor
from glassformer.exchange.huggingface.architecture import short
from glassformer.exchange.huggingface.llama import scaling_said

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


class _Said:
    """The values of a file under the name of its architecture; each is checked when it is asked for."""

    def __init__(self, header: Header) -> None:
        self.path, self.values = header.path, header.values
        self.architecture = self.one("general.architecture")

    def one(self, key: str, default: Any = None) -> Any:
        """A number or a text; a list in its place is a damage."""
        value = self.values.get(key, default)
        if isinstance(value, np.ndarray | list):
            damaged(self.path, f"{key} is a list")
        return value

    def get(self, key: str) -> Any:
        return self.one(f"{self.architecture}.{key}")

    def size(self, key: str, default: int | None = None) -> int:
        value = self.values.get(f"{self.architecture}.{key}")
        if value is None and default is not None:
            return default
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
        value = self.get(key)
        if value is None and default is not None:
            return default
        if type(value) not in (int, float) or not 0 < value < math.inf:
            damaged(self.path, f"{self.architecture}.{key} is {_short(value)}, no number above 0")
        return float(value)


def read_config(header: Header) -> dict[str, Any]:
    """The file's settings by Hugging Face's names. What no model here can do is refused by name."""
    said = _Said(header)
    _check_kind(said)
    width, heads = said.size("embedding_length"), said.size("attention.head_count")
    if said.get("attention.key_length") is None and width % heads:
        damaged(header.path, f"a width of {width} cannot be split into {heads} heads")
    head = said.size("attention.key_length", max(1, width // heads))
    key_heads = said.size("attention.head_count_kv", heads)
    if heads % key_heads:
        damaged(header.path, f"{heads} heads cannot share {key_heads} keys")
    for key in ("attention.value_length", "rope.dimension_count"):
        if said.size(key, head) != head:
            raise DataError(
                f"{header.path}: {said.architecture}.{key} is {said.size(key)}, the heads are {head} wide; "
                "no model here has these apart"
            )
    if head % 2:
        damaged(header.path, f"heads {head} wide cannot be turned by rotary, which needs pairs")
    if (layers := said.size("block_count")) > len(header.tensors):
        damaged(header.path, f"its {len(header.tensors):,} tensors are too few for {layers:,} layers")
    base = said.number("rope.freq_base", 10_000.0)
    return {
        "architectures": [CLASSES[said.architecture]],
        "model_type": said.architecture,
        "hidden_size": width,
        "intermediate_size": said.size("feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": head,
        "hidden_act": "silu",
        "rms_norm_eps": said.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": base,
        "rope_scaling": _scaling(said, header, head, base),
        "max_position_embeddings": said.size("context_length"),
        "vocab_size": _words(header),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "mlp_bias": said.architecture == "llama" and "blk.0.ffn_gate.bias" in header.tensors,
    }


def _check_kind(said: _Said) -> None:
    if not isinstance(said.architecture, str):
        damaged(said.path, "it does not say what model it holds (general.architecture)")
    if said.architecture not in CLASSES:
        can = " and ".join(CLASSES)
        raise DataError(f"{said.path} holds a model of kind {said.architecture[:40]!r}; {can} can be read")
    if (kind := said.one("general.type", "model")) != "model":
        raise DataError(f"{said.path} holds no whole model: its general.type is {_short(kind)}")
    if said.one("split.count", 1) not in (0, 1):
        raise DataError(f"{said.path} is one part of several; join them first (llama-gguf-split --merge)")
    for key, harmless in OTHER_MATHS.items():
        value = said.get(key)
        if value is not None and value != harmless:
            raise DataError(f"{said.path}: {said.architecture}.{key} is {_short(value)}, which no model here computes")


def _words(header: Header) -> int:
    table = header.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        damaged(header.path, "it holds no matrix token_embd.weight")
    return table.shape[0]


def _scaling(said: _Said, header: Header, head: int, base: float) -> dict[str, Any] | None:
    """How the context was stretched; of Llama 3's way, a file holds only what each frequency is divided by."""
    kind = said.get("rope.scaling.type")
    factor = said.number("rope.scaling.factor", said.number("rope.scale_linear", 1.0))
    if kind not in (None, "none", "linear"):
        raise DataError(f"{header.path}: {said.architecture}.rope.scaling.type is {_short(kind)}; linear can be read")
    linear = kind != "none" and factor != 1
    if FREQUENCIES not in header.tensors:
        return scaling_said(Scaling("linear", factor)) if linear else None
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
    return scaling_said(scaling)


def _short(value: Any) -> str:
    return "missing" if value is None else short(value)
