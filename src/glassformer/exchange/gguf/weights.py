"""The weights of a GGUF file by Hugging Face's names, turned back to plain numbers one at a time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import DataError
from glassformer.exchange.external_model import Weights
from glassformer.exchange.gguf.header import Header, damaged
from glassformer.exchange.gguf.package import dequantise, readable

OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""The parts of a block, in the two houses' names."""

FREQUENCIES = "rope_freqs.weight"
"""Factors of the rotary's frequencies: told by the settings, no weight."""


class GgufWeights(Weights):
    """The weights of one file. Llama's queries and keys come back to half-split rotary from the interleaved one."""

    def __init__(self, header: Header, config: Mapping[str, Any]) -> None:
        """Raises unless the file holds exactly the tensors that `config` speaks of, each in a kind that can be read."""
        self._header = header
        self._expected = _expected(config)
        self.shapes = {name: shape for name, (_, shape) in self._expected.items()}
        _check(header, dict(self._expected.values()))
        self._interleaved: dict[str, int] = {}
        if config["model_type"] == "llama":
            heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
            self._interleaved = {name: heads[part] for name in self.shapes if (part := name.split(".")[-2]) in heads}

    def kind_of(self, name: str) -> str:
        return self._header.tensors[self._expected[name][0]].kind.name

    def read(self, name: str) -> Tensor:
        numbers = torch.from_numpy(read_tensor(self._header, self._expected[name][0]))
        return half_split(numbers, self._interleaved[name]) if name in self._interleaved else numbers


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


def _expected(config: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Hugging Face's name → the file's, and the shape that the settings ask for."""
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    query, key = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    matrices = {
        "attn_q": (query, width),
        "attn_k": (key, width),
        "attn_v": (key, width),
        "attn_output": (width, query),
        "ffn_gate": (inner, width),
        "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }
    tables = {"token_embd": (config["vocab_size"], width)}
    if not config["tie_word_embeddings"]:
        tables["output"] = (config["vocab_size"], width)
    vectors = {"attn_norm": (width,), "ffn_norm": (width,)}
    if config["model_type"] == "qwen3":
        vectors |= {"attn_q_norm": (head,), "attn_k_norm": (head,)}
    inside: dict[str, tuple[int, ...]] = {f"{part}.weight": shape for part, shape in (matrices | vectors).items()}
    biased = {"attn": config["attention_bias"], "ffn": config["mlp_bias"]}
    inside |= {f"{part}.bias": shape[:1] for part, shape in matrices.items() if biased[part.split("_")[0]]}
    outside = {f"{part}.weight": shape for part, shape in (tables | {"output_norm": (width,)}).items()}
    return {_theirs(OUTSIDE, name): (name, shape) for name, shape in outside.items()} | {
        f"model.layers.{number}.{_theirs(INSIDE, name)}": (f"blk.{number}.{name}", shape)
        for number in range(config["num_hidden_layers"])
        for name, shape in inside.items()
    }


def _theirs(names: Mapping[str, str], name: str) -> str:
    part, kind = name.split(".")
    return f"{names[part]}.{kind}"


def _check(header: Header, expected: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in expected.items():
        if name not in header.tensors:
            damaged(header.path, f"it holds no tensor {name}, of which its settings speak")
        if header.tensors[name].shape != shape:
            damaged(
                header.path, f"tensor {name} is of shape {header.tensors[name].shape}, its settings ask for {shape}"
            )
    for name, tensor in header.tensors.items():
        if name not in expected and name != FREQUENCIES:
            raise DataError(f"{header.path} holds a tensor {name[:80]}, which no model here has")
        if not readable(tensor.kind):
            raise DataError(
                f"{header.path}: tensor {name} is written as {tensor.kind.name}, which cannot be turned back to "
                "numbers; take another quantisation of the model (Q8_0, Q4_K_M …)"
            )
