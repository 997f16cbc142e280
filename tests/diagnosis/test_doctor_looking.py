"""The doctor where not all can be looked at: a person's own model, a short log, a training that failed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.config.errors import TrainingFailed
from glassformer.diagnosis.doctor import findings_view, logged_panel
from glassformer.diagnosis.layers import dead_shares
from glassformer.families.build import prepare_again
from glassformer.families.load import load
from glassformer.runs.run import Run
from glassformer.verbs.check import doctor
from helpers.bare_family import use_bare_family
from helpers.kinds import write_rows

COPY = "copy:rows=400"
LETTERS = {"tokenizer.kind": "char", "model.context": 32, "training.samples": False, "model": "transformer"}
SMALL = {"model.width": 16, "model.layers": 2, "model.heads": 2}


class Convolved(nn.Module):
    """One ReLU for two layers, over texts of any length; the units of the first lie before the places."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, 6)
        self.near = nn.Conv1d(6, 8, 3, padding=1)
        self.dense = nn.Linear(8, 4)
        self.out = nn.Linear(4, outputs)
        self.relu = nn.ReLU()

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        near = self.relu(self.near(self.table(tokens).transpose(1, 2)))
        return self.out(self.relu(self.dense((near * mask.unsqueeze(1)).amax(2))))


def test_dead_units_of_ones_own_model(tmp_path: Path) -> None:
    rows = [{"text": "word " * (1 + place % 7), "label": "ab"[place % 2]} for place in range(80)]
    data = write_rows(tmp_path / "rows.csv", rows)
    run = gf.train(data, out=tmp_path / "run", model=Convolved, steps=2, batch_size=8).run
    loaded, task = load(run, model=Convolved), prepare_again(Run(Path(run))).task
    assert isinstance(loaded.model, Convolved)
    with torch.no_grad():
        loaded.model.near.bias[:2] = -1e6
        loaded.model.dense.bias[:3] = -1e6
        loaded.model.dense.bias[3:] = 1e6
    shares = dead_shares(loaded.model, task)
    assert set(shares) == {"near", "dense"}
    assert shares["near"] >= 0.25
    assert shares["dense"] == 0.75
    assert "dead-units" in {finding.kind for finding in doctor(loaded).findings}


class Breaks(Convolved):
    """Trains well; on no other day does it work."""

    broken = False

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        if Breaks.broken:
            raise RuntimeError("size mismatch\nand more")
        return super().forward(tokens, mask)


def test_ones_own_model_that_fails_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": "word " * (1 + place % 7), "label": "ab"[place % 2]} for place in range(80)]
    data = write_rows(tmp_path / "rows.csv", rows)
    run = gf.train(data, out=tmp_path / "run", model=Breaks, steps=2, batch_size=8).run
    monkeypatch.delenv("GLASSFORMER_STRICT", raising=False)
    monkeypatch.setattr(Breaks, "broken", True)
    found = doctor(run, model=Breaks)
    assert found.missing.endswith("RuntimeError: size mismatch")
    assert not any("dead units" in what for what in found.looked)


def test_what_was_not_looked_at_is_not_called_healthy() -> None:
    assert "healthy" in findings_view("run", [], ["the first loss"]).note
    note = findings_view("run", [], ["the first loss"], "the model: it is not there").note
    assert "healthy" not in note
    assert note.endswith("Not looked at: the model: it is not there")
    assert "healthy" not in str(logged_panel([{"event": "not looked at", "why": "the model", "end": True}]).to_dict())


@pytest.mark.slow
def test_too_short_a_log_is_not_claimed_to_tell(tmp_path: Path) -> None:
    once = {**LETTERS, **SMALL, "steps": 4, "training.validate_every": 4}
    looked = doctor(gf.train(COPY, out=tmp_path / "run", **once).run).looked
    assert looked[0] == "the first loss against that of guessing"
    assert not any("falls" in what or "still falling" in what or "gradient" in what for what in looked)


@pytest.mark.parametrize(
    ("data", "task", "settings"),
    [(COPY, "language-model", {**LETTERS, **SMALL}), ("opinions:rows=60", "classification", {"model": "bag"})],
)
def test_a_family_of_ones_own(
    data: str, task: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bare_family(task, monkeypatch)
    found = doctor(gf.train(data, out=tmp_path / "run", steps=3, draft=True, **settings).run)
    assert found.missing == ""
    assert any("dead units" in what for what in found.looked)


def test_a_rate_far_too_high_is_advised_down_to_the_usual_one(tmp_path: Path) -> None:
    settings = {**LETTERS, **SMALL, "steps": 20, "optimizer": "sgd", "lr": 1e20, "training.warmup": 0}
    with pytest.raises(TrainingFailed, match=r"--resume --lr 0\.5$"):
        gf.train(COPY, out=tmp_path / "run", **settings)
    (broke,) = [finding for finding in doctor(tmp_path / "run").findings if finding.kind == "not-finite"]
    assert "--resume --lr 0.5" in broke.advice
