"""Masked language models from the first word to the last: trained, resumed, judged, asked, looked into."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import MASKED
from glassformer.config.resolve import resolve
from glassformer.config.sections import TokenizerSettings
from glassformer.families.build import prepare
from glassformer.families.load import load
from glassformer.families.masked import LoadedMasked, fill, masked_ids
from glassformer.families.recognition import infer_config
from glassformer.inspection.views.registry import views_of
from glassformer.rendering.panels import Choices, Guesses, Lines
from glassformer.rendering.view import View
from glassformer.tasks.language_model import MaskedModelling
from glassformer.text.tokenizer import Tokenizer
from glassformer.trials.baselines.language import judge_hidden
from helpers.running import StopAfter, losses_of, tensors_of

SOUNDS = {"cat": "meows", "dog": "barks", "bird": "sings", "horse": "neighs"}
SMALL = {
    "task": MASKED,
    "model.width": 32,
    "model.heads": 2,
    "model.layers": 2,
    "model.context": 24,
    "model.dropout": 0.0,
    "training.batch_size": 16,
    "training.warmup": 0,
}
WORDS = {**SMALL, "tokenizer.kind": "word", "tokenizer.min_count": 1}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Who makes which sound is a rule, of which one half is hidden: either side tells the other."""
    chance = random.Random(0)
    path = tmp_path_factory.mktemp("corpus") / "animals.jsonl"
    with path.open("w") as file:
        for _ in range(400):
            name = chance.choice(list(SOUNDS))
            text = f"the {name} always {SOUNDS[name]} when it is {chance.choice(['dark', 'light'])}"
            file.write(json.dumps({"text": text}) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def run(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "masked"
    gf.train(corpus, out=path, steps=250, keep_checkpoints=True, **{**WORDS, "data.documents_apart": True})
    return path


@pytest.fixture(scope="module")
def loaded(run: Path) -> LoadedMasked:
    found = load(run)
    assert isinstance(found, LoadedMasked)
    return found


@pytest.mark.slow
def test_a_rule_is_learned_beyond_counting(run: Path, corpus: str) -> None:
    found = gf.evaluate(run)
    config, table = infer_config({}, {"data.path": corpus, **WORDS})
    prepared = prepare(config, rows=table)
    assert isinstance(prepared.task, MaskedModelling)
    counting, _ = judge_hidden(prepared.task, "validation")
    assert found.metrics["tokens"] == counting.metrics["tokens"]
    assert found.metrics["loss"] < 0.35 * counting.metrics["loss"]
    assert found.metrics["accuracy"] > 2 * counting.metrics["accuracy"]
    assert "guessed right" in found.summary


@pytest.mark.parametrize("name", SOUNDS)
def test_what_is_missing_is_guessed_from_either_side(name: str, loaded: LoadedMasked) -> None:
    found = loaded.fill(f"the <mask> always {SOUNDS[name]} when it is dark")
    assert found.places[0][0].token == name
    assert found.whole == f"the {name} always {SOUNDS[name]} when it is dark"
    assert loaded.predict([f"the {name} always [MASK] when it is dark"])[0].places[0][0].token == SOUNDS[name]


def test_guesses_are_the_softmax_at_the_places_of_mask(loaded: LoadedMasked) -> None:
    tokenizer, text = loaded.tokenizer, "the <mask> always <mask> when"
    found = loaded.fill(text, most=7)
    assert tokenizer.mask is not None
    ids = [tokenizer.start, *tokenizer.encode("the"), tokenizer.mask, *tokenizer.encode("always"), tokenizer.mask,
           *tokenizer.encode("when"), tokenizer.end]  # fmt: skip
    chances = loaded.model(torch.tensor([ids]))[0].softmax(-1).detach()
    assert [len(place) for place in found.places] == [7, 7]
    for place, guesses in zip([i for i, id in enumerate(ids) if id == tokenizer.mask], found.places, strict=True):
        assert [one.probability for one in guesses] == sorted((one.probability for one in guesses), reverse=True)
        for one in guesses:
            assert one.probability == pytest.approx(float(chances[place, one.id]), rel=1e-4)
            assert one.id not in tokenizer.specials


def test_a_blank_before_mask_belongs_to_what_it_stands_for() -> None:
    tokenizer = Tokenizer.train(["the cat sat on the mat"] * 3, TokenizerSettings(vocab_size=300), mask=True)
    assert tokenizer.mask is not None
    expected = [*tokenizer.encode("the"), tokenizer.mask, *tokenizer.encode(" sat on"), tokenizer.mask]
    assert masked_ids(tokenizer, "the <mask> sat on [MASK]") == expected


def test_texts_that_cannot_be_guessed_are_refused_in_a_line(loaded: LoadedMasked) -> None:
    with pytest.raises(Misuse, match="nothing to guess: write <mask>"):
        loaded.fill("the cat")
    with pytest.raises(Misuse, match="beyond the 22 tokens"):
        loaded.fill("the " * 30 + "<mask>")
    with pytest.raises(Misuse, match="--top 0"):
        loaded.fill("<mask>", most=0)
    with pytest.raises(Misuse, match="fill wants texts, not an int"):
        loaded.fill([3])  # type: ignore[list-item]


def test_the_command_predicts(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "the <mask> always barks when it is dark"
    assert main(["predict", str(run), text, "--json", "--top", "3"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["filled"] == text.replace("<mask>", "dog")
    assert [len(place) for place in said["places"]] == [3]
    (tmp_path / "texts.txt").write_text(f"{text}\n")
    assert main(["predict", str(run), "--file", str(tmp_path / "texts.txt")]) == 0
    assert capsys.readouterr().out.startswith(f"{said['filled']}\tdog ")
    assert main(["predict", str(run), "a text"]) == 2
    assert main(["generate", str(run), "a text"]) == 2


def test_vectors_are_the_encoders_states(loaded: LoadedMasked) -> None:
    found = loaded.embed("the cat always", tokens=True)
    tokenizer = loaded.tokenizer
    ids = torch.tensor([[tokenizer.start, *tokenizer.encode("the cat always"), tokenizer.end]])
    states = loaded.model.states(ids)[0, 1:-1].detach().numpy()
    assert found.tokens == ["the", "cat", "always"]
    assert found.vectors is not None
    np.testing.assert_allclose(found.vectors, states, atol=1e-5)
    np.testing.assert_allclose(loaded.embed("the cat always").vector, states.mean(0), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["transformer", "lstm"])
def test_resuming_is_bit_for_bit(encoder: str, corpus: str, tmp_path: Path) -> None:
    settings = {**WORDS, "model.encoder": encoder, "training.whole_words": True}
    settings = {key: value for key, value in settings.items() if key != "model.heads" or encoder == "transformer"}
    gf.train(corpus, out=tmp_path / "whole", steps=9, **settings)
    gf.train(corpus, out=tmp_path / "parts", steps=9, listen=StopAfter(4), **settings)
    assert len(losses_of(tmp_path / "parts")) < 9
    gf.train(out=tmp_path / "parts", resume=True)
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole")
    whole, parts = tensors_of(tmp_path / "whole"), tensors_of(tmp_path / "parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.slow
def test_accumulation_is_the_same_update(corpus: str, tmp_path: Path) -> None:
    for pieces in (1, 4):
        gf.train(corpus, out=tmp_path / str(pieces), steps=3, **{**WORDS, "training.accumulation_steps": pieces})
    np.testing.assert_allclose(losses_of(tmp_path / "1"), losses_of(tmp_path / "4"), rtol=1e-5)


@pytest.mark.slow
def test_views_that_apply(run: Path, loaded: LoadedMasked) -> None:
    views = set(views_of(loaded))
    assert {
        "attention",
        "logit-lens",
        "next",
        "roles",
        "head-ablation",
        "word",
        "nearest",
        "positions",
        "learning",
        "report",
    } <= views
    assert not views & {"tree", "attribution", "numbers", "step", "pairs", "versus", "pooling"}
    with pytest.raises(Misuse, match="has no tree to look at"):
        gf.look(run, "the cat", view="tree")
    text = "the <mask> always barks"
    for view in ("attention", "logit-lens", "learning"):
        assert isinstance(gf.look(loaded, text, view=view), View)
    assert isinstance(gf.look(loaded, "cat", "dog", view="nearest"), View)
    assert isinstance(gf.look(loaded, "the cat always", "a cat", word="cat"), View)
    assert isinstance(gf.look(loaded, view="head-ablation"), View)
    with pytest.raises(Misuse, match="give no text"):
        gf.look(loaded, text, view="head-ablation")


def test_the_next_view_says_what_fill_says(loaded: LoadedMasked) -> None:
    text = "the <mask> always barks"
    view = gf.look(loaded, text, view="next")
    assert isinstance(view, View)
    (panel,) = view.panels
    assert isinstance(panel, Choices)
    found = fill(loaded.model, loaded.tokenizer, text, context=loaded.config.model.context, most=12)
    (guesses,) = found.places
    assert list(panel.rows) == [loaded.tokenizer.shown(guess.id) for guess in guesses]
    np.testing.assert_allclose(panel.values[:, 3], [guess.probability for guess in guesses], atol=1e-6)
    assert len(gf.look(loaded, "the cat always", view="next").to_dict()["panels"]) == 1  # nothing is hidden: the last


def test_the_lens_speaks_of_what_stands_there(loaded: LoadedMasked) -> None:
    view = gf.look(loaded, "the <mask> always barks", view="logit-lens")
    assert isinstance(view, View)
    guesses, chances, *_ = view.panels
    assert isinstance(guesses, Guesses)
    assert isinstance(chances, Lines)
    assert guesses.at
    assert guesses.answers is not None
    assert [name.strip() for name in guesses.answers].count("") == 1  # MASK: nobody knows
    assert chances.series[0].name == "the token that stands there"
    assert chances.note == "mean over 3 tokens"  # START, MASK and END are never asked for


def test_the_last_of_the_lens_is_what_the_model_guesses(loaded: LoadedMasked) -> None:
    from glassformer.inspection.views.logit_lens import layer_scores

    ids = torch.tensor([masked_ids(loaded.tokenizer, "the <mask> always barks")])
    *_, (_, last) = layer_scores(loaded.model, (ids,))
    torch.testing.assert_close(last, loaded.model(ids)[0])


@pytest.mark.slow
def test_errors_check_card_and_report(run: Path, loaded: LoadedMasked) -> None:
    assert "hold the loss" in json.dumps([getattr(panel, "title", "") for panel in gf.errors(run).panels])
    checks = gf.check(run, only="batched,padded,looked-at,saved")
    assert [check.passed for check in checks.checked] == [True] * 4
    card = (run / "README.md").read_text()
    assert "A masked language model" in card
    assert "glassformer predict" in card
    assert (run / "report.html").exists()


def test_a_batch_is_shown_with_what_is_to_be_guessed(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--task", MASKED, "--model.context", "24", "--tokenizer.kind", "word", "--tokenizer.min_count", "1"]
    assert main(["data", "show", corpus, *words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "<mask>" in shown["rows"][0] + shown["rows"][1]
    asked = [one.split(": ") for row in shown["answers"] for one in row.split("|") if one]
    assert shown["hidden"]
    assert len(asked) > 10
    others = ("the", "always", "when", "it", "is", "dark", "light")
    assert {token for _, token in asked} <= {*SOUNDS, *SOUNDS.values(), *others}
    first = [one.split(": ") for one in shown["answers"][0].split("|")]
    assert all(shown["rows"][0][int(place)] not in ("<start>", "<end>") for place, _ in first)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model.encoder": "bag"}, "bag keeps no vector for each token"),
    ({"model.encoder": "linear"}, "linear does not read texts"),
    ({"model.encoder": "mlp"}, "mlp does not read texts"),
    ({"model.encoder": "lstm", "data.documents_apart": True}, "data.documents_apart does nothing"),
    ({"model.causal_mask": False}, "model.causal_mask does nothing"),
]


@pytest.mark.parametrize(("settings", "why"), REFUSED, ids=lambda one: one if isinstance(one, str) else None)
def test_what_cannot_be_is_refused(settings: dict[str, Any], why: str, corpus: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=why):
        gf.train(corpus, out=tmp_path / "run", steps=2, task=MASKED, **settings)
    assert not (tmp_path / "run").exists()


def test_tokens_without_mask_are_refused(corpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "tokens.json")
    assert main(["tokenizer", "train", corpus, "--out", file, "--vocab-size", "300"]) == 0
    with pytest.raises(SettingError, match="have no <mask>"):
        gf.train(corpus, out=tmp_path / "run", steps=2, **{**SMALL, "tokenizer.file": file})
    assert main(["tokenizer", "train", corpus, "--out", file, "--vocab-size", "300", "--mask", "--overwrite"]) == 0
    capsys.readouterr()
    gf.train(corpus, out=tmp_path / "run", steps=2, **{**SMALL, "tokenizer.file": file})


def test_recurrent_networks_read_both_ways_by_default() -> None:
    assert resolve({}, {"task": MASKED, "model": "lstm"}).model.bidirectional
    assert not resolve({}, {"model": "lstm"}).model.bidirectional
    assert not resolve({}, {"task": MASKED, "model": "lstm", "model.bidirectional": False}).model.bidirectional
