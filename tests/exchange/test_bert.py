"""BERT as transformers computes it: layer by layer, padded, with each of its heads; in and out again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
)

import glassformer as gf
from glassformer.config.errors import DataError
from glassformer.config.resolve import resolve
from glassformer.exchange.exporting import ExportedRun
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.export import export_huggingface, their_config
from glassformer.exchange.huggingface.folder import read_folder
from glassformer.exchange.huggingface.importing import ImportedModel, import_external
from glassformer.families.embedding import LoadedEmbedder
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.masked import LoadedMasked
from glassformer.models.build import build_masked_model
from glassformer.text.tokenizer import Tokenizer
from glassformer.verbs.exchange import export
from helpers.bert_twins import PIECES, SIZES, TEXTS, VOCAB, save_bert, sentence_folder
from helpers.twins import blocks_of, close

MASKED: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied": {"tie_word_embeddings": False, "hidden_act": "gelu_new", "type_vocab_size": 1, "layer_norm_eps": 1e-3},
    "relu": {"hidden_act": "relu", "type_vocab_size": 5},
}
LENGTHS = (37, 11, 1, 23)


def rows() -> tuple[Tensor, Tensor]:
    ids = torch.randint(VOCAB, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(1))
    return ids, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)


def imported(folder: Path) -> ImportedModel:
    return import_external(read_folder(folder))


@pytest.mark.parametrize("settings", MASKED.values(), ids=list(MASKED))
def test_a_masked_model_is_the_same_layer_by_layer(settings: dict[str, Any], tmp_path: Path) -> None:
    theirs = save_bert(tmp_path, BertForMaskedLM, **settings)
    ours = imported(tmp_path)
    ids, mask = rows()
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long(), output_hidden_states=True)
        close(ours.model(ids, mask)[mask], wanted.logits[mask])
    for block, hidden in zip(blocks_of(ours.model, ids, mask), wanted.hidden_states[1:], strict=True):
        close(block[mask], hidden[mask])
    assert ours.config.task == "masked-language-model"
    assert ours.config.model.norm_eps == settings.get("layer_norm_eps", 1e-12)


@pytest.mark.parametrize("settings", MASKED.values(), ids=list(MASKED))
def test_a_masked_model_goes_out_as_it_came(settings: dict[str, Any], tmp_path: Path) -> None:
    theirs = save_bert(tmp_path / "in", BertForMaskedLM, **settings)
    run = gf.import_model(tmp_path / "in", tmp_path / "run")
    assert isinstance(gf.load(run, "cpu"), LoadedMasked)
    gf.export(run, to="hf", folder=tmp_path / "out")
    back, tokenizer = (
        AutoModelForMaskedLM.from_pretrained(tmp_path / "out"),
        AutoTokenizer.from_pretrained(tmp_path / "out"),
    )
    batch = tokenizer(["the [MASK] bank", *TEXTS], return_tensors="pt", padding=True)
    with torch.no_grad():
        real = batch["attention_mask"].bool()
        close(back(**batch).logits[real], theirs(**batch).logits[real])


@pytest.mark.parametrize(
    ("settings", "task"),
    [
        ({"num_labels": 3, "id2label": {0: "bad", 1: "fair", 2: "good"}}, "classification"),
        ({"num_labels": 2, "problem_type": "multi_label_classification"}, "multilabel"),
        ({"num_labels": 1}, "regression"),
    ],
    ids=["classes", "labels", "number"],
)
def test_a_classifier_is_the_same_and_goes_out_again(settings: dict[str, Any], task: str, tmp_path: Path) -> None:
    theirs = save_bert(tmp_path / "in", BertForSequenceClassification, **settings)
    run = gf.import_model(tmp_path / "in", tmp_path / "run")
    ours = gf.load(run, "cpu")
    assert isinstance(ours, LoadedPredictor)
    assert ours.config.task == task
    texts = [text for text in TEXTS if text]  # an empty text is refused
    batch = AutoTokenizer.from_pretrained(tmp_path / "in")(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        wanted = theirs(**batch).logits
        close(ours.model(batch["input_ids"], batch["attention_mask"].bool()), wanted)
    said = ours.predict(texts)
    if task == "classification":
        names = ["bad", "fair", "good"]
        assert [one.label for one in said] == [names[best] for best in wanted.argmax(-1).tolist()]
        close(torch.tensor([list((one.probabilities or {}).values()) for one in said]), wanted.softmax(-1))
    if task == "regression":
        close(torch.tensor([[one.value] for one in said]), wanted.double())
    gf.export(run, to="hf", folder=tmp_path / "out")
    back = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        close(back(**batch).logits, wanted)


@pytest.mark.parametrize(("mode", "unit"), [("mean_tokens", True), ("cls_token", False), ("max_tokens", True)])
def test_a_model_of_sentences_gives_their_vectors(mode: str, unit: bool, tmp_path: Path) -> None:
    theirs = save_bert(tmp_path / "in", BertModel)
    modes = {"cls_token": False, "mean_tokens": False, "mean_sqrt_len_tokens": False, mode: True}
    sentence_folder(tmp_path / "in", unit=unit, **modes)
    words: list[str] = []
    run = gf.import_model(tmp_path / "in", tmp_path / "run", say=words.append)
    assert any("pooler is left out" in line for line in words)
    ours = gf.load(run, "cpu")
    assert isinstance(ours, LoadedEmbedder)
    wanted = pooled(theirs, tmp_path / "in", mode, unit)
    close(torch.tensor([one.vector.tolist() for one in ours.embed(TEXTS)]), wanted)
    close(torch.tensor([ours.embed(text).vector.tolist() for text in TEXTS]), wanted)
    gf.export(run, to="hf", folder=tmp_path / "out")
    back = AutoModel.from_pretrained(tmp_path / "out", add_pooling_layer=False)
    close(pooled(back, tmp_path / "out", mode, unit), wanted)
    again = gf.load(gf.import_model(tmp_path / "out", tmp_path / "again"), "cpu")
    close(torch.tensor([one.vector.tolist() for one in again.embed(TEXTS)]), wanted)


@pytest.mark.slow
def test_vectors_go_to_onnx(tmp_path: Path) -> None:
    save_bert(tmp_path / "in", BertModel)
    run = gf.import_model(tmp_path / "in", tmp_path / "run")
    files = export(run, to="onnx", folder=tmp_path / "out")  # compared with the run before it is kept
    assert {file.name for file in files} == {"README.md", "model.onnx", "tokenizer.json"}
    assert "`vectors`" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def pooled(model: Any, folder: Path, mode: str, unit: bool) -> Tensor:
    """As sentence-transformers does it."""
    batch = AutoTokenizer.from_pretrained(folder)(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    real = batch["attention_mask"].unsqueeze(-1)
    ways = {
        "mean_tokens": (states * real).sum(1) / real.sum(1),
        "cls_token": states[:, 0],
        "max_tokens": states.masked_fill(real == 0, -torch.inf).max(1).values,
    }
    return torch.nn.functional.normalize(ways[mode]) if unit else ways[mode]


def test_without_modules_the_vector_is_the_mean(tmp_path: Path) -> None:
    save_bert(tmp_path, BertModel)
    model = imported(tmp_path).config.model
    assert (model.pool, model.unit) == ("mean", False)


@pytest.mark.parametrize(
    ("modes", "says"),
    [
        ({"mean_sqrt_len_tokens": True}, "pooling by 'mean_sqrt_len' is not supported"),
        ({"cls_token": True, "mean_tokens": True}, "pooling by 'cls' and 'mean' is not supported"),
        ({}, "pooling by nothing is not supported"),
    ],
)
def test_ways_of_pooling_that_ours_cannot_be(modes: dict[str, bool], says: str, tmp_path: Path) -> None:
    save_bert(tmp_path, BertModel)
    sentence_folder(tmp_path, **modes)
    with pytest.raises(Unsupported, match=says):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("[", DataError, "modules.json is damaged"),
        ('{"a": 1}', DataError, "modules.json is damaged"),
        ('[{"type": "a.Transformer", "path": ""}, {"type": "a.Dense", "path": ""}]', Unsupported, "'Dense' is not"),
        (
            '[{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "../out"}]',
            DataError,
            "holds no config",
        ),
    ],
)
def test_damaged_modules_are_one_line(text: str, error: type[Exception], says: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    save_bert(folder, BertModel)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").write_text('{"pooling_mode": "mean"}')
    (folder / "modules.json").write_text(text)
    with pytest.raises(error, match=says) as caught:
        read_folder(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("hidden_act", "mish"),
        ("num_attention_heads", 2),
        ("hidden_dropout_prob", 2.0),
        ("layer_norm_eps", "tiny"),
    ],
)
def test_what_ours_cannot_be_is_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    save_bert(tmp_path, BertForMaskedLM)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, key: value}))
    with pytest.raises(Unsupported, match=key):
        imported(tmp_path)


def test_files_of_the_first_days_are_read(tmp_path: Path) -> None:
    """gamma and beta, a next-sentence head, the head a second time, and a table of positions that says nothing."""
    theirs = save_bert(tmp_path, BertForMaskedLM)
    weights = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): weight
        for name, weight in weights.items()
    }
    old["cls.seq_relationship.weight"] = torch.zeros(2, 33)
    old["bert.pooler.dense.weight"] = torch.zeros(33, 33)
    old["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
    old["bert.embeddings.position_ids"] = torch.arange(37).unsqueeze(0)
    save_file(old, tmp_path / "model.safetensors")
    ids, mask = rows()
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long()).logits
        close(imported(tmp_path).model(ids, mask)[mask], wanted[mask])
    old["cls.predictions.decoder.weight"] += 1
    save_file(old, tmp_path / "model.safetensors")
    with pytest.raises(Unsupported, match=r"decoder\.weight differs from"):
        imported(tmp_path)


OURS = {"task": "masked-language-model", "style": "bert", "model.width": 36, "model.heads": 3, "model.layers": 2}


def test_our_own_masked_model_goes_out(tmp_path: Path) -> None:
    config = resolve({}, {**OURS, "model.context": 29})
    save_bert(tmp_path / "tokens", BertForMaskedLM)
    tokenizer: Tokenizer = read_folder(tmp_path / "tokens").tokens.tokenizer
    model = build_masked_model(config.model, vocab=tokenizer.vocab_size).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    assert model.head.bias is None
    export_huggingface(ExportedRun(model=model, config=config, tokenizer=tokenizer), tmp_path / "out")
    back = AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    batch = AutoTokenizer.from_pretrained(tmp_path / "out")(TEXTS, return_tensors="pt", padding=True)
    real = batch["attention_mask"].bool()
    assert batch["input_ids"][0].tolist()[:2] == [PIECES.index("[CLS]"), PIECES.index("the")]
    with torch.no_grad():
        close(back(**batch).logits[real], model(batch["input_ids"], real)[real])


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("model.norm_order", "pre", "model.norm_order pre: only post"),
        ("model.head_transform", False, "model.head_transform false: only true"),
        ("model.positions", "rotary", "model.positions rotary: only learned"),
        ("model.kv_heads", 1, "model.kv_heads 1"),
    ],
)
def test_what_bert_is_not_is_named(key: str, value: Any, says: str) -> None:
    with pytest.raises(Unsupported, match=f"BERT has no .*{says}.*--to onnx"):
        their_config(resolve({}, {**OURS, key: value}), VOCAB)


def test_a_table_of_another_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    save_bert(tmp_path, BertForMaskedLM)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, "max_position_embeddings": 2**20}))
    with pytest.raises(DataError, match=r"position_embeddings.weight is 37 × 33, but .* 1048576 × 33"):
        imported(tmp_path)
    assert SIZES["max_position_embeddings"] == 37
