"""From pairs of every kind to a run, and back to the same translations."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from torch import nn

import glassformer as gf
from glassformer.config.encoders import size_of
from glassformer.config.errors import DataError, Misuse, SettingError
from glassformer.config.messages import listening
from glassformer.config.model_section import RECURRENT
from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config, cpu_defaults, resolve
from glassformer.decoding import translate as translate_room
from glassformer.families.requests import ConfigRequest
from glassformer.families.translation import LoadedTranslator, source_ids
from glassformer.pipeline import build as build_stage
from glassformer.pipeline.request import TrainRequest
from glassformer.pipeline.resolve import Session, resolve_request
from glassformer.rendering.panels import Heads
from glassformer.rendering.view import View, Views
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.training.events import Event, Noted, Sampled, Validated, as_notes
from glassformer.verbs.look import look
from glassformer.verbs.train import Trained, train
from helpers.running import identical, log_of, tensors_of
from helpers.tables import write_table
from helpers.translating import mirrored, translating, write_aligned, write_tmx

ROWS = mirrored(60)
TEXTS = ["abc", "", "fedcba", "  ", "a", "abcdefabcdefabcdefabcdef"]
NAMES = ("source", "target")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_table(tmp_path / "pairs.csv", ROWS, NAMES)


def translator_of(run: Trained | Path) -> LoadedTranslator:
    found = gf.load(run, "cpu")
    assert isinstance(found, LoadedTranslator)
    return found


class Kept:
    """Keeps the model that a training builds, and so has trained when it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model = nn.Module()
        build = build_stage.build_model

        def keep(*args: Any, **more: Any) -> nn.Module:
            self.model = build(*args, **more)
            return self.model

        monkeypatch.setattr(build_stage, "build_model", keep)


# --- defaults on a CPU ---


def resolved(flags: dict[str, Any], file: dict[str, Any] | None = None) -> Config:
    """Resolve the settings of a translator whose data is not read."""
    return ConfigRequest(file or {}, flags).resolve({"task": TRANSLATION})


@pytest.mark.parametrize("encoder", RECURRENT)
def test_recurrent_translators_have_smaller_defaults_on_a_cpu(encoder: str) -> None:
    cpu = resolved({"model": encoder, "device": "cpu"})
    gpu = resolved({"model": encoder, "device": "cuda"})
    defaults = cpu_defaults(TRANSLATION, {"model.encoder": encoder})
    assert defaults
    assert defaults == {key: cpu.get(key) for key in defaults}
    assert gpu == resolve({}, {"task": TRANSLATION, "model": encoder, "device": "cuda"})
    assert all(gpu.get(key) != value for key, value in defaults.items())


def test_defaults_on_a_cpu_give_way_to_chosen_settings_and_to_data_sets() -> None:
    chosen = {"model.width": 64, "training.batch_tokens": 300}
    config = resolved({"model": "lstm", "device": "cpu", "epochs": 2, **chosen})
    assert {key: config.get(key) for key in chosen} == chosen
    assert (config.training.steps, config.training.epochs) == (None, 2)
    assert config.training.lr == resolved({"model": "lstm", "device": "cuda"}).training.lr
    assert resolved({"model": "gru", "device": "cpu", "size": "small"}).model.width == size_of("small", "gru")["width"]
    for same in ({"model": "transformer"}, {"model": "lstm", "data.path": "dates"}):
        cpu, gpu = (resolved({**same, "device": device}) for device in ("cpu", "cuda"))
        assert cpu.model == gpu.model
        assert cpu.training == dataclasses.replace(gpu.training, device="cpu")


def test_a_translator_prints_its_defaults_on_a_cpu(pairs: Path) -> None:
    events: list[Event] = []
    settings = {"model": "lstm", "device": "cpu", "minutes": 1}
    with listening(as_notes(events.append)):
        resolve_request(Session.of(TrainRequest(data=pairs, settings=settings, listen=events.append)))
    said = [event.text for event in events if isinstance(event, Noted)]
    assert "defaults on a CPU: --model.width 128 --training.batch_tokens 512 --training.lr 0.008" in said


# --- to a run and back ---


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"encoder": "transformer"},
    {"encoder": "transformer", "model__style": "classic", "tokenizer__shared": False},
    {"encoder": "lstm", "model__attention": "none"},
    {"encoder": "gru", "model__attention": "dot", "model__input_feeding": True, "model__embed": "onehot"},
    {"encoder": "cnn", "model__decoder": "rnn", "tokenizer__shared": False},
    {"encoder": "transformer", "training__average": 3, "training__steps": 6},
], ids=lambda settings: "-".join(str(value) for value in settings.values()))  # fmt: skip
def test_trained_saved_and_loaded_translates_the_same(
    settings: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(monkeypatch)
    how = {"training__optimizer": "adamw", "training__lr": 0.03}
    run = train(pairs, out=tmp_path / "run", **translating(**{**how, **settings}))
    assert (run.task, run.model) == ("translation", settings["encoder"])
    assert run.validation.keys() == {"chrf", "exact_match", "loss", "pairs", "target_tokens"}
    pairs.unlink()  # a run needs nothing outside its folder
    apart = settings.get("tokenizer__shared") is False
    names = ["README.md", "checkpoints", "glassformer.json", "metrics.jsonl", "model.safetensors", "tokenizer.json"]
    assert sorted(path.name for path in Path(run).iterdir()) == sorted([*names, *["target_tokenizer.json"] * apart])
    loaded = translator_of(run)
    before = dataclasses.replace(loaded, model=kept.model)
    found = loaded.translate(TEXTS, nbest=2)
    assert found == before.translate(TEXTS, nbest=2)
    assert [one.source for one in found] == TEXTS
    assert [len(one.best) for one in found] == [2, 0, 2, 0, 2, 2]
    assert found[1].to_dict() == {"source": "", "translation": ""}
    assert found[0].to_dict() == {
        "source": "abc",
        "translation": found[0].text,
        "score": found[0].best[0].score,
        "others": [{"text": found[0].best[1].text, "score": found[0].best[1].score}],
    }
    alone = loaded.translate("abc", nbest=2)
    assert [one.text for one in alone.best] == [one.text for one in found[0].best]
    assert alone.best[0].score == pytest.approx(found[0].best[0].score, abs=1e-5)
    assert "translation" in repr(loaded)


@pytest.mark.slow
def test_separate_tokenizers_know_their_side_alone(pairs: Path, tmp_path: Path) -> None:
    loaded = translator_of(train(pairs, out=tmp_path / "run", **translating(tokenizer__shared=False)))
    specials = len(loaded.tokenizer.specials)
    assert loaded.tokenizer.vocab_size == loaded.target_tokenizer.vocab_size == 6 + specials
    assert sorted(loaded.tokenizer.decode(range(specials, 6 + specials))) == list("abcdef")
    assert sorted(loaded.target_tokenizer.decode(range(specials, 6 + specials))) == list("ABCDEF")
    card = loaded.run.card()
    assert card["target_tokenizer"]["hash"] == loaded.target_tokenizer.hash != card["tokenizer"]["hash"]
    together = translator_of(train(pairs, out=tmp_path / "other", **translating()))
    assert together.target_tokenizer is together.tokenizer
    assert together.tokenizer.vocab_size == 12 + specials


@pytest.mark.slow
def test_pairs_are_learned(pairs: Path, tmp_path: Path) -> None:
    rows = ROWS[:12]
    write_table(tmp_path / "few.csv", rows, NAMES)
    write_table(tmp_path / "same.csv", rows, NAMES)
    settings = translating("gru", model__width=48, training__steps=150, training__validate_every=150,
                           training__batch_tokens=300, data__validation=str(tmp_path / "same.csv"))  # fmt: skip
    run = train(tmp_path / "few.csv", out=tmp_path / "run", **settings, optimizer="adamw", lr=0.01)
    assert run.validation["exact_match"] == 1
    assert [one.text for one in translator_of(run).translate([source for source, _ in rows])] == [
        target for _, target in rows
    ]


# --- every way in ---


@pytest.mark.slow
def test_every_kind_of_file_is_the_same_data(tmp_path: Path) -> None:
    one, other = write_aligned(tmp_path, ROWS)
    named = [(target, "x", source) for source, target in ROWS]
    ways: dict[str, tuple[Path | None, dict[str, Any]]] = {
        "csv": (write_table(tmp_path / "a.csv", ROWS, NAMES), {}),
        "jsonl": (write_table(tmp_path / "b.jsonl", ROWS, ("src", "tgt")), {}),
        "named": (write_table(tmp_path / "c.csv", named, ("en", "n", "fr")), {"source": "fr", "target": "en"}),
        "files": (None, {"source_file": str(one), "target_file": str(other)}),
        "tmx": (write_tmx(tmp_path / "d.tmx", ROWS), {}),
        "tmx backwards": (
            write_tmx(tmp_path / "e.tmx", [(b, a) for a, b in ROWS]),
            {"source": "fr", "target": "en"},
        ),
    }
    runs = {}
    for name, (path, more) in ways.items():
        more = {f"data.{key}": value for key, value in more.items()}
        runs[name] = train(path, out=tmp_path / name, **translating(), **more)
        assert runs[name].task == "translation"
    first = tensors_of(Path(runs["csv"]))
    prints = {name: Run.open(run).card()["data"]["fingerprint"] for name, run in runs.items()}
    assert len(set(prints.values())) == 1
    for run in runs.values():
        identical(tensors_of(Path(run)), first)
        found = gf.evaluate(run).metrics  # its own part is found again
        assert found["loss"] == pytest.approx(runs["csv"].validation["loss"], rel=1e-6)
        assert found["pairs"] == 6
    assert Run.open(runs["files"]).card()["data"]["name"] == one.name


@pytest.mark.slow
def test_an_embedded_set(tmp_path: Path) -> None:
    events: list[Event] = []
    run = train("reverse-pairs:rows=80", out=tmp_path / "run", listen=events.append,
                **translating(training__samples=True))  # fmt: skip
    said = " ".join(event.text for event in events if isinstance(event, Noted))
    assert "columns: from 'source' to 'target' (--source, --target); task: translation (--task)" in said
    validated = next(event for event in events if isinstance(event, Validated))
    sampled = next(event for event in events if isinstance(event, Sampled))
    record = validated.evaluation.records[3 % len(validated.evaluation.records)]
    assert sampled.text == f"{record['source']} → {record['output']}   ({record['target']})"
    assert [line["text"] for line in log_of(Path(run)) if line["event"] == "sample"] == [sampled.text]
    assert run.validation["pairs"] == 8
    assert "A translator (transformer" in (Path(run) / "README.md").read_text()
    assert "batches of 60 tokens" in (Path(run) / "README.md").read_text()


# --- evaluation ---


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no test may change, with a test part."""
    folder = tmp_path_factory.mktemp("translator")
    table = write_table(folder / "pairs.csv", ROWS, NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.reporting.papers.draw_curves", lambda *args, **more: None)
        settings = translating("gru", training__steps=40, training__optimizer="adamw", training__lr=0.02,
                               training__label_smoothing=0.2, data__test_fraction=0.2)  # fmt: skip
        train(table, out=folder / "run", **settings)
    return folder / "run"


def by_hand(evaluation: Evaluation, run: Path, **search: Any) -> None:
    """The same scores from the run's own translations."""
    found = translator_of(run).translate([record["source"] for record in evaluation.records], **search)
    outputs = [one.text for one in found]
    targets = [record["target"] for record in evaluation.records]
    assert [record["output"] for record in evaluation.records] == outputs
    assert evaluation.metrics["chrf"] == pytest.approx(sacrebleu.corpus_chrf(outputs, [targets]).score)
    assert evaluation.metrics["exact_match"] == np.mean([a == b for a, b in zip(outputs, targets, strict=True)])


def test_evaluation_of_the_runs_own_parts(trained: Path) -> None:
    card = Run.open(trained).card()
    own = gf.evaluate(trained, beam=1)
    assert own.metrics == pytest.approx(card["test"])  # on the way, translations are greedy
    assert gf.evaluate(trained, part="validation", beam=1).metrics == pytest.approx(card["validation"])
    by_hand(gf.evaluate(trained), trained)
    by_hand(gf.evaluate(trained, part="train", beam=3, length_penalty=0.0), trained, beam=3, length_penalty=0.0)
    assert sum(gf.evaluate(trained, part=part).metrics["pairs"] for part in ("train", "validation", "test")) == 60
    assert own.metrics["chrf"] > 5
    with pytest.raises(Misuse, match="this run has no dev part; it has train, validation, test"):
        gf.evaluate(trained, part="dev")


def test_evaluation_on_other_data(trained: Path, tmp_path: Path) -> None:
    rows = mirrored(12, seed=5)
    table = write_table(tmp_path / "other.csv", rows, NAMES)
    first = gf.evaluate(trained, str(table))
    by_hand(first, trained)
    assert [(record["source"], record["target"]) for record in first.records] == rows
    one, other = write_aligned(tmp_path, rows)
    files = gf.evaluate(trained, reading={"source_file": str(one), "target_file": str(other)})
    tmx = gf.evaluate(trained, str(write_tmx(tmp_path / "other.tmx", rows)))
    odd = write_table(tmp_path / "odd.tsv", [(b, a) for a, b in rows], ("into", "from"))
    named = gf.evaluate(trained, str(odd), reading={"source": "from", "target": "into"})
    for evaluation in (files, tmx, named):
        assert evaluation.metrics == first.metrics
        assert evaluation.records == first.records
    backwards = write_tmx(tmp_path / "backwards.tmx", [(b, a) for a, b in rows])
    assert gf.evaluate(trained, str(backwards), reading={"source": "fr"}).records == first.records
    lower = gf.evaluate(trained, str(table), lowercase=True)
    assert lower.details["bleu_lowercase"] is None  # no target has four words
    with pytest.raises(Misuse, match="--part test"):
        gf.evaluate(trained, str(table), part="test")
    with pytest.raises(Misuse, match="language models"):
        gf.evaluate(trained, str(table), stride=3)
    with pytest.raises(Misuse, match="name the DATA"):
        gf.evaluate(trained, reading={"source": "from"})
    for name, missing in (("source", "target"), ("target", "source")):
        with pytest.raises(SettingError, match=f"--{name}-file needs its other half: --{missing}-file"):
            gf.evaluate(trained, reading={f"{name}_file": str(one)})


@pytest.mark.slow
def test_pairs_that_are_too_long(trained: Path, tmp_path: Path) -> None:
    rows = [("a" * length, "B" * length) for length in (3, 14, 15, 16, 40)]
    table = write_table(tmp_path / "long.csv", rows, NAMES)
    said: list[str] = []
    with pytest.raises(
        DataError, match=r"2 of 5 rows cannot be used, .* longer than the context \(--data.too_long cut"
    ):
        gf.evaluate(trained, str(table))
    skip = {"bad_rows": "skip"}
    found = gf.evaluate(trained, str(table), say=said.append, reading=skip)  # the context is 16, END among them
    assert [len(record["source"]) for record in found.records] == [3, 14, 15]
    assert list(found.details["skipped"].values()) == [2]
    assert "2 pairs are longer than 16 tokens and left out (--model.context, --data.too_long)" in said
    said.clear()
    cut = gf.evaluate(trained, str(table), reading={"too_long": "cut"}, say=said.append)
    assert [len(record["source"]) for record in cut.records] == [3, 14, 15, 16, 40]
    assert "2 pairs are longer than 16 tokens and cut there (--model.context, --data.too_long)" in said
    with pytest.raises(DataError, match="holds no pair"):
        gf.evaluate(trained, str(write_table(tmp_path / "all.csv", rows[3:], NAMES)), reading=skip)
    events: list[Event] = []
    more = {"listen": events.append, "out": tmp_path / "run"}
    table = write_table(tmp_path / "train.csv", [*ROWS, rows[-1]], NAMES)
    train(table, **more, **translating(data__too_long="cut"))
    assert any("1 pair is longer than 16 tokens and cut there" in e.text for e in events if isinstance(e, Noted))
    table = write_table(tmp_path / "none.csv", [(f"{a}{'a' * 20}", b) for a, b in ROWS], NAMES)
    with pytest.raises(DataError, match="no pair is left to train on"):
        train(table, out=tmp_path / "none", **translating())
    assert not (tmp_path / "none").exists()


# --- translating ---


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 3.0])
def test_translations_stand_in_the_order_of_their_scores(trained: Path, length_penalty: float) -> None:
    texts = [source for source, _ in ROWS[:20]]
    for translation in translator_of(trained).translate(texts, nbest=5, length_penalty=length_penalty):
        scores = [one.score for one in translation.best]
        assert scores == sorted(scores, reverse=True)


def test_what_is_said_of_texts(trained: Path) -> None:
    said: list[str] = []
    loaded = translator_of(trained)
    loaded.translate(["abc", "a" * 16, "b" * 15, "xbyz"], say=said.append)
    assert said == ["1 of 4 texts are longer than 16 tokens and cut there", "3 tokens are unknown to this model"]
    assert loaded.translate("a" * 16).text == loaded.translate("a" * 15).text
    for wrong in ({"beam": 0}, {"nbest": 6}, {"length_penalty": -1.0}):
        with pytest.raises(SettingError):
            loaded.translate("abc", **wrong)
    assert loaded.translate([]) == []


def test_scores_of_translations(trained: Path) -> None:
    found = translator_of(trained).translate("abcd", beam=4, nbest=4)
    assert len({one.text for one in found.best}) > 1
    assert all(one.score < 0 for one in found.best)
    short = translator_of(trained).translate("abcd", beam=4, length_penalty=0.0, nbest=4)
    scores = [one.score for one in short.best]
    assert scores == sorted(scores, reverse=True)  # by their sums, where length counts for nothing


def heads_of(seen: View | Views) -> Heads:
    assert isinstance(seen, View)
    (heads,) = seen.panels
    assert isinstance(heads, Heads)
    return heads


def test_an_alignment(trained: Path) -> None:
    loaded = translator_of(trained)
    seen = look(loaded, "abc", view="alignment")
    heads = heads_of(seen)
    assert heads.columns == ["a", "b", "c", "<end>"]
    assert seen.title == loaded.translate("abc").text
    assert heads.rows == [*seen.title, "<end>"]
    assert heads.weights.shape == (1, 1, len(heads.rows), 4)
    np.testing.assert_allclose(heads.weights.sum(-1), 1, atol=1e-6)
    given = heads_of(look(trained, "abc", translation="CBA"))
    assert given.rows == ["C", "B", "A", "<end>"]
    longer = heads_of(look(trained, "abc", translation="CBAF"))  # what comes later changes nothing before it
    np.testing.assert_allclose(longer.weights[:, :, :3], given.weights[:, :, :3], atol=1e-6)


@pytest.mark.slow
def test_one_layer_and_head(pairs: Path, tmp_path: Path) -> None:
    run = train(pairs, out=tmp_path / "run", **translating())
    seen = look(run, "abc", translation="BA", layer=1, head=0)
    heads = heads_of(seen)
    assert heads.weights.shape[:2] == (2, 2)
    assert (heads.layer, heads.head) == (1, 0)
    assert isinstance(seen, View)
    assert seen.note == "layer 1, head 0"
    for name in ("layer", "head"):
        for wrong in (-1, 2):
            with pytest.raises(Misuse, match=f"--{name} is {wrong}, but this run has {name}s 0 to 1"):
                look(run, "abc", **{name: wrong})


# --- vectors ---


def test_what_is_embedded_is_what_the_decoder_looks_at(trained: Path) -> None:
    loaded = translator_of(trained)
    ids, _ = source_ids(loaded.tokenizer, "abc", loaded.config.model.context)
    states = loaded.model.encode(torch.tensor([ids])).states[0, :-1].detach().numpy()
    found = loaded.embed("abc", tokens=True)
    assert found.tokens == ["a", "b", "c"]
    np.testing.assert_allclose(found.vectors, states, atol=1e-6)
    np.testing.assert_allclose(found.vector, states.mean(0), atol=1e-6)
    several = loaded.embed(["fedcba", "abc"])
    np.testing.assert_allclose(several[1].vector, found.vector, atol=1e-6)


def test_a_translation_without_end_is_told(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, said = translator_of(trained), list[str]()
    loaded.translate(["abc", "de"], say=said.append)
    assert not any("grew far longer" in line for line in said)
    monkeypatch.setattr(translate_room, "longest_translation", lambda source, context: 1)
    loaded.translate(["abc", "de"], beam=1, say=said.append)
    assert said[-1] == "2 of 2 translations grew far longer than their source and were stopped there"
