"""From a table to a run and back to the same predictions, for every encoder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glassformer as gf
from glassformer.config.encoders import ENCODERS, model_name
from glassformer.config.presets import TEXT
from glassformer.config.resolve import Config
from glassformer.data.features.build import read_features
from glassformer.families.base import Processor
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.models.modules import BagPredictor
from glassformer.pipeline import build as train_verb
from glassformer.runs.run import Run
from glassformer.tasks.answers import Answers, Classes
from glassformer.verbs.train import Trained, train
from helpers.loading import TEXTS, loaded
from helpers.running import identical, labelled, losses_of, tensors_of
from helpers.tables import opinions, write_table


def few_steps(name: str, **more: Any) -> dict[str, Any]:
    """Settings of a few updates of a tiny model; `name` may be an alias or hold a variant."""
    often = {"training__steps": 3, "training__validate_every": 3}  # the last weights are then the best
    how = {"training__optimizer": "adamw", "training__lr": 0.05}
    settings = labelled(model_name(name)[0], **{**often, **how, **more})
    return {"model": name, **{key: value for key, value in settings.items() if key != "model.encoder"}}


class Kept:
    """Keeps the model that a training builds, and so has trained when it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model = nn.Module()
        self.answers: Answers | None = None
        build = train_verb.build_model

        def keep(config: Config, processor: Processor, own: Any) -> nn.Module:
            self.model, self.answers = build(config, processor, own), processor.answers
            return self.model

        monkeypatch.setattr(train_verb, "build_model", keep)


def predicted_in_memory(kept: Kept, run: Trained) -> list[Any]:
    """What the trained model itself says, before anything is written or read."""
    opened = Run.open(run)
    config, tokenizer = opened.config(), opened.tokenizer()
    assert kept.answers is not None
    features = read_features(None, tokenizer, config, "")
    loaded = LoadedPredictor(
        model=kept.model, tokenizer=tokenizer, run=opened, config=config, features=features, answers=kept.answers
    )
    return loaded.predict(TEXTS)


VARIANTS = ["bow", "dan", "bilstm", "bag:counts", "bag:bigrams", "lstm:bidirectional", "transformer:classic"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", [*(name for name, info in ENCODERS.items() if TEXT in info.reads), *VARIANTS])
def test_trained_saved_and_loaded_predicts_the_same(
    name: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(monkeypatch)
    run = train(table, out=tmp_path / "run", **few_steps(name))
    assert (run.steps, run.task, run.model) == (3, "classification", model_name(name)[0])
    table.unlink()  # a run needs nothing outside its folder
    found = loaded(run).predict(TEXTS)
    assert found == predicted_in_memory(kept, run)
    for text, prediction in zip(TEXTS, found, strict=True):
        assert prediction.text == text
        assert prediction.probabilities is not None
        assert list(prediction.probabilities) == ["bad", "good", "so-so"]
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert prediction.probability == max(prediction.probabilities.values())
        assert prediction.probabilities[prediction.label or ""] == prediction.probability
        assert prediction.value is None
    assert abs((found[0].probability or 0) - 1 / 3) > 1e-3  # something was learned
    again = loaded(run).predict(TEXTS[0])
    assert again.probabilities == pytest.approx(found[0].probabilities, abs=1e-6)
    config = Run.open(run).config()
    assert all(getattr(config.model, key) == value for key, value in model_name(name)[1].items())


@pytest.mark.parametrize("name", ["bag", "gru"])
def test_numbers_too(name: str, numbers_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    run = train(numbers_table, out=tmp_path / "run", **few_steps(name))
    assert run.task == "regression"
    assert run.validation.keys() == {"rmse", "mae", "r2", "loss", "texts"}
    found = loaded(run).predict(TEXTS)
    assert found == predicted_in_memory(kept, run)
    values = [prediction.value or 0.0 for prediction in found]
    assert len(set(values)) > 1
    assert all(0 < value < 70 for value in values)  # in the unit of the data
    known = {"unknown_text": False, "unknown_tokens": 0.0}
    assert found[0].to_dict() == {"text": TEXTS[0], "value": values[0], **known}
    assert (found[0].label, found[0].probability) == (None, None)


def test_labels_are_learned(table: Path, tmp_path: Path) -> None:
    run = train(table, out=tmp_path / "run", **few_steps("average", training__steps=60, training__validate_every=60))
    assert run.validation["accuracy"] == 1
    found = loaded(run).predict(["the film was poor", "the film was fine", "the film was usual"])
    assert [prediction.label for prediction in found] == ["bad", "good", "so-so"]
    assert losses_of(Path(run))[-1] < 0.2


def test_a_bag_takes_its_frequencies_from_the_training_part_alone(table: Path, tmp_path: Path) -> None:
    """ln((1 + n) / (1 + df)) + 1, where df of the n training texts have the word; kept in the run."""
    held_out = write_table(tmp_path / "held.csv", opinions(30, 3, seed=5))
    model = loaded(train(table, out=tmp_path / "run", validation=str(held_out), **few_steps("bag")))
    assert isinstance(model.model, BagPredictor)
    texts = [set(text.split()) for text, _ in opinions(60, classes=3)]
    for word in ("the", "soup", "good", "17"):
        having = sum(word in text for text in texts)
        (id,) = model.tokenizer.encode(word)
        assert float(model.model.bag.idf[id]) == pytest.approx(np.log(61 / (1 + having)) + 1, rel=1e-6)


def test_embeddings_are_what_the_head_sees(table: Path, tmp_path: Path) -> None:
    for name in ("lstm", "bag"):
        model = loaded(train(table, out=tmp_path / name, **few_steps(name)))
        one = model.embed("The soup was GOOD", tokens=True)
        assert model.embed("The soup was GOOD").vectors is None
        assert one.vectors is not None
        assert one.tokens == ["the", "soup", "was", "good"]
        assert one.vectors.shape == (4, len(one.vector))
        several = model.embed(["the soup was good", "a", "the soup was good and bad"], tokens=True)
        np.testing.assert_allclose(several[0].vector, one.vector, atol=1e-6)
        np.testing.assert_allclose(several[0].vectors, one.vectors, atol=1e-6)
        head = model.model.head
        assert isinstance(head, nn.Module)
        with torch.no_grad():
            scores = head(torch.from_numpy(one.vector)[None]).double()
        assert isinstance(model.answers, Classes)
        expected = model.predict("the soup was good").probabilities or {}
        assert model.answers.probabilities(scores)[0].tolist() == pytest.approx(list(expected.values()), abs=1e-6)
    assert isinstance(model.model, BagPredictor)
    np.testing.assert_allclose(one.vectors.sum(0), one.vector, atol=1e-6)  # what each word adds


# --- pretrained vectors ---

VECTORS = "soup 1 2 3 4 5\nGood -1 -2 -3 -4 -5\nnobody 9 9 9 9 9\n"


@pytest.mark.parametrize("frozen", [False, True])
def test_pretrained_vectors(frozen: bool, table: Path, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(VECTORS)
    notes: list[str] = []
    settings = {**few_steps("gru"), "model.vectors": str(tmp_path / "vectors.txt"), "model.vectors_frozen": frozen}

    def listen(event: Any) -> None:
        notes.append(getattr(event, "text", ""))

    train(table, out=tmp_path / "run", listen=listen, **settings)
    model = loaded(tmp_path / "run")
    assert any(note.startswith(f"vectors: 2 of {model.tokenizer.vocab_size}") for note in notes)
    assert Run.open(tmp_path / "run").config().model.embed_width == 5  # the file's, unless said
    rows = model.model.embed.table.weight.detach()  # type: ignore[union-attr]
    for word, expected in (("soup", [1, 2, 3, 4, 5]), ("good", [-1, -2, -3, -4, -5])):
        (id,) = model.tokenizer.encode(word)
        assert (rows[id].tolist() == expected) == frozen
        assert rows[id].tolist() == pytest.approx(expected, abs=0.5)  # from there it starts


def test_vectors_are_needed_only_once(table: Path, tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    settings = {**few_steps("gru"), "model.vectors": str(file), "training.schedule": "constant"}
    for name, steps in (("half", 2), ("whole", 3)):
        file.write_text(VECTORS)
        train(table, out=tmp_path / name, **{**settings, "training.steps": steps})
    file.unlink()
    assert loaded(tmp_path / "half").predict("the soup").probability
    train(out=tmp_path / "half", resume=True, steps=3)
    assert losses_of(tmp_path / "half") == losses_of(tmp_path / "whole")


def test_vectors_of_another_width_than_asked_for(table: Path, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(VECTORS)
    settings = {**few_steps("gru"), "model.vectors": str(tmp_path / "vectors.txt"), "model.embed_width": 7}
    with pytest.raises(gf.GlassformerError, match=r"have width 5, not 7: set model\.embed_width 5"):
        train(table, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


# --- losses, weights, files ---


def test_both_losses_of_two_classes(tmp_path: Path) -> None:
    table = write_table(tmp_path / "two.csv", opinions(60))
    runs = {loss: train(table, out=tmp_path / loss, **few_steps("average"), **{"training.loss": loss})
            for loss in ("logistic", "softmax")}  # fmt: skip
    default = train(table, out=tmp_path / "default", **few_steps("average"))
    assert runs["softmax"].parameters > runs["logistic"].parameters == default.parameters
    assert losses_of(Path(default)) == losses_of(Path(runs["logistic"]))
    for run in runs.values():
        assert list(loaded(run).predict("the soup").probabilities or {}) == ["bad", "good"]


def test_class_weights_change_what_is_learned_and_not_how_it_is_judged(tmp_path: Path) -> None:
    rows = [row for row in opinions(120) if row[1] == "good" or row[0].split()[2].endswith("0")]
    table = write_table(tmp_path / "uneven.csv", rows)
    said = {}
    for weights in (None, "balanced", "bad=1000"):
        settings = few_steps("bag", training__optimizer="sgd", training__lr=0.5, training__class_weights=weights)
        run = train(table, out=tmp_path / str(weights), **settings)
        said[weights] = (loaded(run).predict("the").probabilities or {})["bad"]
        assert gf.evaluate(run).metrics == pytest.approx(run.validation)
    assert said[None] < said["balanced"] < said["bad=1000"]


def test_files_to_validate_and_test_on(table: Path, tmp_path: Path) -> None:
    files = {name: write_table(tmp_path / f"{name}.csv", opinions(size, 3, seed=size))
             for name, size in (("validation", 7), ("test", 11))}  # fmt: skip
    run = train(table, out=tmp_path / "run", validation=str(files["validation"]), test=str(files["test"]),
                **few_steps("bag"))  # fmt: skip
    assert run.validation["texts"] == 7
    assert run.test is not None
    assert run.test["texts"] == 11
    assert Run.open(run).card()["data"]["tokens"].keys() == {"train", "validation", "test"}
    assert gf.evaluate(run).metrics == pytest.approx(run.test)
    assert gf.evaluate(run, part="validation").metrics == pytest.approx(run.validation)
    assert gf.evaluate(run, part="train").metrics["texts"] == 60
    assert gf.evaluate(run, str(files["test"])).metrics == pytest.approx(run.test)


@pytest.mark.parametrize("ending", ["tsv", "jsonl", "csv.gz", "tsv.gz", "jsonl.gz", "parquet"])
def test_the_format_of_a_table_changes_nothing(ending: str, table: Path, tmp_path: Path) -> None:
    other = write_table(tmp_path / f"other.{ending}", opinions(60, classes=3))
    runs = [
        train(path, out=tmp_path / f"run {number}", **few_steps("bag")) for number, path in enumerate((table, other))
    ]
    identical(*(tensors_of(Path(run)) for run in runs))
    cards = [Run.open(run).card() for run in runs]
    assert cards[0]["data"]["fingerprint"] == cards[1]["data"]["fingerprint"]
    assert cards[0]["data"]["report"] == cards[1]["data"]["report"]


@pytest.mark.slow
def test_a_table_as_plain_text(table: Path, tmp_path: Path) -> None:
    run = train(table, out=tmp_path / "run", task="language-model", steps=2, size="nano", batch_size=2,
                **{"model.context": 8, "tokenizer.kind": "word"})  # fmt: skip
    assert run.task == "language-model"
    model = gf.load(run, "cpu")
    assert isinstance(model, LoadedLanguageModel)
    assert "60 documents" in Run.open(run).card()["data"]["report"]
    vectors = model.embed(["the soup", ""], tokens=True)
    assert vectors[0].vector.tolist() == pytest.approx(vectors[0].vectors.mean(0).tolist(), abs=1e-6)
    assert vectors[1].vector.tolist() == [0.0] * len(vectors[0].vector)  # no token: nothing
    assert vectors[1].tokens == []


# --- going on ---


@pytest.mark.parametrize("change", [{"training.loss": "softmax"}, {"training.optimizer": "sgd"}, {"model.pool": "sum"}])
def test_a_refused_resume_leaves_the_run_as_it_was(table: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    run = tmp_path / "run"
    train(table, out=run, **few_steps("lstm"))
    before = {path.relative_to(run): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    with pytest.raises(gf.GlassformerError):
        gf.train(out=run, resume=True, **{"training.steps": 9, **change})
    assert {path.relative_to(run): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()} == before


def test_fewer_epochs_than_were_made_leave_nothing_to_do(table: Path, tmp_path: Path) -> None:
    settings = {key: value for key, value in few_steps("bag").items() if key not in ("steps", "training.steps")}
    gf.train(table, out=tmp_path / "run", epochs=3, **settings)
    with pytest.raises(gf.GlassformerError, match="leave nothing to do"):
        gf.train(out=tmp_path / "run", resume=True, epochs=1)


@pytest.mark.slow
def test_one_head_cannot_tell_what_lies_in_the_middle_and_two_can(tmp_path: Path) -> None:
    scores = {}
    for heads in (1, 2):
        trained = gf.train(
            "balance", model="transformer", out=tmp_path / str(heads), draft=True, **{"model.heads": heads}
        )
        scores[heads] = trained.validation["accuracy"]
    assert scores[1] < 0.85
    assert scores[2] == 1.0
