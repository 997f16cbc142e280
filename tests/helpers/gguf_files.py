"""Small GGUF files, written by the package gguf from random models of transformers."""

import json
from pathlib import Path
from typing import Any

import gguf
import sentencepiece
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from helpers.nasty import NASTY

WORDS = 409
SPECIALS = ["<|end|>", "<|im_start|>", "<|im_end|>"]
PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
    "model.layers": "blk",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
Values = dict[str, Any]


def tiny(kind: str = "llama", **settings: Any) -> PreTrainedModel:
    """A random model of awkward sizes."""
    sizes = {
        "vocab_size": WORDS,
        "hidden_size": 27,
        "intermediate_size": 29,
        "num_hidden_layers": 2,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 10,
        "max_position_embeddings": 101,
        "rms_norm_eps": 1e-5,
    }
    config, model = (LlamaConfig, LlamaForCausalLM) if kind == "llama" else (Qwen3Config, Qwen3ForCausalLM)
    made = model(config(**(sizes | settings))).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_()
    return made


def byte_pairs(pre: str = "gpt-2") -> Values:
    """Tokens and merges learned from the nasty texts, with three special ones and one of a user's."""
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    size = WORDS - len(SPECIALS) - 1
    rust.train_from_iterator(
        NASTY, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    learned = rust.get_vocab()
    assert len(learned) == size
    tokens = [*sorted(learned, key=learned.__getitem__), *SPECIALS, "<think>"]
    merges = [" ".join(pair) for pair in json.loads(rust.to_str())["model"]["merges"]]
    return {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": [1] * size + [3] * len(SPECIALS) + [4],
        "merges": merges,
        "bos_token_id": size + 1,
        "eos_token_id": size,
        "eot_token_id": size + 2,
    }


def pieces(folder: Path, prefix: bool = True) -> tuple[Values, sentencepiece.SentencePieceProcessor]:
    """Pieces and scores as SentencePiece learns them, and SentencePiece itself."""
    plain = [line for text in NASTY if text.isascii() and "\0" not in text for line in text.splitlines() if line]
    (folder / "text.txt").write_text("\n".join(plain))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / "pieces"),
        model_type="bpe",
        vocab_size=WORDS - 1,
        character_coverage=0.98,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        minloglevel=2,
    )
    own = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    ids = range(own.get_piece_size())
    kinds = [2 if own.is_unknown(id) else 3 if own.is_control(id) else 6 if own.is_byte(id) else 1 for id in ids]
    values = {
        "model": "llama",
        "tokens": [own.id_to_piece(id) for id in ids],
        "scores": [own.get_score(id) for id in ids],
        "token_type": kinds,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        "add_space_prefix": prefix,
    }
    return values, own


def write(
    path: Path, model: PreTrainedModel, tokens: Values, kind: str = "F32", values: Values | None = None
) -> dict[str, Tensor]:
    """One file; `values` replace or add to what it says of itself (None leaves a key out). Gives factors of rotary."""
    config = model.config
    name = config.model_type
    said: Values = {
        f"{name}.embedding_length": config.hidden_size,
        f"{name}.block_count": config.num_hidden_layers,
        f"{name}.context_length": config.max_position_embeddings,
        f"{name}.feed_forward_length": config.intermediate_size,
        f"{name}.attention.head_count": config.num_attention_heads,
        f"{name}.attention.head_count_kv": config.num_key_value_heads,
        f"{name}.attention.key_length": config.head_dim,
        f"{name}.attention.value_length": config.head_dim,
        f"{name}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{name}.rope.dimension_count": config.head_dim,
        f"{name}.rope.freq_base": config.rope_parameters["rope_theta"],
        **{f"tokenizer.ggml.{key}": value for key, value in tokens.items()},
        **(values or {}),
    }
    writer = gguf.GGUFWriter(path, said.pop("general.architecture", name))
    for key, value in said.items():
        if value is not None:
            _say(writer, key, value)
    for theirs, weight in model.state_dict().items():
        if theirs == "lm_head.weight" and config.tie_word_embeddings:
            continue
        _tensor(writer, _ours(theirs), _interleaved(theirs, weight, config), kind)
    if config.rope_parameters["rope_type"] == "llama3":
        plain = config.rope_parameters["rope_theta"] ** -(torch.arange(0, config.head_dim, 2) / config.head_dim)
        _tensor(writer, "rope_freqs.weight", plain / model.model.rotary_emb.inv_freq, "F32")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return dict(model.state_dict())


def _say(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _ours(name: str) -> str:
    for theirs, ours in PARTS.items():
        name = name.replace(theirs, ours)
    return name


def _interleaved(name: str, weight: Tensor, config: Any) -> Tensor:
    """llama.cpp turns neighbours against each other, where transformers turns halves."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if config.model_type != "llama" or heads is None:
        return weight
    halves = weight.reshape(heads, 2, -1, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)


def _tensor(writer: gguf.GGUFWriter, name: str, weight: Tensor, kind: str) -> None:
    type_ = gguf.GGMLQuantizationType[kind if weight.dim() > 1 else "F32"]
    rows = gguf.quantize(weight.numpy(), type_)
    writer.add_tensor(name, rows, raw_dtype=type_)
