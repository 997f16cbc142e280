"""The smaller files of a folder, with anything at all in them: the model comes in, or one clear line is said."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import BertModel, LlamaConfig, LlamaForCausalLM

from glassformer.config.errors import GlassformerError
from glassformer.exchange.huggingface.importing import import_external
from glassformer.exchange.source import find
from helpers.bert_twins import save_bert, sentence_folder
from helpers.twins import VOCAB, save_tokens, save_twin

CONFIG = LlamaConfig(
    vocab_size=VOCAB,
    max_position_embeddings=17,
    hidden_size=12,
    intermediate_size=13,
    num_hidden_layers=1,
    num_attention_heads=3,
    num_key_value_heads=1,
)
WORDS = ["", ".", "..", "/etc", "a/../..", "x" * 300, "x\0y", "\ud800", "ä", "<s>", "x" * 300 + ".safetensors"]
"""As names of files and tokens: empty, leading elsewhere, too long, with what no name holds."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
quickly = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its weights in several files, with an index."""
    path = tmp_path_factory.mktemp("writer")
    save_twin(path, LlamaForCausalLM, CONFIG, max_shard_size="8KB")
    save_tokens(path)
    assert (path / "model.safetensors.index.json").is_file()
    return path


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sentences")
    save_bert(path, BertModel)
    sentence_folder(path, mean_tokens=True)
    return path


def one_line_or_a_model(folder: Path, name: str, content: bytes) -> None:
    """In the folder itself, which is put right again."""
    file = folder / name
    before = file.read_bytes() if file.exists() else None
    said = "it works"
    try:
        file.write_bytes(content)
        import_external(find(str(folder)))
    except GlassformerError as error:
        said = str(error)
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)
    assert len(said.splitlines()) == 1
    said.encode()  # it can be printed


def test_both_are_whole(writer: Path, sentences: Path) -> None:
    for folder in (writer, sentences):
        import_external(find(str(folder)))


BESIDE = {
    "model.safetensors.index.json": ("weight_map", "metadata"),
    "generation_config.json": ("eos_token_id", "bos_token_id", "pad_token_id"),
    "special_tokens_map.json": ("bos_token", "eos_token", "additional_special_tokens"),
    "tokenizer_config.json": ("added_tokens_decoder", "chat_template", "bos_token", "model_max_length"),
    "added_tokens.json": ("<s>", "<one more>"),
    "chat_template.json": ("chat_template",),
}


@quickly
@given(
    data=st.data(),
    name=st.sampled_from(sorted(BESIDE)),
    inner=st.dictionaries(st.sampled_from([*WORDS, "0", "1", "model.norm.weight"]), JSON, max_size=3) | JSON,
)
def test_whatever_the_files_beside_say(writer: Path, data: st.DataObject, name: str, inner: Any) -> None:
    key = data.draw(st.sampled_from(BESIDE[name]))
    said = json.loads((writer / name).read_text()) if (writer / name).exists() else {}
    one_line_or_a_model(writer, name, json.dumps({**said, key: inner}).encode())


@quickly
@given(
    name=st.sampled_from(["modules.json", "1_Pooling/config.json"]),
    data=st.data(),
    value=JSON,
)
def test_whatever_a_folder_of_sentences_says(sentences: Path, name: str, data: st.DataObject, value: Any) -> None:
    said = json.loads((sentences / name).read_text())
    if isinstance(said, list):
        said[data.draw(st.integers(0, 2))][data.draw(st.sampled_from(["type", "path"]))] = value
    else:
        said[data.draw(st.sampled_from(["pooling_mode", "pooling_mode_mean_tokens", "pooling_mode_cls_token"]))] = value
    one_line_or_a_model(sentences, name, json.dumps(data.draw(st.sampled_from([said, value]))).encode())


@quickly
@given(data=st.data(), damage=st.binary(min_size=1, max_size=9), cut=st.booleans())
@pytest.mark.parametrize(
    "name", ["model.safetensors.index.json", "generation_config.json", "tokenizer_config.json", "modules.json"]
)
def test_bytes_that_are_damaged(
    writer: Path, sentences: Path, data: st.DataObject, name: str, damage: bytes, cut: bool
) -> None:
    folder = sentences if name == "modules.json" else writer
    right = (folder / name).read_bytes()
    place = data.draw(st.integers(0, len(right) - 1))
    one_line_or_a_model(folder, name, right[:place] + damage + (b"" if cut else right[place + len(damage) :]))


@pytest.mark.parametrize(
    "header",
    [
        lambda: struct.pack("<Q", 2**63),
        lambda: struct.pack("<Q", 2**40) + b"{}",
        lambda: _header({"a": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 4]}}),
        lambda: _header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}),
        lambda: _header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**62]}}),
        lambda: _header({"a": {"dtype": "?", "shape": [1], "data_offsets": [0, 4]}}),
    ],
)
def test_sizes_that_no_file_has_take_no_memory(header: Callable[[], bytes], writer: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(writer, tmp_path / "copy"))
    (folder / "model.safetensors").write_bytes(header())
    with pytest.raises(GlassformerError, match=r"model\.safetensors is damaged, or no safetensors file") as caught:
        import_external(find(str(folder)))
    assert "\n" not in str(caught.value)


def _header(said: dict[str, Any]) -> bytes:
    text = json.dumps(said).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 4
