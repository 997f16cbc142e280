"""DistilBERT, RoBERTa and XLM-RoBERTa compute here what they compute in transformers, and can be exported again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

import glassformer as gf
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.folder import read_folder
from glassformer.exchange.huggingface.importing import ImportedModel, import_external
from helpers.bert_relatives import CONFIGS, CONTEXT, VOCAB, byte_pairs, save_relative
from helpers.twins import blocks_of, close

RELATIVES = list(CONFIGS)
LENGTHS = (CONTEXT, 11, 1, 23)
TEXTS = ["the cat sat on the mat", "the dog.", "", "x", "and the cat and the dog sat on the log"]


def rows() -> tuple[Tensor, Tensor]:
    """Random ids without the special ones: RoBERTa does not count an id of padding as a position."""
    ids = torch.randint(5, VOCAB, (len(LENGTHS), CONTEXT), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(CONTEXT) < torch.tensor(LENGTHS).unsqueeze(1)
    return ids.masked_fill(~mask, 1), mask


def imported(folder: Path) -> ImportedModel:
    return import_external(read_folder(folder))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("model_type", RELATIVES)
def test_a_masked_model_is_the_same_layer_by_layer(model_type: str, tied: bool, tmp_path: Path) -> None:
    theirs = save_relative(tmp_path, model_type, "ForMaskedLM", tie_word_embeddings=tied)
    ours = imported(tmp_path)
    ids, mask = rows()
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=mask.long(), output_hidden_states=True)
        close(ours.model(ids, mask)[mask], wanted.logits[mask])
    for block, hidden in zip(blocks_of(ours.model, ids, mask), wanted.hidden_states[1:], strict=True):
        close(block[mask], hidden[mask])
    assert ours.config.model.context == CONTEXT


CLASSES = {"num_labels": 3, "id2label": {0: "bad", 1: "fair", 2: "good"}}


@pytest.mark.parametrize(
    ("model_type", "settings", "task"),
    [
        ("distilbert", CLASSES, "classification"),
        ("roberta", CLASSES, "classification"),
        ("xlm-roberta", CLASSES, "classification"),
        ("distilbert", {"num_labels": 2, "problem_type": "multi_label_classification"}, "multilabel"),
        ("roberta", {"num_labels": 1}, "regression"),
    ],
)
def test_a_classifier_is_the_same_and_can_be_exported(
    model_type: str, settings: dict[str, Any], task: str, tmp_path: Path
) -> None:
    theirs = save_relative(tmp_path / "in", model_type, "ForSequenceClassification", **settings)
    run = gf.import_model(tmp_path / "in", tmp_path / "run")
    ours = gf.load(run, "cpu")
    assert ours.config.task == task
    texts = [text for text in TEXTS if text]  # an empty text is refused
    batch = AutoTokenizer.from_pretrained(tmp_path / "in")(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        wanted = theirs(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    predicted = ours.predict(texts)
    if task == "classification":
        assert [one.label for one in predicted] == [["bad", "fair", "good"][best] for best in wanted.argmax(-1)]
        close(torch.tensor([list(one.probabilities.values()) for one in predicted]), wanted.softmax(-1))
    if task == "regression":
        close(torch.tensor([[one.value] for one in predicted]), wanted.double())
    gf.export(run, to="hf", folder=tmp_path / "out")
    back = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert type(back) is type(theirs)
    assert back.config.problem_type == theirs.config.problem_type or settings.get("problem_type") is None
    again = AutoTokenizer.from_pretrained(tmp_path / "out")(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        close(back(input_ids=again["input_ids"], attention_mask=again["attention_mask"]).logits, wanted)


@pytest.mark.parametrize("model_type", RELATIVES)
def test_a_masked_model_fills_in_and_can_be_exported(model_type: str, tmp_path: Path) -> None:
    theirs = save_relative(tmp_path / "in", model_type, "ForMaskedLM")
    run = gf.import_model(tmp_path / "in", tmp_path / "run")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "in")
    text = f"the cat {tokenizer.mask_token} on"
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        wanted = theirs(ids).logits
    place = int((ids[0] == tokenizer.mask_token_id).nonzero())
    guesses = gf.load(run, "cpu").fill(text, most=3).places[0]
    chances = wanted[0, place].softmax(-1)
    close(torch.tensor([guess.probability for guess in guesses]), chances[[guess.id for guess in guesses]])
    gf.export(run, to="hf", folder=tmp_path / "out")
    back = AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert type(back) is type(theirs)
    with torch.no_grad():
        close(back(ids).logits, wanted)


@pytest.mark.parametrize("model_type", RELATIVES)
def test_a_body_returns_vectors_of_texts(model_type: str, tmp_path: Path) -> None:
    theirs = save_relative(tmp_path / "in", model_type, "Model")
    run = gf.import_model(tmp_path / "in", tmp_path / "run")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "in")
    gf.export(run, to="hf", folder=tmp_path / "out")
    back = AutoModel.from_pretrained(tmp_path / "out")
    assert type(back) is type(theirs)
    for text, ours in zip(TEXTS, gf.load(run, "cpu").embed(TEXTS), strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            close(torch.tensor(ours.vector), theirs(ids).last_hidden_state[0].mean(0))
            close(torch.tensor(ours.vector), back(ids).last_hidden_state[0].mean(0))


def test_roberta_tokens_of_older_files(tmp_path: Path) -> None:
    """vocab.json and merges.txt, as roberta-base has them beside tokenizer.json."""
    theirs = save_relative(tmp_path, "roberta", "ForSequenceClassification")
    ids = AutoTokenizer.from_pretrained(tmp_path)("the cat sat")["input_ids"]
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text("{}")
    byte_pairs().model.save(str(tmp_path))
    tokenizer = read_folder(tmp_path).tokens.tokenizer
    assert [*tokenizer.roles.opening, *tokenizer.encode("the cat sat"), *tokenizer.roles.closing] == ids
    assert (tokenizer.pad, tokenizer.mask, theirs.config.pad_token_id) == (1, 4, 1)


def test_weights_that_a_classifier_does_not_use_are_ignored(tmp_path: Path) -> None:
    """Published RoBERTa classifiers hold the pooler and the masked head that they were fine-tuned from."""
    save_relative(tmp_path, "roberta", "ForSequenceClassification")
    weights = load_file(tmp_path / "model.safetensors")
    weights |= {"roberta.pooler.dense.weight": torch.zeros(33, 33), "lm_head.bias": torch.zeros(VOCAB)}
    weights["roberta.embeddings.position_ids"] = torch.arange(CONTEXT + 2).unsqueeze(0)
    save_file(weights, tmp_path / "model.safetensors")
    imported(tmp_path)


@pytest.mark.parametrize(
    ("model_type", "class_end", "key", "value", "message"),
    [
        ("roberta", "ForMaskedLM", "pad_token_id", 0, "RoBERTa with pad_token_id 0 is not supported: only with 1"),
        ("roberta", "ForMaskedLM", "hidden_act", "relu", "RoBERTa with hidden_act 'relu' is not supported"),
        ("roberta", "Model", "max_position_embeddings", 2, "RoBERTa needs max_position_embeddings above 2"),
        ("distilbert", "ForMaskedLM", "activation", "mish", "DistilBERT with activation 'mish' is not supported"),
        (
            "distilbert",
            "ForMaskedLM",
            "architectures",
            ["DistilBertForQuestionAnswering"],
            "is a 'DistilBertForQuestionAnswering', which cannot be imported; these can: .*DistilBertForSequenceClass",
        ),
    ],
)
def test_unsupported_variants_are_named(
    model_type: str, class_end: str, key: str, value: Any, message: str, tmp_path: Path
) -> None:
    save_relative(tmp_path, model_type, class_end)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(Unsupported, match=message) as caught:
        imported(tmp_path)
    assert "\n" not in str(caught.value)
