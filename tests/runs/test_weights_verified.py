"""Weights that are damaged, exchanged or given other labels are refused in one line, and never believed."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import RunError
from glassformer.config.resolve import DATA_PATHS, FIELDS, OTHER_PATHS
from glassformer.config.setting import kind_of
from glassformer.models.weights import take_weights
from glassformer.runs import files
from glassformer.runs.files import read_metadata, read_with_metadata, tensors_digest
from glassformer.runs.run import CARD, NO_VERIFY, Run
from helpers.running import labelled, one_line
from helpers.tables import opinions, write_table

TEXT = "the food was good"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verified")
    write_table(folder / "opinions.csv", opinions(60))
    for name, seed in (("run", 0), ("other", 1)):
        gf.train(folder / "opinions.csv", out=folder / name, **labelled("bag", training__steps=4, training__seed=seed))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "run", tmp_path / "run"))


def change_card(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    card = json.loads((run / CARD).read_text())
    change(card)
    (run / CARD).write_text(json.dumps(card))


def notes_of(run: Path) -> dict[str, Any]:
    return dict(json.loads(read_metadata(run / "model.safetensors")["glassformer"]))


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.slow
@given(place=st.floats(0, 1), bit=st.integers(0, 7))
def test_any_bit_of_the_weights_that_flips_is_noticed(
    trained: Path, tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    run = Path(shutil.copytree(trained / "run", tmp_path_factory.mktemp("flipped") / "run"))
    path = run / "model.safetensors"
    start = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    flip(path, start + round(place * (path.stat().st_size - 1 - start)), bit)
    with pytest.raises(RunError, match=r"is damaged: its weights are not those that were trained"):
        gf.load(run)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_no_numbers_are_refused_even_if_the_digest_is_right(run: Path, value: float) -> None:
    weights = load_file(run / "model.safetensors")
    weights[max(weights)].view(-1)[0] = value
    digest = Run(run).write_weights(weights)
    change_card(run, lambda card: card.update(weights=digest))
    with pytest.raises(RunError, match="holds values that are no numbers"):
        gf.load(run)


def test_a_training_that_writes_while_weights_are_read_is_no_damage(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are replaced after they were read are those that their own notes describe."""
    change_card(run, lambda card: card.update(status="training"))
    before = load_file(run / "model.safetensors")

    def read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        result = read_with_metadata(path)
        Run(run).write_weights({name: value + 1 for name, value in before.items()})
        return result

    monkeypatch.setattr("glassformer.runs.run.read_with_metadata", read)
    assert tensors_digest(Run(run).read_weights()) == tensors_digest(before)


def test_weights_of_another_run_are_refused(run: Path, trained: Path) -> None:
    shutil.copy(trained / "other" / "model.safetensors", run)
    with pytest.raises(RunError, match="its weights are not those that were trained"):
        gf.load(run)


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["labels"].reverse(),
        lambda card: card["tokenizer"]["roles"].update(unk=0),
        lambda card: card.update(features={"size": [8, 8]}),
        lambda card: card.update(positive="good"),
    ],
)
def test_what_weights_compute_is_bound_to_them(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    change_card(run, change)
    with pytest.raises(RunError, match="its labels, features or tokenizer differ from those of training"):
        gf.load(run)


CHANGES = {
    "pool": "max",
    "residual": False,
    "causal": True,
    "positions": "none",
    "norm_order": "post",
    "activation": "relu",
    "scale": False,
    "qk_norm": False,
    "norm": "layer",
    "layers": 1,
    "context": 5,
}


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transformer")
    data = write_table(folder / "opinions.csv", opinions(60))
    gf.train(data, out=folder / "run", **labelled("transformer", training__steps=2))
    return folder / "run"


@pytest.mark.parametrize("key", CHANGES)
def test_a_changed_setting_is_named(transformer: Path, tmp_path: Path, key: str) -> None:
    run = Path(shutil.copytree(transformer, tmp_path / "run"))
    trained = json.loads((run / CARD).read_text())["config"]["model"][key]
    assert trained != CHANGES[key]
    change_card(run, lambda card: card["config"]["model"].update({key: CHANGES[key]}))
    line = rf"{CARD} was changed after training: .*model\.{key} is {CHANGES[key]!r}, but .* trained with {trained!r}"
    for use in (gf.load, lambda run: gf.train(out=run, resume=True, steps=3)):
        with pytest.raises(RunError, match=line):
            use(run)


def test_a_setting_that_was_removed_is_named(transformer: Path, tmp_path: Path) -> None:
    """Without it, its default would count."""
    run = Path(shutil.copytree(transformer, tmp_path / "run"))
    change_card(run, lambda card: card["config"]["model"].pop("context"))
    with pytest.raises(RunError, match=r"model\.context is 256, but the weights were trained with 16"):
        gf.load(run)


@pytest.fixture(scope="module")
def simple_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs whose encoders do not use many model settings."""
    folder = tmp_path_factory.mktemp("simple")
    data = write_table(folder / "opinions.csv", opinions(60))
    for encoder in ("average", "cnn", "lstm"):
        gf.train(data, out=folder / encoder, **labelled(encoder, training__steps=2))
    return folder


def another_value(key: str, value: Any) -> Any:
    """Return a valid value of a setting that differs from `value`."""
    rule = FIELDS[key].metadata["rule"]
    kind, _ = kind_of(FIELDS[key])
    if kind is bool:
        return not value
    if kind is str:
        return next((choice for choice in rule.choices if choice != value), "linear:3")
    return next(kind(one) for one in (101, 2, 1, 0.5) if one != value and (rule.most is None or one <= rule.most))


@pytest.mark.parametrize("encoder", ["average", "cnn", "lstm"])
def test_an_added_setting_is_named(simple_runs: Path, tmp_path: Path, encoder: str) -> None:
    """Layers read settings such as `embed_scale` with any encoder."""
    run = Path(shutil.copytree(simple_runs / encoder, tmp_path / "run"))
    config, card = Run.open(run).config(), (run / CARD).read_text()
    stored = {f"model.{key}" for key in json.loads(card)["config"]["model"]}
    unused = [key for key in FIELDS if key.startswith("model.") and key not in {*stored, *OTHER_PATHS}]
    assert "model.embed_scale" in unused or encoder == "lstm"
    for key in unused:
        trained, value = config.get(key), another_value(key, config.get(key))
        (run / CARD).write_text(card)
        change_card(run, lambda card, key=key, value=value: card["config"]["model"].update({key[6:]: value}))
        line = f"{CARD} was changed after training: {key} is {value!r}, but the weights were trained with {trained!r};"
        with pytest.raises(RunError, match=re.escape(line)):
            Run.open(run).verify_card()


def test_a_default_that_was_added_changes_nothing(simple_runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(simple_runs / "average", tmp_path / "run"))
    default = Run.open(run).config().model.embed_scale
    change_card(run, lambda card: card["config"]["model"].update(embed_scale=default))
    assert gf.load(run).predict(TEXT) == gf.load(simple_runs / "average").predict(TEXT)


def test_every_model_setting_is_bound(transformer: Path) -> None:
    """Only names of other files, and training settings that may change on resuming, are free."""
    config = Run.open(transformer).config()
    notes = notes_of(transformer)["settings"]
    free = {f"{name}.{key}" for name, keys in config.to_dict().items() if name != "task" for key in keys} - {*notes}
    assert {key for key in free if not key.startswith("training.")} <= {*DATA_PATHS, *OTHER_PATHS}
    assert {"task", "model.pool", "tokenizer.kind", "data.text", "training.loss"} <= {*notes}


def test_settings_that_change_no_answer_may_change(run: Path, trained: Path) -> None:
    moved = str(trained / "opinions.csv")
    change_card(run, lambda card: card["config"]["data"].update(path=moved))
    change_card(run, lambda card: card["config"]["training"].update(steps=9, threads=1))
    change_card(run, lambda card: card.update(command="another", words={}))
    assert gf.load(run).predict(TEXT)


def test_a_changed_setting_is_taken_with_no_verify(transformer: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(transformer, tmp_path / "run"))
    change_card(run, lambda card: card["config"]["model"].update(pool="max"))
    assert gf.load(run, verify=False).config.model.pool == "max"


@pytest.mark.parametrize("lacking", ["weights", "meaning", "settings"])
def test_weights_without_a_digest_are_refused(run: Path, lacking: str) -> None:
    path = run / "model.safetensors"
    notes = {name: note for name, note in notes_of(run).items() if name != lacking}
    save_file(load_file(path), path, {"glassformer": json.dumps(notes)})
    with pytest.raises(RunError, match=rf"is damaged: it does not hold its {lacking} \(--no-verify ignores it\)"):
        gf.load(run)
    assert gf.load(run, verify=False).predict(TEXT)


def test_a_card_without_the_digest_of_the_weights_is_refused(run: Path) -> None:
    change_card(run, lambda card: card.pop("weights"))
    with pytest.raises(RunError, match="its weights are not those that were trained"):
        gf.load(run)


def test_a_run_that_was_killed_between_weights_and_card_is_read(run: Path, trained: Path) -> None:
    """While a training goes on, the file's own digest counts."""
    change_card(run, lambda card: card.update(status="training"))
    weights = take_weights(gf.load(trained / "other").model)
    Run(run).write_weights(weights)
    assert tensors_digest(take_weights(gf.load(run).model)) == tensors_digest(weights)


def test_whoever_wants_them_takes_them_as_they_are(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(NO_VERIFY, "")
    flip(run / "model.safetensors", (run / "model.safetensors").stat().st_size - 1, 1)
    assert main(["predict", str(run), TEXT]) == 1
    assert "is damaged: its weights are not those that were trained" in one_line(capsys.readouterr().err)
    assert gf.load(run, verify=False).predict(TEXT)
    assert main(["predict", str(run), TEXT, "--no-verify"]) == 0


def test_beginning_from_damaged_weights_is_refused(run: Path, trained: Path, tmp_path: Path) -> None:
    data, out = trained / "opinions.csv", tmp_path / "body"
    gf.train(data, out=out, **labelled("rnn", training__steps=2))
    flip(out / "model.safetensors", (out / "model.safetensors").stat().st_size - 1)
    with pytest.raises(RunError, match="is damaged"):
        gf.train(data, out=tmp_path / "tuned", from_run=out, steps=2)


def test_a_digest_is_of_names_shapes_types_and_numbers() -> None:
    weights = {"a": torch.arange(4.0), "b": torch.zeros(2, dtype=torch.bfloat16)}
    others = [
        {"a": weights["a"].view(2, 2), "b": weights["b"]},
        {"a": weights["a"], "c": weights["b"]},
        {"a": weights["a"].double(), "b": weights["b"]},
        {"a": -weights["a"], "b": weights["b"]},
    ]
    assert len({tensors_digest(found) for found in (weights, *others)}) == 5
    assert tensors_digest(dict(reversed(weights.items()))) == tensors_digest(weights)


def test_weights_that_are_replaced_while_they_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Header and values then belong to one file."""
    path, other = tmp_path / "model.safetensors", tmp_path / "new"
    save_file({"w": torch.zeros(2)}, path, metadata={"of": "old"})
    save_file({"w": torch.ones(2)}, other, metadata={"of": "new"})
    opened: list[str] = []

    def replacing(file: Path, framework: str) -> Any:
        found = safe_open(file, framework=framework)
        if not opened:
            os.replace(other, path)
        opened.append(str(file))
        return found

    monkeypatch.setattr(files, "safe_open", replacing)
    tensors, metadata = files.read_with_metadata(path)
    assert (tensors["w"].tolist(), metadata, len(opened)) == ([1.0, 1.0], {"of": "new"}, 2)
