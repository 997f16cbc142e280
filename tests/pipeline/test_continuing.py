"""Continued training of a language model on other text: its learning rate, warnings, and what is forgotten."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.config.messages import listening
from glassformer.families.build import prepare, prepare_again
from glassformer.families.recognition import infer_config
from glassformer.pipeline.continuing import FAMILIAR, OldText, with_chosen_rate
from glassformer.reporting.reference_losses import unigram_entropy
from glassformer.reporting.report import report
from glassformer.runs.run import Run
from glassformer.training.events import Event, Noted
from glassformer.verbs.train import train
from helpers.beginnings import BODY, TEXTS, quick, write_data
from helpers.running import StopAfter, tensors_of

CHAR = {"tokenizer.kind": "char"}
OTHER = "\n\n".join(text.translate(str.maketrans("wehluotiv", "vituolehw"))[::-1] for text in TEXTS)
"""Text with the same letters and other words."""
CYRILLIC = "\n\n".join(text.translate(str.maketrans("wehluotiv", "щеглуотив")) for text in TEXTS)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("texts")
    others = {name: folder / f"{name}.txt" for name in ("other", "cyrillic")}
    others["other"].write_text(OTHER, encoding="utf-8")
    others["cyrillic"].write_text(CYRILLIC, encoding="utf-8")
    return {"old": write_data(folder)["text"], **{name: str(path) for name, path in others.items()}}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]) -> Path:
    return quick(texts["old"], out=tmp_path_factory.mktemp("old") / "run", **BODY, **CHAR)


def continued(old: Path, data: str, out: Path, **settings: Any) -> tuple[float | None, list[str]]:
    """Return the learning rate of a continued run, and what `train` said of it."""
    heard: list[Event] = []
    quick(data, out=out, from_run=str(old), listen=heard.append, **settings)
    return Run(out).config().training.lr, [event.text for event in heard if isinstance(event, Noted)]


def test_text_that_the_model_does_not_know_has_the_usual_rate(old: Path, texts: dict[str, str], tmp_path: Path) -> None:
    usual = infer_config({}, {"data.path": texts["other"]})[0].training.lr
    rate, said = continued(old, texts["other"], tmp_path / "other")
    assert rate == usual
    assert any(line.startswith(f"learning rate {usual:g}: at the start, the loss of") for line in said)
    rate, said = continued(old, texts["other"], tmp_path / "given", lr=2e-4)
    assert rate == 2e-4
    assert not any("learning rate" in line for line in said)


def test_the_start_loss_chooses_the_rate(old: Path, texts: dict[str, str]) -> None:
    config, _ = infer_config({}, {"data.path": texts["other"], "from": str(old)})
    prepared = prepare(config)
    unigram = unigram_entropy(prepared)
    assert unigram is not None
    assert config.training.lr is not None

    def rate(share: float) -> float | None:
        return with_chosen_rate(config, prepared, old.name, share * unigram).training.lr

    assert rate(FAMILIAR - 0.01) == config.training.lr
    assert rate(FAMILIAR + 0.01) == rate(1.1) == pytest.approx(10 * config.training.lr, rel=1e-12)


@pytest.mark.slow
def test_a_resumed_run_keeps_its_rate(old: Path, texts: dict[str, str], tmp_path: Path) -> None:
    source = shutil.copytree(old, tmp_path / "source")
    settings = {"from_run": str(source), "training.steps": 4, "training.validate_every": 2}
    whole = quick(texts["other"], out=tmp_path / "whole", **settings)
    out = quick(texts["other"], out=tmp_path / "parts", listen=StopAfter(2), **settings)
    shutil.rmtree(source)
    train(out=out, resume=True, draft=True)
    one, other = tensors_of(whole), tensors_of(out)
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert Run(out).config().training.lr == Run(whole).config().training.lr


def test_warnings_where_starting_over_may_be_better(old: Path, texts: dict[str, str], tmp_path: Path) -> None:
    _, said = continued(old, texts["cyrillic"], tmp_path / "cyrillic")
    (unknown, worse) = [line for line in said if line.startswith("warning: ")]
    assert "of the new text's tokens are unknown to the tokenizer of" in unknown
    assert "predicts the new text worse than token frequencies do" in worse
    _, said = continued(old, texts["old"], tmp_path / "same")
    assert not any("unknown to the tokenizer" in line for line in said)


def test_a_program_gets_the_warnings_the_rate_and_the_losses(old: Path, texts: dict[str, str], tmp_path: Path) -> None:
    settings = {"training.steps": 2, "training.device": "cpu", "data.validation_fraction": 0.05}
    trained = train(texts["cyrillic"], out=tmp_path / "run", **{"from": str(old)}, **settings)
    found, forgetting = trained.to_dict(), Run(tmp_path / "run").card()["from"]["forgetting"]
    assert found["old_text"] == forgetting
    assert found["old_text"].keys() == {"before", "after", "unit", "windows"}
    assert found["lr"] == Run(tmp_path / "run").config().training.lr
    (unknown, worse) = [line for line in found["warnings"] if old.name in line]
    assert "of the new text's tokens are unknown to the tokenizer of" in unknown
    assert "predicts the new text worse than token frequencies do" in worse
    for begin in (f"warning: {unknown}", f"warning: {worse}", "learning rate ", "loss on the validation text of "):
        assert any(remark.startswith(begin) for remark in trained.remarks)
    again = train(out=tmp_path / "run", resume=True)  # has finished
    assert (again.lr, again.old_text) == (trained.lr, trained.old_text)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["language-model", "masked-language-model"])
def test_what_is_forgotten_is_reported(task: str, texts: dict[str, str], tmp_path: Path) -> None:
    """The loss on the old validation text, before and after: printed, in the card, the README and the report."""
    old = quick(texts["old"], out=tmp_path / "old", task=task, steps=20, lr=0.01, **BODY, **CHAR)
    heard: list[Event] = []
    settings = {"training.steps": 10, "training.device": "cpu", "data.validation_fraction": 0.05}
    out = tmp_path / "new"
    train(texts["other"], out=out, from_run=str(old), listen=heard.append, **settings)
    measured = Run(out).card()["from"]["forgetting"]
    assert measured["before"] == pytest.approx(Run(old).card()["validation"]["loss"])
    assert measured["before"] != measured["after"]
    line = (
        f"loss on the validation text of old: {measured['before']:.4f} before, {measured['after']:.4f} after "
        f"({measured['unit']}, "
    )
    assert any(isinstance(event, Noted) and event.text.startswith(line) for event in heard)
    assert "| old text | loss on the validation text of old: " in (out / "README.md").read_text()
    assert "loss on the validation text of old: " in report(out).page()


def test_old_text_that_cannot_be_read(old: Path, texts: dict[str, str], tmp_path: Path) -> None:
    source = Run(shutil.copytree(old, tmp_path / "source"))
    config, _ = infer_config({}, {"data.path": texts["other"], "from": str(old)})
    said: list[str] = []
    new = prepare_again(source)
    with listening(said.append):
        assert OldText.of(source, new, config) is not None
    gone = source.card()["config"]
    gone["data"]["path"] = str(tmp_path / "gone.txt")
    source.update_card(config=gone)
    with listening(said.append):
        assert OldText.of(source, new, config) is None
    assert len(said) == 1
    other = train(texts["cyrillic"], out=tmp_path / "other", steps=1, draft=True, **CHAR)
    with listening(said.append):
        assert OldText.of(Run(Path(other.run)), new, config) is None
    assert "its task or tokenizer changed" in said.pop()
    assert said[0].startswith("forgetting is not measured: the training data of ")
