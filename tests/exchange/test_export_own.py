"""Our own runs as transformers loads them: the same scores, the same text, the same label."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

import glassformer as gf
from glassformer.config.errors import Misuse, RunError
from glassformer.config.resolve import Config, resolve
from glassformer.exchange.exporting import ExportedRun
from glassformer.exchange.huggingface.architecture import Unsupported
from glassformer.exchange.huggingface.export import export_huggingface
from glassformer.families.generate import Writer
from glassformer.models.build import build_language_model, build_predictor
from glassformer.tasks.answers import Answers, Classes, Labels, Scale
from glassformer.text.tokenizer import Tokenizer
from helpers.twins import TEXT, close

SIZES = {"model.layers": 2, "model.heads": 3, "model.width": 24, "model.hidden": 37, "model.context": 31}
READER = {"model.causal": True, "model.pool": "last", "model.head_layers": 0, "model.head_bias": False}
TEXTS = ["the cat sat", "on the mat and the dog sat on", "naïve"]


def config_of(task: str = "language-model", **more: Any) -> Config:
    said = {key.replace("__", "."): value for key, value in more.items()}
    labels = (
        {} if task == "language-model" else {**READER, **({} if "style" in more else {"model.positions": "rotary"})}
    )
    return resolve({"task": task, **SIZES, **labels, **said}, {})


def tokenizer_of(kind: str, **more: Any) -> Tokenizer:
    settings = resolve({"tokenizer.kind": kind, **{f"tokenizer.{key}": one for key, one in more.items()}}, {}).tokenizer
    return Tokenizer.train([TEXT], settings)


def random_weights(model: nn.Module) -> nn.Module:
    """Some weights start at zero, and would hide what is wrong."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())) * 0.2)
    return model.eval()


STYLES: dict[str, tuple[str, dict[str, Any], str]] = {
    "default": ("bpe", {}, "Qwen3ForCausalLM"),
    "llama": ("char", {"style": "llama", "model__kv_heads": 1}, "LlamaForCausalLM"),
    "gpt2": ("word", {"style": "gpt2"}, "GPT2LMHeadModel"),
    "untied": ("char", {"model__tied": False, "model__rotary_scaling": "linear:2"}, "Qwen3ForCausalLM"),
}


@pytest.mark.parametrize("name", STYLES)
def test_language_models(name: str, tmp_path: Path) -> None:
    kind, more, architecture = STYLES[name]
    tokenizer = tokenizer_of(kind)
    config = config_of(**more)
    model = build_language_model(config.model, vocab=tokenizer.vocab_size)
    random_weights(model)
    export_huggingface(ExportedRun(model=model, config=config, tokenizer=tokenizer), tmp_path / "out")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    fast = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(theirs).__name__ == architecture
    batch = fast(TEXTS, return_tensors="pt", padding=True)
    for row, text in enumerate(TEXTS):
        ids = [*tokenizer.roles.opening, *tokenizer.encode(text)]
        assert batch["input_ids"][row, -len(ids) :].tolist() == ids
        assert tokenizer(text) == [*ids, tokenizer.end]  # a prompt goes on, so the exported tokenizer adds no END
        with torch.no_grad():
            close(model(torch.tensor([ids])), theirs(torch.tensor([ids])).logits)
    writing = Writer(model, tokenizer).stream("the cat", tokens=20, greedy=True)
    text = "".join(writing)
    wanted = theirs.generate(**fast("the cat", return_tensors="pt"), max_new_tokens=20, do_sample=False)[0]
    assert writing.ids == [id for id in wanted.tolist() if id != tokenizer.end]
    new = wanted[len(tokenizer.roles.opening) + len(tokenizer.encode("the cat")) :]
    assert fast.decode(new, skip_special_tokens=True).strip() == text.strip() != ""


ANSWERS: dict[str, tuple[str, Answers]] = {
    "two classes": ("classification", Classes.of(["bad", "good"], None)),
    "three classes": ("classification", Classes.of(["bad", "good", "so so"], None)),
    "labels": ("multilabel", Labels(("a", "b", "c", "d", "e"))),
    "numbers": ("regression", Scale(0.0, 3.5)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_readers(name: str, tmp_path: Path) -> None:
    task, answers = ANSWERS[name]
    tokenizer = tokenizer_of("word")
    config = config_of(task, **({"style": "gpt2"} if name == "labels" else {}))
    model = random_weights(build_predictor(config.model, vocab=tokenizer.vocab_size, outputs=answers.outputs))
    run = ExportedRun(model=model, config=config, tokenizer=tokenizer, answers=answers)
    export_huggingface(run, tmp_path / "out")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    fast = AutoTokenizer.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        found = theirs(**fast(TEXTS, return_tensors="pt", padding=True)).logits
    rows = [[*tokenizer.roles.opening, *tokenizer.encode(text), *tokenizer.roles.closing] for text in TEXTS]
    assert fast(TEXTS)["input_ids"] == tokenizer(TEXTS) == rows
    with torch.no_grad():
        scores = torch.cat([model(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.bool)) for row in rows])
    if isinstance(answers, Scale):
        close(answers.values(scores).float(), found[:, 0])
    elif isinstance(answers, Classes):
        close(answers.probabilities(scores), found.softmax(-1))
        assert [theirs.config.id2label[int(row.argmax())] for row in found] == answers.words(
            answers.probabilities(scores).argmax(-1)
        )
    else:
        close(answers.probabilities(scores), found.sigmoid())
        assert list(theirs.config.id2label.values()) == list(answers.names)
        assert theirs.config.problem_type == "multi_label_classification"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model__positions": "sine"}, "no model.positions sine: only rotary; --to onnx"),
        ({"model__activation": "relu"}, "no model.activation relu: only swiglu"),
        (
            {"model__activation": "relu", "model__norm": "layer", "style": "llama"},
            "Llama has no model.*; no model.*; --to onnx",
        ),
        ({"model__encoder": "lstm"}, "Hugging Face has no lstm model; --to onnx exports any run"),
        ({"style": "gpt2", "model__kv_heads": 1}, "model.kv_heads 1"),
        ({"style": "gpt2", "model__norm_order": "post"}, "GPT-2 has no model.norm_order post: only pre"),
        (
            {"style": "llama", "model__heads": 5, "model__head_width": 4},
            "Llama needs a model.width that model.heads 5 divides",
        ),
    ],
)
def test_what_has_no_counterpart_is_said_by_name(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    kept = {key: value for key, value in SIZES.items() if settings.get("model__encoder") != "lstm" or "width" in key}
    said = {key.replace("__", "."): value for key, value in settings.items()}
    config = resolve({"task": "language-model", **kept, **said}, {})
    tokenizer = tokenizer_of("char")
    model = build_language_model(config.model, vocab=tokenizer.vocab_size)
    with pytest.raises(Unsupported, match=words):
        export_huggingface(ExportedRun(model=model, config=config, tokenizer=tokenizer), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_mean_needs_a_bias_to_hold_it(tmp_path: Path) -> None:
    tokenizer, config = tokenizer_of("char"), config_of("regression")
    model = build_predictor(config.model, vocab=tokenizer.vocab_size, outputs=1)
    run = ExportedRun(model=model, config=config, tokenizer=tokenizer, answers=Scale(2.0, 1.0))
    with pytest.raises(Unsupported, match="no bias to hold the mean 2 of the numbers"):
        export_huggingface(run, tmp_path / "out")


def test_a_folder_is_filled_only_if_it_is_empty_or_one_says_so(tmp_path: Path) -> None:
    tokenizer, config = tokenizer_of("char"), config_of()
    run = ExportedRun(
        model=build_language_model(config.model, vocab=tokenizer.vocab_size), config=config, tokenizer=tokenizer
    )
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Misuse, match="--overwrite"):
        export_huggingface(run, tmp_path)
    export_huggingface(run, tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_what_comes_back_different_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.exchange.huggingface.architectures import Qwen3

    right = Qwen3.write

    def wrong(self: Qwen3, config: Config, vocab: int) -> dict[str, Any]:
        return {**right(self, config, vocab), "rope_parameters": {"rope_type": "default", "rope_theta": 10.0}}

    monkeypatch.setattr(Qwen3, "write", wrong)
    tokenizer, config = tokenizer_of("char"), config_of()
    model = build_language_model(config.model, vocab=tokenizer.vocab_size)
    random_weights(model)
    with pytest.raises(RunError, match="differs from its run by"):
        export_huggingface(ExportedRun(model=model, config=config, tokenizer=tokenizer), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings", [{}, {"model__positions": "rotary", "model__pool": "last"}])
def test_the_usual_classifier_is_told_what_would_have_let_it_go_out(settings: dict[str, Any], tmp_path: Path) -> None:
    said = {key.replace("__", "."): value for key, value in settings.items()}
    config = resolve({"task": "classification", **SIZES, **said}, {})
    tokenizer, answers = tokenizer_of("word"), Classes.of(["bad", "good"], None)
    model = build_predictor(config.model, vocab=tokenizer.vocab_size, outputs=answers.outputs)
    run = ExportedRun(model=model, config=config, tokenizer=tokenizer, answers=answers)
    with pytest.raises(
        Unsupported, match=r"^BERT differs in model\.norm_order, .*; train it with --style bert; --to onnx"
    ):
        export_huggingface(run, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["masked-bert", "imported"])
def test_a_classifier_from_a_masked_model_goes_out_with_the_head_of_its_style(source: str, tmp_path: Path) -> None:
    masked = tmp_path / "masked"
    size = {"model.layers": 1, "model.width": 8, "model.heads": 2, "model.context": 32, "tokenizer.kind": "char"}
    gf.train("pronouns:rows=60", task="masked-language-model", style="bert", steps=2, out=masked, **size)
    if source == "imported":  # of no style by name
        gf.export(masked, to="hf", folder=tmp_path / "theirs")
        gf.import_model(tmp_path / "theirs", out=tmp_path / "imported")
        masked = tmp_path / "imported"
    run = gf.train("opinions:rows=40", from_run=masked, style="bert", steps=2, lr=0.02, out=tmp_path / "run")
    gf.export(run, to="hf", folder=tmp_path / "out")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    fast = AutoTokenizer.from_pretrained(tmp_path / "out")
    texts = ["the food was not bad", "bad"]
    with torch.no_grad():
        found = theirs(**fast(texts, return_tensors="pt", padding=True)).logits.softmax(-1)
    for prediction, row in zip(gf.load(run).predict(texts), found, strict=True):
        wanted = [prediction.probabilities[theirs.config.id2label[label]] for label in range(2)]
        assert row.tolist() == pytest.approx(wanted, abs=1e-4)
