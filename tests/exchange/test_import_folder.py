"""Folders as they come: what is read, what is refused by name, and that damage ends in one line."""

import json
import logging
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

import glassformer as gf
from glassformer.config.errors import GlassformerError, Misuse
from glassformer.exchange import source
from glassformer.exchange.huggingface.importing import import_external
from glassformer.exchange.source import find
from helpers.twins import VOCAB, save_tokens, save_twin

CONFIG = LlamaConfig(
    vocab_size=VOCAB,
    max_position_embeddings=17,
    hidden_size=12,
    intermediate_size=13,
    num_hidden_layers=2,
    num_attention_heads=3,
    num_key_value_heads=1,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole")
    save_twin(path, LlamaForCausalLM, CONFIG)
    save_tokens(path)
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def take(path: Path) -> Any:
    return import_external(find(str(path)))


def change(path: Path, **changes: Any) -> None:
    file = path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"architectures": ["T5Model"]}, "is a 'T5Model', which cannot be imported; these can: GPT2LM"),
    "none": (
        {"architectures": None, "model_type": "t5"},
        "is a None, which cannot be imported; these can: GPT2LMHeadModel",
    ),
    "code": ({"auto_map": {"AutoModel": "modeling.M"}}, "program code of its own"),
    "quantised": ({"quantization_config": {"quant_method": "gptq"}}, "is quantised \\('gptq'\\)"),
    "rotary": ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "rope_type 'yarn' is not supported"),
    "old rotary": (
        {"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "rope_type 'dynamic'",
    ),
    "activation": ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
    "partial": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 is not supported"),
    "shape": ({"intermediate_size": 14}, "gate_proj.weight is 13 × 12, but must be 14 × 12"),
    "layers": ({"num_hidden_layers": 10**6}, "is set to 1,000,000 layers, but holds 2[01] weights"),
    "more layers": ({"num_hidden_layers": 3}, "lacks the weight model.layers.2"),
    "fewer layers": ({"num_hidden_layers": 1}, "holds model.layers.1.*more, which no llama here has"),
    "huge": (
        {"hidden_size": 2**24, "head_dim": 2**24, "num_attention_heads": 2**23},
        "sizes that no model|but must be",
    ),
    "type": ({"hidden_size": "12"}, "hidden_size is '12', but must be a whole number"),
    "odd heads": ({"num_key_value_heads": 2}, "model.kv_heads 2 does not divide model.heads 3"),
    "tied": ({"tie_word_embeddings": True}, "lm_head.weight differs from model.embed_tokens.weight"),
    "words": ({"vocab_size": 100}, "model.vocab is 100, but the tokenizer has 293 tokens"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_name(name: str, copy: Path) -> None:
    changes, words = REFUSED[name]
    change(copy, **changes)
    with pytest.raises(GlassformerError, match=words) as caught:
        take(copy)
    assert "\n" not in str(caught.value)


def test_llamas_of_older_versions_say_rotary_in_another_way(copy: Path) -> None:
    change(copy, rope_parameters=None, rope_theta=77.0, rope_scaling={"type": "linear", "factor": 3})
    model = take(copy).config.model
    assert (model.rotary_base, model.rotary_scaling) == (77.0, "linear:3")


def test_half_precision_is_read_as_what_it_says(copy: Path, folder: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    save_file({name: weight.bfloat16() for name, weight in weights.items()}, copy / "model.safetensors")
    found = take(copy).model.state_dict()["embed.table.weight"]
    assert found.dtype == torch.float32
    assert torch.equal(found, weights["model.embed_tokens.weight"].bfloat16().float())


def rewrite(path: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    weights = load_file(path / "model.safetensors")
    edit(weights)
    save_file(weights, path / "model.safetensors")


def test_numbers_that_are_none_are_found(copy: Path) -> None:
    rewrite(copy, lambda weights: weights["model.norm.weight"].fill_(torch.nan))
    with pytest.raises(GlassformerError, match=r"model\.norm\.weight holds numbers that are none"):
        take(copy)


def test_small_whole_numbers_are_refused(copy: Path) -> None:
    rewrite(copy, lambda weights: weights.update({"lm_head.weight": weights["lm_head.weight"].to(torch.int8)}))
    with pytest.raises(GlassformerError, match=r"lm_head\.weight is of I8, and only plain numbers"):
        take(copy)


def test_tables_that_both_sides_compute_are_passed_over(copy: Path) -> None:
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}
    rewrite(copy, lambda weights: weights.update(extra))
    take(copy)


def test_weights_in_pickles_are_never_opened(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(GlassformerError, match=r"pytorch_model\.bin, a format that is never opened.*save_pretrained"):
        take(copy)


@pytest.mark.parametrize("file", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", 3, None, "model.bin"])
def test_an_index_cannot_lead_out_of_its_folder(copy: Path, file: Any) -> None:
    (copy / "model.safetensors").rename(copy / "x.safetensors")
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"model.norm.weight": file}}))
    with pytest.raises(GlassformerError, match="is not the name of a safetensors file beside it"):
        take(copy)


def test_an_index_must_be_right(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "x.safetensors")
    index = copy / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"no.such": "x.safetensors"}}))
    with pytest.raises(GlassformerError, match=r"says that no\.such is in x\.safetensors, but it is not"):
        take(copy)
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "y.safetensors"}}))
    with pytest.raises(GlassformerError, match=r"names y\.safetensors, which is not there"):
        take(copy)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
quickly = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@quickly
@given(key=st.sampled_from(sorted(CONFIG.to_dict())), value=JSON)
def test_whatever_stands_in_config_json_ends_in_one_line_or_works(folder: Path, key: str, value: Any) -> None:
    """In the folder itself, which is put right again: a copy for each would take longer than all else."""
    file = folder / "config.json"
    right = file.read_text()
    try:
        file.write_text(json.dumps({**json.loads(right), key: value}))
        take(folder)
    except GlassformerError as error:
        lines = str(error).splitlines()
    else:
        lines = ["it works"]
    finally:
        file.write_text(right)
    assert len(lines) == 1


@quickly
@given(
    data=st.data(),
    name=st.sampled_from(["model.safetensors", "tokenizer.json", "config.json", "tokenizer_config.json"]),
)
def test_damaged_bytes_end_in_one_line_or_do_no_harm(folder: Path, data: st.DataObject, name: str) -> None:
    file = folder / name
    right = file.read_bytes()
    header = 8 + struct.unpack("<Q", right[:8])[0] if name == "model.safetensors" else len(right)
    place = data.draw(st.integers(0, header - 1))
    damage = data.draw(st.binary(min_size=1, max_size=9))
    cut = data.draw(st.booleans())
    try:
        file.write_bytes(right[:place] + damage + (b"" if cut else right[place + len(damage) :]))
        take(folder)
    except GlassformerError as error:
        lines = str(error).splitlines()
    else:
        lines = ["it works"]
    finally:
        file.write_bytes(right)
    assert len(lines) == 1


def test_a_name_that_is_no_file_is_asked_of_the_hub(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's library stands in for itself: nothing is fetched here."""
    import huggingface_hub

    asked: dict[str, Any] = {}

    def download(name: str, *, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        asked.update(name=name, patterns=allow_patterns, others=ignore_patterns)
        return str(folder) if name == "someone/a-model" else str(tmp_path)

    def one_file(name: str, file: str) -> str:
        (tmp_path / file).write_bytes(b"no GGUF")
        return str(tmp_path / file)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", one_file)
    assert find("someone/a-model").name == "someone/a-model"
    assert asked == {"name": "someone/a-model", "patterns": source.HUB_FILES, "others": source.OTHER_MODELS}
    assert not {"*.bin", "*.py", "*.pt", "*", "*.gguf"} & set(source.HUB_FILES)
    with pytest.raises(GlassformerError, match=r"no config.json on the hub.*name one: someone/many-files/FILE"):
        find("someone/many-files")
    with pytest.raises(GlassformerError, match=r"Q4.gguf is no GGUF file"):
        find("someone/many-files/Q4.gguf")
    with pytest.raises(GlassformerError, match="no file or folder"):
        find("someone/many/files")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("RepositoryNotFoundError", "the hub has nothing with this name that you may read"),
        ("GatedRepoError", "ask at https://huggingface.co/someone/a-model, then log in"),
        (
            "RemoteEntryNotFoundError",
            "no such file: see https://huggingface.co/someone/a-model/",
        ),
        ("LocalEntryNotFoundError", "the hub cannot be reached, and there is no local copy"),
        ("OfflineModeIsEnabled", "the hub cannot be reached, and there is no local copy"),
        ("HfHubHTTPError", "the hub did not give it: Got: what"),
    ],
)
@pytest.mark.parametrize("name", ["someone/a-model", "someone/a-model/Q4.gguf"])
def test_what_the_hub_refuses(name: str, kind: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx
    import huggingface_hub

    made = getattr(huggingface_hub.errors, kind)
    answer = {"response": httpx.Response(404, request=httpx.Request("GET", "https://x"))}
    error = made("Got: what\nmore", **(answer if issubclass(made, huggingface_hub.errors.HfHubHTTPError) else {}))

    talks = []  # of its retries

    def refuse(*_: Any, **__: Any) -> str:
        talks.append(logging.getLogger("huggingface_hub.utils").isEnabledFor(logging.WARNING))
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(GlassformerError) as refused:
        find(name)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(name)
    assert says in line
    assert ("Got" in line) == (kind == "HfHubHTTPError")
    assert talks == [False]
    assert logging.getLogger("huggingface_hub.utils").isEnabledFor(logging.WARNING)


def test_what_is_no_model_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for path, words in (
        (tmp_path, "holds no model: neither config.json nor a .gguf file"),
        (tmp_path / "notes.txt", "is no model: name a .gguf file"),
        (tmp_path / "not here", "no file or folder"),
    ):
        with pytest.raises(GlassformerError, match=words):
            source.find(str(path))


def test_an_empty_name_is_not_the_folder_one_stands_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert source.find(".")
    with pytest.raises(GlassformerError, match="this name is empty"):
        source.find("")


def test_what_is_imported_is_not_written_over(folder: Path, tmp_path: Path) -> None:
    gf.import_model(folder, tmp_path / "run")
    shutil.copytree(folder, tmp_path / "run" / "theirs")
    with pytest.raises(Misuse, match=r"is or holds .*theirs, which is imported"):
        gf.import_model(tmp_path / "run" / "theirs", tmp_path / "run", overwrite=True)
    assert (tmp_path / "run" / "theirs" / "config.json").is_file()


def test_a_run_keeps_what_its_tokens_are_for(folder: Path, tmp_path: Path) -> None:
    run = gf.import_model(folder, tmp_path / "run")
    card = run.card()
    assert card["status"] == "imported"
    assert card["imported"]["architecture"] == "LlamaForCausalLM"
    assert card["imported"]["dtype"] == "F32"
    tokenizer = run.tokenizer()
    assert tokenizer is not None
    assert tokenizer.roles.opening == (1,)
    assert (tokenizer.pad, tokenizer.end, tokenizer.start) == (0, 2, 1)
    for role, odd in [("pad", "nought"), ("unk", [1]), ("pad", True), ("opening", 1), ("stops", None)]:
        changed = {**card["tokenizer"], "roles": {**card["tokenizer"]["roles"], role: odd}}
        run.write_card({**card, "tokenizer": changed})
        with pytest.raises(
            GlassformerError,
            match=f"is damaged: restore it from a copy, or train again .the roles of its tokens: {role} is",
        ):
            run.tokenizer()
