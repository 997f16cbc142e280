"""GGUF files: what was written comes back, by Hugging Face's names, and computes the same."""

import sys
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3ForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from glassformer.config.errors import DataError, Misuse
from glassformer.exchange import gguf_header
from glassformer.exchange.external_model import ExternalModel
from glassformer.exchange.gguf_reader import read_gguf
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.importing import import_external
from helpers.gguf_files import WORDS, byte_pairs, tiny, write

TOKENS = byte_pairs()
QUANTISABLE = {"hidden_size": 96, "intermediate_size": 64, "num_attention_heads": 6, "head_dim": 32}
STRETCHED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
STRETCHED |= {"original_max_position_embeddings": 8192, "rope_theta": 500_000.0}  # type: ignore[dict-item]


def found(tmp_path: Path, model: PreTrainedModel, kind: str = "F32", **values: Any) -> ExternalModel:
    write(tmp_path / "tiny.gguf", model, TOKENS, kind, {key.replace("__", "."): one for key, one in values.items()})
    return read_gguf(tmp_path / "tiny.gguf")


def all_weights(model: ExternalModel) -> dict[str, Tensor]:
    weights = {name: model.weights.read(name) for name in model.weights.shapes}
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == dict(model.weights.shapes)
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    return weights


def rebuilt(model: ExternalModel) -> PreTrainedModel:
    """transformers' own model, made of nothing but what was found."""
    kind = {"llama": LlamaForCausalLM, "qwen3": Qwen3ForCausalLM}[model.config["model_type"]]
    made = kind(kind.config_class(**model.config)).eval()
    made.load_state_dict(all_weights(model), strict=not model.config["tie_word_embeddings"])
    return made


# Weights and settings


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tie_word_embeddings": True, "attention_bias": True},
        {"mlp_bias": True, "rms_norm_eps": 3e-6, "rope_parameters": {"rope_type": "default", "rope_theta": 31_000.0}},
    ],
    ids=["plain", "tied", "biased"],
)
def test_a_file_computes_what_its_model_computed(tmp_path: Path, kind: str, settings: dict[str, Any]) -> None:
    if kind == "qwen3":
        settings = {key: value for key, value in settings.items() if key != "mlp_bias"}
    model = tiny(kind, **settings)
    read = found(tmp_path, model)
    weights = all_weights(read)
    own = {name: one for name, one in model.state_dict().items() if name in weights}
    assert model.state_dict().keys() - weights.keys() <= {"lm_head.weight"}
    assert all(torch.equal(weights[name], one) for name, one in own.items())
    tokens = torch.arange(22).view(2, 11) * 17 % WORDS
    torch.testing.assert_close(rebuilt(read)(tokens).logits, model(tokens).logits, rtol=0, atol=0)


def test_transformers_reads_the_same_out_of_the_file(tmp_path: Path) -> None:
    model = tiny()
    read = found(tmp_path, model)
    theirs = load_gguf_checkpoint(read.name, return_tensors=True, model_to_load=model)["tensors"]
    weights = all_weights(read)
    assert weights.keys() == theirs.keys()
    assert all(torch.equal(weights[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1"])
def test_quantised_weights_are_what_the_package_makes_of_them(tmp_path: Path, kind: str) -> None:
    model = tiny(**QUANTISABLE)
    weights = all_weights(found(tmp_path, model, kind))
    type_ = gguf.GGMLQuantizationType[kind]
    for name, one in model.state_dict().items():
        there_and_back = gguf.dequantize(gguf.quantize(one.numpy(), type_), type_) if one.dim() > 1 else one.numpy()
        assert torch.equal(weights[name], torch.tensor(there_and_back)), name


def test_settings_are_those_of_config_json(tmp_path: Path) -> None:
    config = found(tmp_path, tiny()).config
    assert config["architectures"] == ["LlamaForCausalLM"]
    known = vars(LlamaConfig()).keys() | {"rope_theta", "rope_scaling", "architectures", "model_type"}
    assert config.keys() <= known
    sizes = {"llama.attention.head_count_kv": None, "llama.attention.key_length": None}
    sizes |= {"llama.attention.value_length": None, "llama.rope.freq_base": None, "llama.rope.dimension_count": None}
    model = tiny(head_dim=4, hidden_size=36, num_key_value_heads=9)
    write(tmp_path / "bare.gguf", model, TOKENS, values=sizes)
    config = read_gguf(tmp_path / "bare.gguf").config
    assert (config["num_key_value_heads"], config["head_dim"], config["rope_theta"]) == (9, 4, 10_000)


def test_a_linearly_stretched_context(tmp_path: Path) -> None:
    stretched = {"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": 4.0}
    assert found(tmp_path, tiny(), **stretched).config["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}


def test_llama_3s_stretched_context_is_known_by_its_factors(tmp_path: Path) -> None:
    model = tiny(rope_parameters=STRETCHED, head_dim=64, max_position_embeddings=16_384)
    read = found(tmp_path, model)
    assert read.config["rope_scaling"] == {key: one for key, one in STRETCHED.items() if key != "rope_theta"}
    tokens = torch.arange(90).view(2, 45) % WORDS
    torch.testing.assert_close(rebuilt(read)(tokens).logits, model(tokens).logits)


def test_another_stretched_context_is_refused(tmp_path: Path) -> None:
    other = STRETCHED | {"low_freq_factor": 2.0}
    with pytest.raises(DataError, match="stretches the context in another way"):
        found(tmp_path, tiny(rope_parameters=other, head_dim=64, max_position_embeddings=16_384))


# What cannot be read


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"general.architecture": "gemma2"}, "of kind 'gemma2'; llama and qwen3 can be read"),
        ({"general.type": "adapter"}, "no whole model"),
        ({"split.count": 3}, "one part of several"),
        ({"llama.expert_count": 8}, "llama.expert_count is 8"),
        ({"llama.rope.dimension_count": 6}, "llama.rope.dimension_count is 6, but the heads are 10 wide"),
        ({"llama.attention.value_length": 8}, "value_length is 8"),
        ({"llama.rope.scaling.type": "yarn"}, "'yarn', but must be linear"),
        ({"llama.attention.head_count_kv": [3, 9]}, "must not differ from layer to layer"),
        ({"llama.attention.head_count_kv": 4}, "model.heads 9"),
        ({"llama.block_count": 3}, "lacks the weight model.layers.2."),
        ({"llama.block_count": 1 << 23}, "8,388,608 layers, but holds"),
        ({"llama.block_count": 1}, "holds model.layers.1.* which no llama here has"),
        ({"llama.embedding_length": 54}, "is 409 × 27, but must be 409 × 54"),
        ({"llama.context_length": None}, "llama.context_length is missing"),
        ({"llama.rope.freq_base": -1.0}, "is -1.0, no number above 0"),
        ({"general.architecture": "qwen3"}, "qwen3.embedding_length is missing"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_no_model_here_can_be_is_refused_by_name(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    write(tmp_path / "odd.gguf", tiny(), TOKENS, values=values)
    with pytest.raises((DataError, Unsupported), match=words) as caught:
        import_external(read_gguf(tmp_path / "odd.gguf"))
    assert str(caught.value).startswith(str(tmp_path / "odd.gguf"))
    assert "\n" not in str(caught.value)


def test_a_kind_of_numbers_that_cannot_be_turned_back_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    write(tmp_path / "odd.gguf", tiny(), TOKENS)
    raw = (tmp_path / "odd.gguf").read_bytes()
    at = raw.index(b"blk.0.attn_norm.weight") + len(b"blk.0.attn_norm.weight") + 4 + 8
    assert raw[at : at + 4] == bytes([gguf.GGMLQuantizationType.F32, 0, 0, 0])
    written = bytes([gguf.GGMLQuantizationType.I32, 0, 0, 0])
    (tmp_path / "odd.gguf").write_bytes(raw[:at] + written + raw[at + 4 :])
    with pytest.raises(DataError, match=r"blk.0.attn_norm.weight is written as I32, which cannot be turned back"):
        read_gguf(tmp_path / "odd.gguf")


def test_without_the_package_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "tiny.gguf", tiny(), TOKENS)
    monkeypatch.setitem(sys.modules, "gguf", None)
    gguf_header._package.cache_clear()
    with pytest.raises(Misuse, match=r"pip install 'glassformer\[gguf\]'"):
        read_gguf(tmp_path / "tiny.gguf")
