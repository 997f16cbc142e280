"""Interrupted and resumed is never having been interrupted: bit for bit, whoever trains whatever."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from glassformer.config.errors import Misuse
from glassformer.runs.checkpoints import load_checkpoint
from glassformer.training.events import Checkpointed, Event, Noted, Sampled, Started, Stepped, Validated
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train
from helpers.running import CAUSAL, StopAfter, identical, log_of, same_run, steps_saved, tensors_of, tiny, train_here


def stopped_and_resumed(out: Path, settings: dict[str, Any], *steps: int) -> Path:
    """A run that was told to stop after each of these steps, and then went on to its end."""
    for number, step in enumerate(steps):
        stopper = StopAfter(step)
        trained = train_here(out, settings, listen=stopper, resume=number > 0)
        assert (trained.reason, trained.steps) == ("interrupted", step)
        assert steps_saved(out)[-1] == step
    events: list[Event] = []
    train_here(out, settings, listen=events.append, resume=True)
    started = next(event for event in events if isinstance(event, Started))
    assert started.step == steps[-1]
    assert next(event.step for event in events if isinstance(event, Stepped)) == steps[-1] + 1
    return out


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["muon", "adamw", "momentum", "sgd"])
@pytest.mark.parametrize("encoder", ["transformer", "lstm"])
def test_every_optimiser(tmp_path: Path, encoder: str, optimizer: str) -> None:
    settings = tiny(
        encoder,
        training__optimizer=optimizer,
        training__steps=9,
        training__validate_every=3,
        training__accumulation_steps=2,
        model__dropout=0.3,
    )
    train_here(tmp_path / "whole", settings)
    same_run(stopped_and_resumed(tmp_path / "again", settings, 4), tmp_path / "whole")
    optimiser = [name for name in tensors_of(tmp_path / "whole") if name.startswith("optimiser")]
    assert bool(optimiser) == (optimizer != "sgd")


@pytest.mark.sample(4)
@pytest.mark.parametrize("settings", [
    *({"encoder": name} for name in CAUSAL if name not in ("transformer", "lstm")),
    {"encoder": "cnn", "model__norm": "batch"},
    {"encoder": "transformer", "model__style": "gpt2"},
    {"encoder": "transformer", "model__style": "classic", "model__tied": False},
    {"encoder": "lstm", "model__cells": 9, "model__embed": "onehot"},
], ids=lambda settings: "-".join(map(str, settings.values())))  # fmt: skip
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_every_encoder(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings = tiny(**settings, training__steps=4, model__dropout=0.2, training__validate_every=2)
    train_here(tmp_path / "whole", settings)
    same_run(stopped_and_resumed(tmp_path / "again", settings, 3), tmp_path / "whole")


@pytest.mark.slow
def test_stopped_after_every_single_step(tmp_path: Path) -> None:
    settings = tiny(training__steps=6, model__dropout=0.2, training__schedule="cosine", training__label_smoothing=0.1)
    train_here(tmp_path / "whole", settings)
    same_run(stopped_and_resumed(tmp_path / "again", settings, 1, 2, 3, 4, 5), tmp_path / "whole")


@pytest.mark.slow
def test_epochs(tmp_path: Path) -> None:
    settings = tiny(training__epochs=0.15, model__dropout=0.2)
    steps = train_here(tmp_path / "whole", settings).steps
    assert steps > 6
    same_run(stopped_and_resumed(tmp_path / "again", settings, 5), tmp_path / "whole")


@pytest.mark.slow
def test_patience(tmp_path: Path) -> None:
    """A rate far too high: the loss soon rises, and the best weights are those of the first validations."""
    settings = tiny(
        training__steps=60, training__validate_every=3, training__patience=3, training__lr=0.8, training__warmup=0
    )
    whole = train_here(tmp_path / "whole", settings)
    assert whole.reason == "patience"
    assert whole.steps == whole.best["step"] + 9
    same_run(stopped_and_resumed(tmp_path / "again", settings, 2, whole.steps - 1), tmp_path / "whole")
    card = json.loads((tmp_path / "again" / "glassformer.json").read_text())
    assert card["status"] == "stopped early"
    again = train_here(tmp_path / "again", settings, resume=True)  # once more changes nothing
    assert (again.reason, again.steps) == ("patience", whole.steps)
    same_run(tmp_path / "again", tmp_path / "whole")


@pytest.mark.slow
def test_a_finished_run_has_nothing_to_do_and_may_be_given_more(tmp_path: Path) -> None:
    settings = tiny(training__steps=4, training__schedule="constant", training__warmup=1)
    train_here(tmp_path / "again", settings)
    before = tensors_of(tmp_path / "again")
    card = (tmp_path / "again" / "glassformer.json").read_text()
    for more in ({}, {"steps": 4}):
        assert train(out=tmp_path / "again", resume=True, **more).steps == 4
    for more in ({"steps": 3}, {"lr": 0.5}):
        with pytest.raises(Misuse, match="has made 4 updates"):
            train(out=tmp_path / "again", resume=True, **more)
    assert (tmp_path / "again" / "glassformer.json").read_text() == card
    identical(tensors_of(tmp_path / "again"), before)
    assert train(out=tmp_path / "again", resume=True, steps=6).steps == 6
    train_here(tmp_path / "whole", {**settings, "training.steps": 6})
    one, other = tensors_of(tmp_path / "again"), tensors_of(tmp_path / "whole")
    identical(one, other)


def test_a_finished_run_without_checkpoints_is_not_trained_anew_unasked(tmp_path: Path) -> None:
    train_here(tmp_path / "run", tiny(training__steps=2))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    weights = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(Misuse, match="--overwrite"):
        train(out=tmp_path / "run", resume=True, steps=9)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"encoder": "transformer"},
    {"encoder": "cnn", "model__norm": "batch"},
    {"encoder": "lstm", "training__optimizer": "momentum"},
], ids=lambda settings: settings["encoder"])  # fmt: skip
def test_an_average_of_the_weights(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings = tiny(**settings, training__steps=9, training__average=4, training__validate_every=4, model__dropout=0.2)
    settings["training.checkpoints"] = 9
    trained = train_here(tmp_path / "whole", settings)
    same_run(stopped_and_resumed(tmp_path / "again", settings, 3, 4, 7), tmp_path / "whole")
    best = load_file(tmp_path / "whole" / "model.safetensors")
    weights, _, _, average = load_checkpoint(tmp_path / "whole" / "checkpoints" / f"step-{trained.best['step']:.0f}")
    identical(best, {**weights, **average})
    assert average
    assert any(not torch.equal(weights[name], value) for name, value in average.items())
    metrics = evaluate(tmp_path / "whole").metrics
    assert metrics["loss"] == pytest.approx(trained.best["loss"], rel=1e-6)
    assert metrics["loss"] == pytest.approx(trained.validation["loss"], rel=1e-6)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("before", "after", "said"), [
    (None, 3, "training.average was none and is 3: the average starts from here"),
    (3, None, "training.average was 3 and is none: the average is dropped from here"),
    (3, 5, "training.average was 3 and is 5: the average continues from here"),
    (3, 3, None),
    (None, None, None),
])  # fmt: skip
def test_an_average_may_begin_end_and_change(
    tmp_path: Path, before: int | None, after: int | None, said: str | None
) -> None:
    train_here(tmp_path / "run", tiny(training__steps=2, training__average=before))
    events: list[Event] = []
    train(out=tmp_path / "run", resume=True, steps=4, listen=events.append, **{"training.average": after})
    assert [event.text for event in events if isinstance(event, Noted) and "average" in event.text] == [said] * bool(
        said
    )
    average = load_checkpoint(tmp_path / "run" / "checkpoints" / "step-4").average
    assert bool(average) == (after is not None)


def test_the_same_data_may_have_moved(tmp_path: Path) -> None:
    text = "".join(f"line {number} of a text\n" for number in range(200))
    (tmp_path / "here.txt").write_text(text)
    train(tmp_path / "here.txt", out=tmp_path / "run", **tiny(training__steps=2))
    (tmp_path / "here.txt").rename(tmp_path / "there.txt")
    assert train(tmp_path / "there.txt", out=tmp_path / "run", resume=True, steps=3).steps == 3


# --- checkpoints gone wrong ---


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 4
    path.write_bytes(content)


@pytest.mark.sample(4)
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize("name", ["shard-00001-of-00001.safetensors", "state.json"])
def test_a_torn_checkpoint_falls_back_to_the_one_before(
    interrupted: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    out = Path(shutil.copytree(interrupted.parent, tmp_path / "runs"))
    damage(out / "again" / "checkpoints" / "step-6" / name)
    events: list[Event] = []
    train(out=out / "again", resume=True, listen=events.append)
    said = [event.text for event in events if isinstance(event, Noted) and "step-6" in event.text]
    assert len(said) == 1
    assert name in said[0] or damage is flip  # it may hit the digest of another file
    assert "going back to the checkpoint before it" in said[0]
    assert next(event for event in events if isinstance(event, Started)).step == 4
    same_run(out / "again", out / "whole")


def test_torn_weights_are_written_again_from_a_checkpoint(interrupted: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(interrupted.parent, tmp_path / "runs"))
    (out / "again" / "model.safetensors").write_bytes(b"torn")
    train(out=out / "again", resume=True)
    same_run(out / "again", out / "whole")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run stopped after step 6, with checkpoints of 4 and 6; beside it the one that was never stopped."""
    folder = tmp_path_factory.mktemp("interrupted")
    settings = tiny(training__steps=9, model__dropout=0.2, training__checkpoint_every=2, training__validate_every=8)
    settings["training.average"] = 3
    train_here(folder / "whole", settings)
    train_here(folder / "again", settings, listen=StopAfter(6))
    assert steps_saved(folder / "again") == [4, 6]
    return folder / "again"


def test_without_any_checkpoint_it_starts_again(interrupted: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(interrupted.parent, tmp_path / "runs"))
    for state in (out / "again" / "checkpoints").glob("*/state.json"):
        state.unlink()
    events: list[Event] = []
    train(out=out / "again", resume=True, listen=events.append)
    said = [event.text for event in events if isinstance(event, Noted) and "checkpoint" in event.text]
    assert [line.split(", ")[-1] for line in said] == [
        "going back to the checkpoint before it",
        "and there is no checkpoint before it",
        "no checkpoint to go on from: starting again from the first step",
    ]
    same_run(out / "again", out / "whole")


def test_what_a_checkpoint_stands_for_is_logged_before_it_is_there(tmp_path: Path) -> None:
    """Else a run killed in between would go on with a hole in its log."""
    out = tmp_path / "run"
    holes = []

    def listen(event: Event) -> None:
        if isinstance(event, Checkpointed):
            logged = [line["step"] for line in log_of(out) if line["event"] == "step"]
            if logged != list(range(1, event.step + 1)):
                holes.append(event.step)

    train_here(out, tiny(training__steps=6, training__checkpoint_every=1, training__validate_every=4), listen=listen)
    assert holes == []


# --- looking on ---


@pytest.mark.slow
def test_samples_and_listeners_disturb_nothing(tmp_path: Path) -> None:
    settings = tiny(training__steps=6, model__dropout=0.3, training__validate_every=2)
    train_here(tmp_path / "quiet", settings)
    heard: list[Event] = []

    def listen(event: Event) -> None:
        torch.rand(3)
        heard.append(event)

    train_here(tmp_path / "talking", {**settings, "training.samples": True}, listen=listen)
    assert len([event for event in heard if isinstance(event, Sampled)]) == 3
    assert len([event for event in heard if isinstance(event, Validated)]) == 3
    identical(tensors_of(tmp_path / "talking"), tensors_of(tmp_path / "quiet"))
    log = [line for line in log_of(tmp_path / "talking") if line["event"] != "sample"]
    assert log == log_of(tmp_path / "quiet")


def test_validating_more_often_disturbs_nothing(tmp_path: Path) -> None:
    settings = tiny("cnn", training__steps=6, model__dropout=0.3, model__norm="batch")
    for name, every in (("seldom", 6), ("often", 1)):
        train_here(tmp_path / name, {**settings, "training.validate_every": every})
    one, other = tensors_of(tmp_path / "seldom"), tensors_of(tmp_path / "often")
    last = [name for name in one if not name.startswith("model")]  # which were the best may well differ
    identical({name: one[name] for name in last}, {name: other[name] for name in last})


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_another(tmp_path: Path) -> None:
    settings = tiny(training__steps=3, model__dropout=0.3)
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        torch.rand(5)
        train_here(tmp_path / name, settings, seed=seed)
    same_run(tmp_path / "one", tmp_path / "two")
    assert log_of(tmp_path / "one")[0]["loss"] != log_of(tmp_path / "three")[0]["loss"]
