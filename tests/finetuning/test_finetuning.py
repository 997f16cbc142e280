"""Training that begins from another run: what is taken, what is new, what stays, and what cannot be."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from torch import Tensor

from glassformer.config.errors import GlassformerError, Misuse, NotARun, RunError, SettingError
from glassformer.diagnosis.advice import Advice, training_facts
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.families.load import load
from glassformer.families.recognition import infer_config
from glassformer.runs.files import digest, read_tensors
from glassformer.runs.run import NO_VERIFY, Run
from glassformer.training.events import Event, Noted
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train
from helpers.beginnings import BODY, quick, write_data
from helpers.running import StopAfter, tensors_of

CHAR = {"tokenizer.kind": "char"}
FIXED = {"training.lr": 0.0, "training.weight_decay": 0.0}
"""A training that changes nothing: what the run holds is what it began with."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, data: dict[str, str]) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    body = {**BODY, **CHAR, "model.positions": "learned", "model.initialisation": "gpt2"}
    tokens = {"tokenizer.kind": "bpe", "vocab_size": 270}
    apart = {"tokenizer.shared": False, "training.batch_tokens": 300}
    return {
        "writer": quick(data["text"], out=folder / "writer", **body),
        "rotary": quick(data["text"], out=folder / "rotary", **BODY, **CHAR),
        "masked": quick(data["text"], out=folder / "masked", task="masked-language-model", **body),
        "reader": quick(data["labels"], out=folder / "reader", **{**body, "model.pool": "attention"}),
        "translator": quick(data["pairs"], out=folder / "translator", **body, **apart),
        "lstm": quick(data["text"], out=folder / "lstm", model="lstm", **CHAR, **{"model.width": 16}),
        "wide": quick(data["text"], out=folder / "wide", **{**BODY, **tokens, "model.width": 24}),
        "bag": quick(data["labels"], out=folder / "bag", model="bag"),
    }


def weights_of(run: Path) -> dict[str, Tensor]:
    return read_tensors(Run(run).weights_path)


def refused(data: str, **settings: Any) -> str:
    with pytest.raises(GlassformerError) as error:
        infer_config({}, {"data.path": data, **settings})
    line = str(error.value)
    assert "\n" not in line
    return line


def test_a_classifier_with_the_body_of_a_language_model(
    runs: dict[str, Path], data: dict[str, str], tmp_path: Path
) -> None:
    heard: list[Event] = []
    run = quick(data["labels"], out=tmp_path / "run", from_run=str(runs["writer"]), listen=heard.append, **FIXED)
    before, now = weights_of(runs["writer"]), weights_of(run)
    assert now.keys() - before.keys() == {"head.output.weight"}
    assert all(torch.equal(value, now[name]) for name, value in before.items())
    config, source = Run(run).config(), Run(runs["writer"])
    assert (config.model.causal, config.model.pool, config.model.head_bias) == (True, "last", False)
    assert (config.model.width, config.model.positions, config.model.dropout) == (16, "learned", 0.1)
    card = Run(run).card()
    assert card["tokenizer"]["hash"] == source.card()["tokenizer"]["hash"]
    assert card["from"] == {
        "run": str(runs["writer"]),
        "task": "language-model",
        "weights": digest(source.weights_path),
        "new": ["head"],
    }
    said = [event.text for event in heard if isinstance(event, Noted) and event.text.startswith("from")]
    body = sum(value.numel() for value in before.values())
    numbers = f"{body:,} of {body + 16:,} numbers"
    assert said == [f"from {runs['writer']}: {len(before)} of {len(now)} weights ({numbers}); new: head"]
    loaded = load(run, "cpu").model
    assert isinstance(loaded.encoder, TransformerEncoder)
    assert loaded.encoder.causal


PAIRS = [
    ("writer", "text", "language-model", []),
    ("writer", "numbers", "regression", ["head"]),
    ("writer", "several", "multilabel", ["head"]),
    ("masked", "text", "masked-language-model", []),
    ("masked", "labels", "classification", ["head"]),
    ("reader", "labels", "classification", []),
    ("reader", "numbers", "regression", ["head"]),
    ("translator", "labels", "classification", ["head"]),
    ("translator", "pairs", "translation", []),
    ("lstm", "labels", "classification", ["head"]),
    ("masked", "pairs", "translation", ["decoder"]),
    ("lstm", "pairs", "translation", ["decoder", "head"]),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("source", "kind", "task", "new"), PAIRS)
def test_what_begins_from_what(
    source: str, kind: str, task: str, new: list[str], runs: dict[str, Path], data: dict[str, str], tmp_path: Path
) -> None:
    run = Run(quick(data[kind], out=tmp_path / "run", from_run=str(runs[source]), **FIXED))
    card = run.card()
    assert (card["task"], card["from"]["new"]) == (task, new)
    before, now = weights_of(runs[source]), weights_of(run.path)
    kept = [name for name in before.keys() & now.keys() if not any(name.startswith(f"{part}.") for part in new)]
    assert len(kept) > 5
    assert all(torch.equal(before[name], now[name]) for name in kept)
    if source == "translator" and task == "classification":
        assert torch.equal(before["embed_source.table.weight"], now["embed.table.weight"])
    if source in ("masked", "lstm") and task == "translation":
        assert torch.equal(before["embed.table.weight"], now["embed_source.table.weight"])
    load(run.path, "cpu")


@pytest.mark.slow
def test_a_language_model_becomes_the_decoder(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    """Alone, or beside an encoder; its attention to the source is new."""
    cross = ["decoder.blocks.*.cross_attention", "decoder.blocks.*.around_cross_attention"]
    alone = Run(quick(data["pairs"], out=tmp_path / "alone", decoder_from=str(runs["rotary"]), **FIXED))
    before, now = weights_of(runs["rotary"]), weights_of(alone.path)
    assert alone.card()["from"]["new"] == ["encoder", *cross]
    assert torch.equal(before["embed.table.weight"], now["embed_source.table.weight"])  # one table for both sides
    assert torch.equal(before["encoder.norm.weight"], now["decoder.norm.weight"])
    both = {"from_run": str(runs["masked"]), "decoder_from": str(runs["writer"])}
    made = Run(quick(data["pairs"], out=tmp_path / "both", **both, **FIXED))
    now = weights_of(made.path)
    assert made.card()["from"]["new"] == cross
    assert made.card()["from"]["decoder"]["task"] == "language-model"
    for source, names in (("masked", ("embed_source", "encoder")), ("writer", ("embed_target", "decoder"))):
        table, name = weights_of(runs[source]), "blocks.1.feed.output.weight"
        assert torch.equal(table["embed.table.weight"], now[f"{names[0]}.table.weight"])
        assert torch.equal(table[f"encoder.{name}"], now[f"{names[1]}.{name}"])
    assert made.tokenizer() is not None
    assert made.target_tokenizer() is not None  # the masked model has one token more


def test_another_task_at_the_head_keeps_no_head(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    """Other classes, or another pool, and the head is new."""
    other = tmp_path / "other.csv"
    other.write_text(Path(data["labels"]).read_text(encoding="utf-8").replace(",bad", ",poor"), encoding="utf-8")
    run = quick(str(other), out=tmp_path / "run", from_run=str(runs["reader"]), **FIXED)
    assert Run(run).card()["from"]["new"] == ["head"]
    run = quick(data["labels"], out=tmp_path / "mean", from_run=str(runs["reader"]), **FIXED, **{"model.pool": "mean"})
    assert Run(run).card()["from"]["new"] == ["head"]
    assert Run(run).config().model.pool == "mean"


def test_fewer_tokens_at_once_take_fewer_positions(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    short = {"model.context": 20}
    run = quick(data["labels"], out=tmp_path / "run", from_run=str(runs["writer"]), **FIXED, **short)
    name = "encoder.positions.table.weight"
    assert torch.equal(weights_of(run)[name], weights_of(runs["writer"])[name][:20])
    config, _ = infer_config({}, {"data.path": data["labels"], "from": str(runs["rotary"]), "model.context": 99})
    assert config.model.context == 99


# --- what stays as it is ---


def test_what_is_frozen_stays_bit_for_bit(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    settings = {"training.last_blocks": 1, "training.weight_decay": 0.5, "training.lr": 1e-2}
    run = Run(quick(data["labels"], out=tmp_path / "run", from_run=str(runs["writer"]), **settings))
    before, now = weights_of(runs["writer"]), weights_of(run.path)
    changed = {name for name in before if not torch.equal(before[name], now[name])}
    assert changed
    assert all(name.startswith(("encoder.blocks.1.", "encoder.norm.")) for name in changed)
    card = run.card()
    free = sum(now[name].numel() for name in now if name.startswith(("encoder.blocks.1.", "encoder.norm.", "head.")))
    assert (card["parameters"], card["learned"]) == (sum(value.numel() for value in now.values()), free)
    state = {name.split("/")[0] for name in tensors_of(run.path) if "/" in name}
    assert not any(name.startswith("encoder.blocks.0.") or "embed" in name for name in state)


def test_features_are_computed_once(
    runs: dict[str, Path], data: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    forward = TransformerEncoder.forward

    def counted(self: TransformerEncoder, x: Tensor, *more: Any, **named: Any) -> Tensor:
        calls.append(len(x))
        return forward(self, x, *more, **named)

    monkeypatch.setattr(TransformerEncoder, "forward", counted)
    settings = {"training.last_blocks": 0, "training.lr": 0.05, "data.test_fraction": 0.2}
    out = tmp_path / "run"
    trained = train(data["labels"], out=out, draft=True, steps=30, from_run=str(runs["writer"]), **settings)
    assert sum(calls) == 80 - 16  # each row once, but for those of the test, which a draft does not look at
    assert (trained.parameters, trained.learned) == (Run(runs["writer"]).card()["parameters"] + 16, 16)
    before, now = weights_of(runs["writer"]), weights_of(out)
    assert all(torch.equal(value, now[name]) for name, value in before.items())
    monkeypatch.undo()
    again = evaluate(out, part="validation").metrics
    assert again["loss"] == pytest.approx(trained.validation["loss"], rel=1e-5)
    assert trained.validation["loss"] < 0.69


@pytest.mark.slow
def test_going_on_is_exact_and_needs_no_source(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    """With frozen blocks and slower ones, and for a head alone."""
    for name, more in (
        ("some", {"training.last_blocks": 1, "training.layer_decay": 0.5}),
        ("head", {"training.last_blocks": 0}),
    ):
        source = shutil.copytree(runs["writer"], tmp_path / f"source-{name}")
        settings = {**more, "training.steps": 6, "training.validate_every": 2, "from_run": str(source)}
        whole = quick(data["labels"], out=tmp_path / f"whole-{name}", **settings)
        out = tmp_path / f"parts-{name}"
        quick(data["labels"], out=out, listen=StopAfter(3), **settings)
        assert Run(out).card()["status"] == "interrupted"
        shutil.rmtree(source)
        train(out=out, resume=True, draft=True)
        one, other = tensors_of(whole), tensors_of(out)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
        assert Run(out).card()["from"]["new"] == ["head"]


# --- where settings start ---


def test_where_a_begun_training_starts(runs: dict[str, Path], data: dict[str, str]) -> None:
    def training(kind: str, source: str, **said: Any) -> Any:
        return infer_config({}, {"data.path": data[kind], "from": str(runs[source]), **said})[0].training

    labels = training("labels", "writer")
    assert (labels.optimizer, labels.lr, labels.weight_decay) == ("adamw", 1e-3, 0.01)
    assert (labels.batch_size, labels.epochs) == (16, 20.0)
    assert training("labels", "wide").lr == 8e-4
    assert training("labels", "writer", optimizer="momentum").lr == 0.1
    assert training("labels", "writer", steps=7).epochs is None
    fresh, _ = infer_config({}, {"data.path": data["text"]})
    further = training("text", "writer")
    assert (further.optimizer, further.steps) == (fresh.training.optimizer, fresh.training.steps)
    assert further.lr == pytest.approx(fresh.training.lr / 10)
    assert training("pairs", "translator").lr == 1e-3
    assert training("pairs", "writer").lr == 3e-4


def test_a_task_that_nobody_names(runs: dict[str, Path], data: dict[str, str]) -> None:
    for source, kind, task in (
        ("masked", "text", "masked-language-model"),
        ("writer", "text", "language-model"),
        ("writer", "labels", "classification"),
        ("masked", "pairs", "translation"),
    ):
        config, _ = infer_config({}, {"data.path": data[kind], "from": str(runs[source])})
        assert config.task == task


# --- what cannot be ---


def test_a_body_is_kept_as_it_is(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    writer = str(runs["writer"])
    line = refused(data["labels"], **{"from": writer, "model.width": 64})
    assert line == f"model.width 64: {writer} has 16, and --from keeps its body: leave it away"
    assert "model.encoder lstm" in refused(data["labels"], **{"from": writer, "model": "lstm"})
    assert "model.size nano" in refused(data["labels"], **{"from": writer, "size": "nano"})
    assert "model.tied false" in refused(data["text"], **{"from": writer, "model.tied": False})
    assert "tokenizer.kind" in refused(data["labels"], **{"from": writer, "tokenizer.kind": "word"})
    assert "model.vectors" in refused(data["labels"], **{"from": writer, "model.vectors": data["text"]})
    line = refused(data["labels"], **{"from": writer, "model.context": 33})
    assert "33" in line and "32 tokens" in line  # noqa: PT018
    same = {"from": writer, "model.width": 16, "model.positions": "learned", "model.dropout": 0.3}
    config, _ = infer_config({}, {"data.path": data["labels"], **same})
    assert config.model.dropout == 0.3


def test_runs_that_nothing_begins_from(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    assert "bag of words" in refused(data["labels"], **{"from": str(runs["bag"])})
    assert "no run at" in refused(data["labels"], **{"from": str(tmp_path / "nowhere")})
    assert "begins from a language model" in refused(data["text"], **{"from": str(runs["reader"])})
    line = refused(data["text"], **{"from": str(runs["writer"]), "task": "masked-language-model"})
    assert "without MASK" in line
    assert "only a language model" in refused(data["pairs"], decoder_from=str(runs["reader"]))
    assert "--decoder-from" in refused(data["labels"], decoder_from=str(runs["writer"]))
    line = refused(data["pairs"], **{"from": str(runs["masked"]), "decoder_from": str(runs["wide"])})
    assert "model.width must be the same" in line and "24" in line  # noqa: PT018
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("text,price,label\n" + "".join(f"a good day {n},{n}.5,{'yn'[n % 2]}\n" for n in range(40)))
    assert "--data.kind text" in refused(
        str(mixed), **{"from": str(runs["writer"]), "extra_columns": "price", "label": "label"}
    )
    half = shutil.copytree(runs["writer"], tmp_path / "half")
    (half / "model.safetensors").unlink()
    with pytest.raises(RunError, match="missing"):
        infer_config({}, {"data.path": data["labels"], "from": str(half)})
    with pytest.raises(NotARun):
        infer_config({}, {"data.path": data["labels"], "from": data["text"]})


def test_a_run_whose_weights_are_not_its_own(
    runs: dict[str, Path], data: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the file holds, one line, and no run is left."""
    odd = shutil.copytree(runs["writer"], tmp_path / "odd")
    card = json.loads((odd / "glassformer.json").read_text())
    card["config"]["model"]["layers"] = 3
    (odd / "glassformer.json").write_text(json.dumps(card))
    with pytest.raises(RunError, match=r"model\.layers is 3, but the weights were trained with 2"):
        quick(data["labels"], out=tmp_path / "run", from_run=str(odd))
    monkeypatch.setenv(NO_VERIFY, "1")
    with pytest.raises(RunError, match=r"lacks encoder\.blocks\.2"):
        quick(data["labels"], out=tmp_path / "run", from_run=str(odd))
    assert not (tmp_path / "run").exists()


def test_more_blocks_than_there_are(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"training\.last_blocks is 3, but the model has 2 blocks"):
        quick(data["labels"], out=tmp_path / "run", from_run=str(runs["writer"]), **{"training.last_blocks": 3})
    assert not (tmp_path / "run").exists()


def test_a_head_without_its_bias_is_another(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    bare = {"model.head_bias": False}
    run = quick(data["labels"], out=tmp_path / "run", from_run=str(runs["reader"]), **FIXED, **bare)
    assert Run(run).card()["from"]["new"] == ["head"]


# --- what the doctor makes of it ---


def test_what_knows_already_is_not_judged_by_its_first_loss(runs: dict[str, Path], data: dict[str, str]) -> None:
    """And nothing of a body that stays is advised to change; a new decoder has the rate of one."""
    settings = {"data.path": data["text"], "from": str(runs["writer"])}
    facts = training_facts(infer_config({}, settings)[0], {**Run(runs["writer"]).card(), "from": {"new": []}})
    assert not facts.judges_first
    assert facts.advise.put("model.initialisation", "zero") is None
    assert facts.advise.put("model.dropout", "0.3") == "--model.dropout 0.3"
    pairs, _ = infer_config({}, {"data.path": data["pairs"], "from": str(runs["masked"])})
    assert Advice(pairs, ["decoder"]).usual == pairs.training.lr == 3e-4
    again, _ = infer_config({}, {"data.path": data["pairs"], "from": str(runs["translator"])})
    assert Advice(again).usual == again.training.lr == 1e-3


def test_no_block_trained_no_decay(data: dict[str, str], runs: dict[str, Path]) -> None:
    frozen = {"training.last_blocks": 0, "training.layer_decay": 0.5}
    with pytest.raises(SettingError, match="no block is trained"):
        infer_config({}, {"data.path": data["labels"], "from": str(runs["masked"]), **frozen})


def test_settings_of_a_beginning_alone(data: dict[str, str]) -> None:
    for setting in ({"training.last_blocks": 1}, {"training.layer_decay": 0.5}):
        with pytest.raises(SettingError, match="without --from"):
            infer_config({}, {"data.path": data["labels"], **setting})
    with pytest.raises(Misuse):
        infer_config({}, {"data.path": data["labels"], "training.last_blocks": -1})


def test_how_to_chat_goes_on_with_the_task(runs: dict[str, Path], data: dict[str, str], tmp_path: Path) -> None:
    """The template, the names it uses, and the files about tokens; a classifier has no use for them."""
    talker = tmp_path / "talker"
    shutil.copytree(runs["writer"], talker)
    (talker / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0]['content'] }}", encoding="utf-8")
    (talker / "original").mkdir()
    (talker / "original" / "vocab.json").write_text("{}", encoding="utf-8")
    Run(talker).update_card(specials={"bos_token": "<start>"})
    further = quick(data["text"], out=tmp_path / "further", from_run=str(talker))
    assert (further / "original" / "vocab.json").is_file()
    assert Run(further).card()["specials"] == {"bos_token": "<start>"}
    assert isinstance(load(further, "cpu").chat("we", tokens=2, greedy=True), str)  # type: ignore[union-attr]
    reader = quick(data["labels"], out=tmp_path / "reader", from_run=str(talker))
    assert not (reader / "chat_template.jinja").exists()


def test_a_run_is_not_written_over_by_what_begins_from_it(
    runs: dict[str, Path], data: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    shutil.copytree(runs["writer"], own)
    inner = own / "inner"
    shutil.copytree(runs["writer"], inner)
    for overwrite in (True, False):  # nor is --overwrite, or --resume, what to do about it
        with pytest.raises(SettingError, match="own is or holds the run that --from begins from: name another folder"):
            train(data["labels"], out=own, overwrite=overwrite, from_run=str(own), steps=1)
    with pytest.raises(SettingError, match="own is or holds the run that --from begins from: name another folder"):
        train(data["labels"], out=own, overwrite=True, from_run=str(inner), steps=1)
    assert (own / "model.safetensors").is_file()
    assert (inner / "model.safetensors").is_file()


def test_tokens_without_start_cannot_be_translated_into(data: dict[str, str], tmp_path: Path) -> None:
    tokens = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0, "<end>": 1, "a": 2}, "<unk>")).save(str(tokens))
    with pytest.raises(SettingError, match=r"tokenizer.json puts no START around a text, which translation needs"):
        quick(data["pairs"], out=tmp_path / "run", **{"tokenizer.file": str(tokens)})
    assert not (tmp_path / "run").exists()


def test_a_body_reads_the_way_it_learned_to(runs: dict[str, Path], data: dict[str, str]) -> None:
    said = {"model.from_run": str(runs["masked"]), "model.causal": True}
    assert "model.causal true" in refused(data["labels"], **said)
    assert "keeps its body" in refused(
        data["labels"], **{**said, "model.from_run": str(runs["writer"]), "model.causal": False}
    )
