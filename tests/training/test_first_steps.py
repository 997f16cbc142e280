"""Every encoder begins by guessing evenly and learns at once; a rate that is absurd ends with a name and a way on."""

import json
import math
from pathlib import Path

import pytest
import tokenizers

from glassformer.config.errors import TrainingFailed
from glassformer.runs.checkpoints import load_checkpoint
from glassformer.runs.run import Run
from glassformer.training.events import Event, Started, Stepped
from glassformer.verbs.train import train
from helpers.running import (
    CAUSAL,
    DATA,
    QUICK,
    command,
    identical,
    log_of,
    losses_of,
    move_clock,
    steps_saved,
    tensors_of,
    tiny,
    train_here,
)


@pytest.mark.sample(3)
@pytest.mark.parametrize("encoder", CAUSAL)
def test_the_first_loss_is_that_of_guessing_evenly(tmp_path: Path, encoder: str) -> None:
    """ln V; a little above where the last layer is normalised. The default settings bring it down within a few updates.

    (At `nano`. A wide Transformer whose head is tied starts by repeating its input, and so with more.)
    """
    out = tmp_path / "run"
    settings = {"model.encoder": encoder, "model.size": "nano", "model.context": 16, **QUICK}
    train(DATA, out=out, steps=20, **{**settings, "training.batch_size": 16, "training.validate_every": 1000})
    even = math.log(Run(out).card()["tokenizer"]["vocab_size"])
    first = losses_of(out)[0]
    assert even - 0.1 < first < even + (0.8 if encoder == "cnn" else 0.1)
    assert losses_of(out)[-1] < first - 0.02


@pytest.mark.parametrize("encoder", ["transformer", "lstm"])
def test_a_batch_in_pieces_is_the_whole_batch(tmp_path: Path, encoder: str) -> None:
    settings = tiny(encoder, training__steps=3, training__batch_size=8, training__optimizer="sgd")
    for pieces in (1, 4):
        train_here(tmp_path / str(pieces), settings, **{"training.accumulation_steps": pieces})
    whole, parts = tensors_of(tmp_path / "1"), tensors_of(tmp_path / "4")
    for name, value in whole.items():
        assert (value - parts[name]).abs().max() < 1e-5, name
    assert losses_of(tmp_path / "4") == pytest.approx(losses_of(tmp_path / "1"), rel=1e-6)


def test_epochs_are_passes_over_the_tokens(tmp_path: Path) -> None:
    """Each update reads four windows of 16 tokens."""
    out = tmp_path / "run"
    trained = train_here(out, tiny(training__epochs=0.5, training__validate_every=1000))
    assert trained.steps == math.ceil(0.5 * Run(out).card()["data"]["tokens"]["train"] / (4 * 16))
    validated = [line["step"] for line in log_of(out) if line["event"] == "validation"]
    assert validated == [trained.steps]  # the last update is always followed by a validation


def test_minutes_are_kept_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_clock(monkeypatch, "training.budget")
    events: list[Event] = []
    trained = train_here(tmp_path / "run", tiny(training__minutes=0.02), listen=events.append)
    checkpoint = Run(tmp_path / "run").newest_checkpoint()
    assert checkpoint is not None
    assert 0.8 < checkpoint[2]["elapsed"] < 1.2  # what follows the last update has its time too
    assert trained.reason == "finished"
    assert trained.steps == len([event for event in events if isinstance(event, Stepped)]) > 10
    started = next(event for event in events if isinstance(event, Started))
    assert (started.steps, started.minutes) == (None, 0.02)


@pytest.mark.slow
def test_a_rate_that_is_absurd(tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = tiny(training__optimizer="sgd", training__steps=4, training__checkpoint_every=1, training__warmup=0)
    train_here(out, settings)
    before = tensors_of(out)
    code, stdout, stderr = command("train", "--resume", "--out", str(out), "--steps", "12", "--lr", "1e20")
    assert code == 1
    assert stdout == ""
    assert "Traceback" not in stderr
    told = stderr.splitlines()[-1]
    assert told.startswith("glassformer: the ")
    assert "became nan" in told or "became inf" in told
    assert " step 6 " in told or "after step 5 " in told
    assert "first tensor that is not finite: output of " in told
    assert told.endswith("--resume --lr 0.5")  # the usual one
    assert Run(out).card()["status"] == "failed"

    assert steps_saved(out)[-1] == 4  # step 5 led to what is not a number, whatever the rate
    identical(tensors_of(out), before)
    newest = load_checkpoint(out / "checkpoints" / "step-4").weights
    assert all(value.isfinite().all() for value in newest.values())
    assert train(out=out, resume=True, lr=0.1).steps == 12
    assert all(math.isfinite(loss) for loss in losses_of(out))
    assert [line["step"] for line in log_of(out) if line["event"] == "step"] == list(range(1, 13))
    assert json.loads((out / "glassformer.json").read_text())["status"] == "finished"


@pytest.mark.slow
def test_absurd_from_the_start(tmp_path: Path) -> None:
    """Nothing good was ever saved: going on starts again."""
    out = tmp_path / "run"
    settings = tiny(training__optimizer="sgd", training__steps=6, training__checkpoint_every=1, training__lr=1e20)
    with pytest.raises(TrainingFailed, match="--resume --lr"):
        train_here(out, settings)
    assert steps_saved(out) == []
    assert train(out=out, resume=True, lr=0.1).steps == 6
    calm = tmp_path / "calm"
    train_here(calm, {**settings, "training.lr": 0.1})
    identical(tensors_of(out), tensors_of(calm))


def test_a_tokenizer_without_start_trains_too(tmp_path: Path) -> None:
    """Samples begin with START: where a tokenizer made elsewhere has none, there are no samples, and no failure."""
    letters = {letter: number for number, letter in enumerate("?>abcdefghijklmnopqrstuvwxyz")}
    pipeline = tokenizers.Tokenizer(tokenizers.models.BPE(letters, [], unk_token="?"))
    pipeline.save(str(tmp_path / "letters.json"))
    settings = tiny(tokenizer__file=str(tmp_path / "letters.json"), training__samples=True, training__steps=2)
    del settings["tokenizer.kind"]
    trained = train_here(tmp_path / "run", settings)
    assert trained.steps == 2
    assert Run(tmp_path / "run").card()["tokenizer"]["vocab_size"] == len(letters)


@pytest.mark.slow
def test_samples_of_every_encoder(tmp_path: Path) -> None:
    """A sample never stops a training; not even one of a model that may read the future."""
    for number, settings in enumerate([*({"encoder": name} for name in CAUSAL), {"model__causal_mask": False}]):
        out = tmp_path / str(number)
        train_here(out, tiny(**settings, training__samples=True, training__steps=1))
        events = [line["event"] for line in log_of(out) if line["event"] != "finding"]
        assert events == ["step", "validation", "sample"]
