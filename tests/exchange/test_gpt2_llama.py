"""GPT-2, Llama and Qwen3 as transformers computes them: layer by layer, padded, written; in and out again."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
)

import glassformer as gf
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.rendering.panels import Grid
from glassformer.rendering.view import View
from helpers.twins import PROMPTS, VOCAB, blocks_of, close, save_tokens, save_twin

IDS: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GPT2: dict[str, Any] = {"vocab_size": VOCAB, "n_positions": 67, "n_embd": 42, "n_layer": 3, "n_head": 3, **IDS}
LLAMA: dict[str, Any] = {
    "vocab_size": VOCAB,
    "max_position_embeddings": 67,
    "hidden_size": 33,
    "intermediate_size": 53,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 10,
    **IDS,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 3.0,
    "original_max_position_embeddings": 13,
    "rope_theta": 500.0,
}
TWINS: dict[str, tuple[Any, Any]] = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(**GPT2)),
    "gpt2-untied": (
        GPT2LMHeadModel,
        GPT2Config(**GPT2, n_inner=37, activation_function="relu", layer_norm_epsilon=1e-3, tie_word_embeddings=False),
    ),
    "llama": (LlamaForCausalLM, LlamaConfig(**LLAMA, rms_norm_eps=1e-2)),
    "llama-biased": (
        LlamaForCausalLM,
        LlamaConfig(
            **{**LLAMA, "num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 42},
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 77.0},
        ),
    ),
    "llama3": (LlamaForCausalLM, LlamaConfig(**LLAMA, rope_parameters=LLAMA3)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**LLAMA, attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-3)),
}


@pytest.fixture(scope="module", params=list(TWINS))
def twin(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, LoadedLanguageModel, Path]:
    """Theirs, ours, and the folder it came from."""
    kind, config = TWINS[request.param]
    folder = tmp_path_factory.mktemp("twin")
    saving = {"max_shard_size": "30KB"} if request.param == "llama3" else {}
    theirs = save_twin(folder, kind, config, **saving)
    save_tokens(folder)
    run = gf.import_model(folder, tmp_path_factory.mktemp("runs") / "run")
    ours = gf.load(run, "cpu")
    assert isinstance(ours, LoadedLanguageModel)
    return theirs, ours, folder


Twin = tuple[Any, LoadedLanguageModel, Path]


def test_each_layer_is_the_same(twin: Twin) -> None:
    theirs, ours, _ = twin
    ids = torch.randint(VOCAB, (3, 61), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = theirs(ids, output_hidden_states=True)
        close(ours.model(ids), wanted.logits)
        close(ours.model.features(ids), wanted.hidden_states[-1])
    for block, hidden in zip(blocks_of(ours.model, ids)[:-1], wanted.hidden_states[1:-1], strict=True):
        close(block, hidden)


def test_rows_of_several_lengths_are_the_same_padded_left_or_right(twin: Twin) -> None:
    theirs, ours, folder = twin
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    positions = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        wanted = theirs(**batch, position_ids=positions).logits
    rows = [[*ours.tokenizer.roles.opening, *ours.tokenizer.encode(prompt)] for prompt in PROMPTS]
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    mask = torch.arange(longest) < torch.tensor([[len(row)] for row in rows])
    with torch.no_grad():
        found = ours.model(ids, mask)
    for row, (ours_row, theirs_row) in enumerate(zip(found, wanted, strict=True)):
        length = len(rows[row])
        assert batch["input_ids"][row, longest - length :].tolist() == rows[row]
        close(ours_row[:length], theirs_row[longest - length :])


def test_rows_that_no_token_has_are_shown_by_their_numbers(twin: Twin) -> None:
    _, ours, _ = twin
    tokens = ours.tokenizer.vocab_size
    assert tokens < VOCAB
    (*_, after) = ours.probabilities("the cat", k=VOCAB)
    assert {f"<{id}>" for id in range(tokens, VOCAB)} <= {name for name, _ in after.expected}
    assert sum(chance for _, chance in after.expected) == pytest.approx(1, abs=1e-5)
    step = gf.look(ours, "the cat", view="step")
    assert isinstance(step, View)
    scores = step.panels[0]
    assert isinstance(scores, Grid)
    assert scores.rows == ["<s> → the", "the → cat"]  # by name, though there are more rows than tokens


def test_it_writes_the_same_fifty_tokens(twin: Twin) -> None:
    theirs, ours, folder = twin
    writing = ours.stream("the cat", tokens=50, greedy=True)
    text = "".join(writing)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    never = ours.tokenizer.never(VOCAB)
    wanted = theirs.generate(
        **tokenizer("the cat", return_tensors="pt"), max_new_tokens=50, do_sample=False, suppress_tokens=never
    )[0]
    assert writing.ids == [id for id in wanted.tolist() if id != tokenizer.eos_token_id]
    assert len(writing.ids) > 20
    assert text == tokenizer.decode(wanted, skip_special_tokens=True).removeprefix("the cat")


def test_it_goes_back_to_where_it_came_from(twin: Twin, tmp_path: Path) -> None:
    theirs, ours, folder = twin
    gf.export(ours, to="hf", folder=tmp_path / "out")
    back, tokenizer = (
        AutoModelForCausalLM.from_pretrained(tmp_path / "out"),
        AutoTokenizer.from_pretrained(tmp_path / "out"),
    )
    assert type(back) is type(theirs)
    for name, weight in theirs.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name
    ids = torch.randint(VOCAB, (2, 61), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        assert torch.equal(back.eval()(ids).logits, theirs(ids).logits)  # so all settings came along too
    assert tokenizer("the cat")["input_ids"] == AutoTokenizer.from_pretrained(folder)("the cat")["input_ids"]


LABELS: dict[str, Any] = {"id2label": {0: "bad", 1: "so so", 2: "good"}, "label2id": {"bad": 0, "so so": 1, "good": 2}}
READERS: dict[str, tuple[Any, Any]] = {
    "gpt2": (GPT2ForSequenceClassification, GPT2Config(**GPT2, **LABELS)),
    "llama": (
        LlamaForSequenceClassification,
        LlamaConfig(**LLAMA, **LABELS, problem_type="multi_label_classification"),
    ),
    "qwen3": (Qwen3ForSequenceClassification, Qwen3Config(**LLAMA, num_labels=1)),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_say_the_same_of_a_text(name: str, tmp_path: Path) -> None:
    theirs = save_twin(tmp_path / "in", *READERS[name])
    save_tokens(tmp_path / "in", closing=True)
    ours = gf.load(gf.import_model(tmp_path / "in", tmp_path / "run"), "cpu")
    assert isinstance(ours, LoadedPredictor)
    for folder in ("in", "out"):
        if folder == "out":
            gf.export(ours, to="hf", folder=tmp_path / "out")
            theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / folder, padding_side="right")
        with torch.no_grad():
            wanted = theirs(**tokenizer(PROMPTS, return_tensors="pt", padding=True)).logits
        said = ours.predict(PROMPTS)
        if name == "gpt2":
            assert [one.label for one in said] == [LABELS["id2label"][int(row.argmax())] for row in wanted]
            close(
                torch.tensor([[one.probabilities[key] for key in LABELS["label2id"]] for one in said]),
                wanted.softmax(-1),
            )
        elif name == "llama":
            close(
                torch.tensor([[one.probabilities[key] for key in LABELS["label2id"]] for one in said]), wanted.sigmoid()
            )
        else:
            close(torch.tensor([one.value for one in said]), wanted[:, 0])
