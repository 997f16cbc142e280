"""A run resumes only with the settings, labels and tokenizers that its checkpoints were trained with."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import RunError
from glassformer.runs.checkpoints import STATE, list_checkpoints
from glassformer.runs.files import json_digest
from glassformer.runs.run import CARD, NO_VERIFY
from glassformer.training.events import Checkpointed, Event
from helpers.running import labelled, same_run
from helpers.tables import opinions, write_table

SETTINGS = labelled("average", training__steps=5, training__checkpoint_every=2, training__validate_every=5)
SETTINGS["training.keep"] = "last"
POOL = rf"{CARD} was changed after training: model\.pool is 'max', but the weights were trained with 'mean'"


class Killed(BaseException):
    pass


def kill_after_checkpoint(event: Event) -> None:
    if isinstance(event, Checkpointed):
        raise Killed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs, and runs that were killed after a checkpoint and before the first validation."""
    folder = tmp_path_factory.mktemp("runs")
    data = write_table(folder / "opinions.csv", opinions(60))
    for parallel in ("ddp", "fsdp"):
        settings = {**SETTINGS, "training.parallel": parallel}
        gf.train(data, out=folder / parallel, **settings)
        with pytest.raises(Killed):
            gf.train(data, out=folder / f"killed-{parallel}", listen=kill_after_checkpoint, **settings)
        assert not (folder / f"killed-{parallel}" / "model.safetensors").exists()
    assert any(path.name.startswith("shard-") for path in (folder / "killed-fsdp").glob("checkpoints/*/*"))
    return folder


def change_card(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    card = json.loads((run / CARD).read_text())
    change(card)
    (run / CARD).write_text(json.dumps(card))


def change_pool(card: dict[str, Any]) -> None:
    card["config"]["model"]["pool"] = "max"


def without_weights(run: Path) -> None:
    (run / "model.safetensors").unlink()
    change_card(run, lambda card: card.update(status="training"))


def with_torn_weights(run: Path) -> None:
    (run / "model.safetensors").write_bytes(b"torn")


def as_it_is(run: Path) -> None:
    pass


CASES = {"ddp": without_weights, "fsdp": with_torn_weights, "killed-ddp": as_it_is, "killed-fsdp": as_it_is}


@pytest.mark.parametrize("name", CASES)
def test_a_changed_setting_is_refused_without_weights(runs: Path, tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(runs / name, tmp_path / "run"))
    CASES[name](run)
    change_card(run, change_pool)
    with pytest.raises(RunError, match=POOL):
        gf.train(out=run, resume=True, steps=9)


@pytest.mark.parametrize("name", ["killed-ddp", "killed-fsdp"])
def test_changed_labels_and_added_settings_are_refused_without_weights(runs: Path, tmp_path: Path, name: str) -> None:
    for number, (change, line) in enumerate([
        (lambda card: card["labels"].reverse(), "its labels, features or tokenizer differ from those of training"),
        (lambda card: card["config"]["model"].update(embed_scale=True), r"model\.embed_scale is True, but .* False"),
    ]):  # fmt: skip
        run = Path(shutil.copytree(runs / name, tmp_path / str(number)))
        change_card(run, change)
        with pytest.raises(RunError, match=line):
            gf.train(out=run, resume=True)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_killed_run_resumes_bit_for_bit(runs: Path, tmp_path: Path, parallel: str) -> None:
    run = Path(shutil.copytree(runs / f"killed-{parallel}", tmp_path / "run"))
    gf.train(out=run, resume=True)
    same_run(run, runs / parallel)
    again = Path(shutil.copytree(runs / parallel, tmp_path / "again"))
    without_weights(again)
    assert gf.train(out=again, resume=True, steps=9).steps == 9


def test_a_checkpoint_of_another_run_is_refused(runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    gf.train(runs / "opinions.csv", out=other, **{**SETTINGS, "model.pool": "max"})
    run = Path(shutil.copytree(runs / "ddp", tmp_path / "run"))
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    with pytest.raises(RunError, match=r"model\.pool is 'mean', but the weights were trained with 'max'"):
        gf.train(out=run, resume=True, steps=9)


def test_a_changed_setting_is_accepted_with_no_verify(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(runs / "killed-ddp", tmp_path / "run"))
    change_card(run, change_pool)
    monkeypatch.setenv(NO_VERIFY, "1")
    assert gf.train(out=run, resume=True).steps == 5


def test_a_card_that_is_edited_during_training_is_refused(runs: Path, tmp_path: Path) -> None:
    """Weights and checkpoints hold the settings of the model that is trained, whatever is in the folder."""
    run = tmp_path / "run"

    def edit(event: Event) -> None:
        if isinstance(event, Checkpointed) and event.step == 2:
            change_card(run, change_pool)

    with pytest.raises(RunError, match=POOL):  # it loads the best weights to evaluate them
        gf.train(runs / "opinions.csv", out=run, listen=edit, **SETTINGS)
    without_weights(run)
    with pytest.raises(RunError, match=POOL):
        gf.train(out=run, resume=True, steps=9)


@pytest.mark.parametrize("lacking", ["meaning", "settings"])
def test_a_checkpoint_without_settings_is_refused(runs: Path, tmp_path: Path, lacking: str) -> None:
    run = Path(shutil.copytree(runs / "killed-ddp", tmp_path / "run"))
    (path,) = list_checkpoints(run / "checkpoints")
    state = json.loads((path / STATE).read_text())
    digests = state.pop("digests")
    del state[lacking]
    (path / STATE).write_text(json.dumps({**state, "digests": {**digests, STATE: json_digest(state)}}))
    with pytest.raises(RunError, match=rf"state\.json is damaged: it does not hold its {lacking}"):
        gf.train(out=run, resume=True)
