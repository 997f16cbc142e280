"""The folder a run leaves: complete, movable, nothing in it executable; damaged, it says so in one line."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer.cli.main import main
from glassformer.config.errors import DataError, GlassformerError, Misuse, NotARun, RunError, SettingError
from glassformer.config.resolve import resolve
from glassformer.families.load import load
from glassformer.models.build import build_language_model
from glassformer.runs.checkpoints import load_checkpoint
from glassformer.runs.folders import CARD, find_run
from glassformer.runs.run import Card, Run
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train
from helpers.running import (
    CAUSAL,
    DATA,
    flags,
    identical,
    log_of,
    losses_of,
    same_run,
    steps_saved,
    tensors_of,
    tiny,
    train_here,
)

SETTINGS = tiny(training__steps=4, training__validate_every=2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run; tests that change it take a copy."""
    out = tmp_path_factory.mktemp("finished") / "run"
    train_here(out, SETTINGS, command="glassformer train reverse")
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def scores(run: Path) -> torch.Tensor:
    with torch.inference_mode():
        return load(run).model(torch.arange(15)[None] % 7)


# --- complete ---


def test_the_folder_is_complete(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    wanted = {"glassformer.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "curves.png", "README.md"}
    assert names == wanted | {"checkpoints", "report.html"}
    assert {path.name for path in (finished / "checkpoints").iterdir()} == {"step-2", "step-4"}
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_is_pickled(finished: Path) -> None:
    files = [path for path in finished.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".safetensors", ".png", ".md", ".html"}
    for path in files:
        if path.suffix == ".safetensors":
            load_file(path)
        elif path.suffix == ".json":
            json.loads(path.read_text())
        head = path.read_bytes()[:2]
        assert not head.startswith(b"\x80"), path  # a pickle
        assert head != b"PK", path  # torch.save


def test_the_card_says_all_there_is_to_know(finished: Path) -> None:
    card = json.loads((finished / "glassformer.json").read_text())
    assert card["format"] == 2
    assert card["status"] == "finished"
    assert card["task"] == "language-model"
    assert card["command"] == "glassformer train reverse"
    assert card["steps"] == 4
    assert card["data"]["fingerprint"]
    assert card["tokenizer"]["hash"] == Run.open(finished).tokenizer().hash
    assert card["parameters"] == sum(value.numel() for value in load_file(finished / "model.safetensors").values())
    assert card["best"]["step"] in (2, 4)
    assert card["validation"]["loss"] == pytest.approx(card["best"]["loss"], rel=1e-6)
    assert {"python", "torch", "platform"} <= card["environment"].keys()


def test_the_config_is_whole_and_comes_back(finished: Path) -> None:
    config = Run.open(finished).config()
    saved = json.loads((finished / "glassformer.json").read_text())["config"]
    assert config.to_dict() == saved
    for key, value in SETTINGS.items():
        section, name = key.split(".")
        assert saved[section][name] == value
    assert saved["training"]["lr"] == 3e-3  # what was left open is written down too


def test_the_log(finished: Path) -> None:
    log = log_of(finished)
    assert [line["step"] for line in log if line["event"] == "step"] == [1, 2, 3, 4]
    assert [line["step"] for line in log if line["event"] == "validation"] == [2, 4]
    tokens = [line["tokens"] for line in log if line["event"] == "step"]
    assert tokens == [64, 128, 192, 256]


def test_the_readme_is_for_people(finished: Path) -> None:
    text = (finished / "README.md").read_text()
    for word in (
        "transformer",
        "width 8",
        "characters",
        "bits per byte",
        "4 updates",
        "finished",
        "glassformer generate",
    ):
        assert word in text


@pytest.mark.sample(3)
@pytest.mark.parametrize("encoder", CAUSAL)
def test_every_encoder_trains_saves_loads_and_gives_the_same_scores(encoder: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    trained = train_here(out, tiny(encoder, training__steps=1, model__dropout=0.1))
    assert trained.steps == 1
    loaded = load(out)
    assert not loaded.model.training
    again = build_language_model(loaded.config.model, vocab=loaded.tokenizer.vocab_size, seed=1).eval()
    run = Run.open(out)
    run.load_weights(again)
    ids = torch.arange(30).reshape(2, 15)
    with torch.inference_mode():
        assert torch.equal(again(ids), loaded.model(ids))
    # the weights moved away from where they started, all of the way that one update makes
    fresh = build_language_model(loaded.config.model, vocab=loaded.tokenizer.vocab_size, seed=0)
    moved = [name for name, weight in fresh.named_parameters() if not torch.equal(weight, again.get_parameter(name))]
    assert "head.weight" in moved or "embed.table.weight" in moved
    checkpoint = dict(load_checkpoint(out / "checkpoints" / "step-1").weights)
    identical(checkpoint, load_file(out / "model.safetensors"))
    assert evaluate(loaded).metrics["loss"] == trained.validation["loss"]


def test_a_moved_folder_needs_nothing_else(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scores(finished)
    told = evaluate(finished).metrics
    elsewhere = Path(shutil.copytree(finished, tmp_path / "an other" / "näme"))
    hidden = finished.rename(finished.with_name("hidden"))
    try:
        monkeypatch.chdir(tmp_path)
        assert torch.equal(scores(elsewhere), before)
        assert torch.equal(scores(Path("an other") / "näme"), before)
        assert evaluate(elsewhere).metrics == told
        assert train(out=elsewhere, resume=True, steps=5).steps == 5
    finally:
        hidden.rename(finished)


# --- overwriting ---


def test_a_run_is_never_overwritten_unasked(run: Path) -> None:
    before = tensors_of(run)
    with pytest.raises(Misuse, match=r"already holds a run.*--resume.*--overwrite"):
        train_here(run, SETTINGS)
    identical(tensors_of(run), before)
    train_here(run, {**SETTINGS, "training.steps": 2}, overwrite=True)
    assert steps_saved(run) == [2]
    assert len(losses_of(run)) == 2


def test_overwriting_waits_until_the_new_run_can_begin(run: Path) -> None:
    """A setting or a file that cannot be is found before what is there is thrown away."""
    before = tensors_of(run)
    for data, settings in (("no such file", {}), (DATA, {"model.heads": 3}), (DATA, {"model.context": 100_000})):
        with pytest.raises(Misuse):
            train(data, out=run, overwrite=True, **{**SETTINGS, **settings})
    identical(tensors_of(run), before)


def test_nothing_else_is_overwritten_even_if_asked(tmp_path: Path) -> None:
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "chapter.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(Misuse, match="thesis is not empty and holds no run"):
            train_here(mine, SETTINGS, overwrite=overwrite)
        with pytest.raises(Misuse, match="is a file"):
            train_here(mine / "chapter.txt", SETTINGS, overwrite=overwrite)
    assert (mine / "chapter.txt").read_text() == "years of work"


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    train_here(tmp_path, {**SETTINGS, "training.steps": 1})
    assert load(tmp_path)


# --- finding ---


@pytest.mark.slow
def test_names_and_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotARun, match="no run under runs/ yet"):
        load("last")
    settings = {**SETTINGS, "training.steps": 1}
    first, second = train(DATA, **settings), train(DATA, **settings)
    assert [first.run, second.run] == ["runs/reverse-transformer-1", "runs/reverse-transformer-2"]
    card = Path(first.run) / "glassformer.json"
    os.utime(card, (card.stat().st_atime, card.stat().st_mtime - 5))
    assert load("last").run.path == Path(second.run)
    os.utime(card, (card.stat().st_atime, card.stat().st_mtime + 60))
    assert load("last").run.path == Path(first.run)
    (tmp_path / "runs" / "notes").mkdir()
    assert load("last").run.path == Path(first.run)


def test_foreign_folders(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(NotARun, match=r"is a folder, but not a run: there is no glassformer\.json"):
        load(tmp_path)
    with pytest.raises(NotARun, match="is a file, but not a run"):
        load(tmp_path / "notes.json")
    with pytest.raises(NotARun, match="no run at"):
        load(tmp_path / "nowhere")


# --- damaged ---


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scramble(path: Path) -> None:
    path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


def into_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", ["glassformer.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", [cut, empty, scramble, into_folder, Path.unlink])
def test_a_damaged_file_is_named_in_one_line(
    run: Path, name: str, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run / name)
    with pytest.raises((RunError, NotARun)) as caught:
        load(run)
    told = str(caught.value)
    if name != "model.safetensors" or damage not in (Path.unlink, into_folder):
        assert name in told
    assert str(run) in told
    assert "\n" not in told
    if damage in (cut, empty) and name != "tokenizer.json":  # a plain sentence, and the reader's words behind it
        assert told.startswith(f"{run / name} is damaged: restore it from a copy, or train again (")
    assert main(["evaluate", str(run)]) == caught.value.exit_code
    assert capsys.readouterr().err.strip() == f"glassformer: {told}"


def test_task_and_config_disagree(run: Path) -> None:
    card = json.loads((run / "glassformer.json").read_text())
    other = next(task for task in ("classification", "language-model") if task != card["task"])
    (run / "glassformer.json").write_text(json.dumps(card | {"task": other}))
    with pytest.raises(RunError, match=f"is damaged: .*its task is {other}, but its config has task {card['task']}"):
        Run(run).config()


def test_wrong_versions(run: Path) -> None:
    card = json.loads((run / "glassformer.json").read_text())
    for version in (0, 1, 3, "2", None):
        (run / "glassformer.json").write_text(json.dumps({**card, "format": version}))
        with pytest.raises(RunError, match=r"glassformer\.json has format .*reads format 2$"):
            load(run)


NONSENSE: list[Any] = [None, 7, [], {}, {"hash": 3}]


def go_on(run: Path) -> None:
    train(out=run, resume=True, steps=4)


def told(run: Path, use: Callable[[Path], object]) -> str | None:
    """What a use of the run complains of; it may not, but if it does, then in one line."""
    try:
        use(run)
    except GlassformerError as error:
        line = str(error)
    else:
        return None
    assert "\n" not in line
    return line


@pytest.mark.slow
def test_a_card_that_lacks_something(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of it gone: it works all the same, or the file is named; never a traceback."""
    monkeypatch.setattr("glassformer.reporting.papers.draw_curves", lambda *args, **more: None)  # it takes long
    path = run / "glassformer.json"
    card = json.loads(path.read_text())
    for gone in card:
        for use in (load, evaluate, go_on):
            path.write_text(json.dumps({key: value for key, value in card.items() if key != gone}))
            error = told(run, use)
            needed = gone in Card.__required_keys__
            assert ("glassformer.json" in (error or "")) == needed, (gone, error)


@pytest.mark.slow
def test_a_card_that_says_nonsense(run: Path) -> None:
    path = run / "glassformer.json"
    card = json.loads(path.read_text())
    for key in card:
        for value in NONSENSE:
            path.write_text(json.dumps({**card, key: value}))
            for use in (load, evaluate):
                error = told(run, use)
                assert error is None or str(run) in error or "name the data" in error, (key, value, error)
                if key in ("format", "tokenizer"):
                    assert error is not None


@pytest.mark.parametrize("section", ["task", "data", "model", "training", "nothing"])
def test_a_config_that_says_nonsense(run: Path, section: str) -> None:
    path = run / "glassformer.json"
    card = json.loads(path.read_text())
    for value in NONSENSE:
        for use in (load, go_on):
            path.write_text(json.dumps({**card, "config": {**card["config"], section: value}}))
            error = told(run, use)
            if value == {"hash": 3} or section == "nothing":
                assert error is not None
                assert "glassformer.json is damaged" in error
            if section == "model":
                assert error is not None


def test_another_runs_tokenizer(run: Path, tmp_path: Path) -> None:
    """Same kind, same size, other letters: it would load, and write nonsense."""
    text = (run / "tokenizer.json").read_text()
    (run / "tokenizer.json").write_text(text.replace('"q"', '"Q"'))
    with pytest.raises(RunError, match=r"tokenizer\.json is not the tokenizer that this run was trained with"):
        load(run)


def test_weights_that_do_not_fit(run: Path) -> None:
    path = run / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if "attend" in name)
    cases = {
        f"lacks {name}": {key: tensor for key, tensor in weights.items() if key != name},
        "holds something.else, which the model has not": {**weights, "something.else": torch.zeros(3)},
        rf"{name} is \(3, 5\), but must be": {**weights, name: torch.zeros(3, 5)},
    }
    for told, changed in cases.items():
        save_file(changed, path)
        with pytest.raises(RunError, match=rf"model\.safetensors does not fit the model: .*{told}"):
            load(run, verify=False)


def test_a_run_that_never_validated(tmp_path: Path, run: Path) -> None:
    (run / "model.safetensors").unlink()
    with pytest.raises(RunError, match="is missing: "):
        load(run)


def test_half_a_line_in_the_log(run: Path) -> None:
    """A killed process may leave one; what is whole is still read, and going on tidies it up."""
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"event": "step", "st')
    assert len(losses_of(run)) == 4
    train(out=run, resume=True, steps=6)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)
    assert len(losses_of(run)) == 6


# --- the command line ---


@pytest.mark.slow
def test_the_same_through_the_command_line(tmp_path: Path, finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    words = ["train", DATA, "--out", str(out), *flags(SETTINGS)]
    assert main(words) == 0
    same_run(out, finished)
    capsys.readouterr()
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"glassformer: {out} already holds a run: go on with --resume")
    assert main([*words, "--overwrite", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["run"] == str(out)
    assert result["steps"] == 4
    assert result["validation"]["loss"] == evaluate(finished).metrics["loss"]
    same_run(out, finished)
    assert main([*words, "--overwrite", "--resume"]) == 2


def test_what_may_not_change_when_a_run_goes_on(run: Path) -> None:
    before = tensors_of(run)
    changes = {"model.width": 16, "tokenizer.kind": "word", "data.split_seed": 1, "training.last_blocks": 0}
    for key, value in {**changes, "optimizer": "adamw"}.items():
        with pytest.raises(SettingError, match=rf"{key} cannot change when a run goes on|optimizer cannot change"):
            train(out=run, resume=True, steps=6, **{key: value})
    with pytest.raises(DataError, match="differs from the data that this run started with"):
        train("copy", out=run, resume=True, steps=6)
    identical(tensors_of(run), before)
    with pytest.raises(
        SettingError, match=r"training.lr cannot change .*training settings may change without DATA: --resume --out"
    ):
        train(DATA, out=run, resume=True, steps=5, lr=0.001)
    assert train(out=run, resume=True, steps=5, lr=0.001, **{"model.width": 8, "optimizer": "muon"}).steps == 5


def test_other_data_under_the_same_name(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 20)
    out = tmp_path / "run"
    train(text, out=out, **{**SETTINGS, "training.steps": 2})
    text.write_text("all the world's a stage, and all the men\n" * 20)
    with pytest.raises(Misuse, match="the data differs from the data that this run started with"):
        train(out=out, resume=True, steps=4)
    assert resolve(Run.open(out).card()["config"], {}).data.path == str(text)


def test_a_missing_run_is_answered_with_the_most_recent_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotARun, match=r"^no run at nowhere$"):
        find_run("nowhere")
    for age, name in enumerate(["third", "first", "second"]):
        card = tmp_path / "runs" / name / CARD
        card.parent.mkdir(parents=True)
        card.write_text("{}")
        os.utime(card, (1000 - [3, 1, 2][age],) * 2)
    with pytest.raises(
        NotARun, match=r"^no run at nowhere; the most recent runs are runs/first, runs/second, runs/third$"
    ):
        find_run("nowhere")
    assert find_run("last") == Path("runs/first")
