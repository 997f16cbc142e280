"""An encoder of one's own, written with public names alone: trained, written with, looked at and checked like ours."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.config.encoders import ENCODERS
from glassformer.encoders.registry import BUILDERS
from helpers.tables import opinions, write_table


class Averages(gf.State):
    """The last average of each layer."""

    def __init__(self, last: list[Tensor]) -> None:
        self.last = last

    def select(self, rows: Tensor) -> "Averages":
        return Averages([one.index_select(0, rows) for one in self.last])

    def expand_beams(self, times: int) -> "Averages":
        return Averages([one.repeat_interleave(times, 0) for one in self.last])


class MovingAverage(nn.Module):
    """h_t = a ⊙ h_(t−1) + (1 − a) ⊙ tanh(W x_t), a = σ(U x_t)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.candidate = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        self.kept = gf.Tap()

    def forward(self, x: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        new, a = torch.tanh(self.candidate(x)), self.kept(torch.sigmoid(self.gate(x)))
        out = []
        for t in range(x.shape[1]):
            after = a[:, t] * h + (1 - a[:, t]) * new[:, t]
            h = after if mask is None else torch.where(mask[:, t, None], after, h)
            out.append(h)
        return torch.stack(out, 1), h


class MovingAverages(gf.Encoder):
    """Layers of moving averages, and a norm after them."""

    started: list[str] = []  # noqa: RUF012

    def __init__(self, width: int, layers: int, causal: bool) -> None:
        super().__init__()
        self.width, self.causal = width, causal
        self.layers = nn.ModuleList(MovingAverage(width) for _ in range(layers))
        self.outputs = nn.ModuleList(gf.Tap() for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, memory: gf.Memory | None = None, segments: Tensor | None = None
    ) -> Tensor:
        return self.extend(x, self.init_state(len(x), x.shape[1]), mask)

    def init_state(self, batch: int, max_tokens: int, memory: gf.Memory | None = None) -> Averages:
        return Averages([self.norm.weight.new_zeros(batch, self.width) for _ in self.layers])

    def extend(self, x: Tensor, state: gf.State, mask: Tensor | None = None) -> Tensor:
        assert isinstance(state, Averages)
        for number, (layer, output) in enumerate(zip(self.layers, self.outputs, strict=True)):
            x, state.last[number] = layer(x, state.last[number], mask)
            x = output(x)
        return self.final_norm(x, mask)

    def init_weights(self, how: str) -> None:
        self.started.append(how)
        for layer in self.layers:
            nn.init.constant_(layer.gate.bias, 3.0)  # type: ignore[union-attr, arg-type]

    def layer_outputs(self) -> list[tuple[str, ...]]:
        return [("input",), *((f"outputs.{layer}",) for layer in range(len(self.layers)))]

    def state_names(self) -> dict[str, dict[str, str]]:
        return {
            f"layer {layer}": {"h": f"outputs.{layer}", "a": f"layers.{layer}.kept"}
            for layer in range(len(self.layers))
        }

    def final_norm(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        out: Tensor = self.norm(x)
        return out


SMALL = {"model.width": 8, "model.layers": 2, "model.context": 24, "training.batch_size": 4, "training.samples": False}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (BUILDERS, ENCODERS):  # and gone afterwards
        monkeypatch.setitem(table, "averages", None)  # type: ignore[misc, arg-type]
        del table["averages"]
    info = gf.EncoderInfo("moving averages", gf.LayerSettings, layers=2)

    @gf.register_encoder("averages", info)
    def build(settings: Any, place: Any) -> gf.Encoder:
        return MovingAverages(settings.width, settings.layers, place.causal)

    monkeypatch.setattr(MovingAverages, "started", [])


@pytest.mark.usefixtures("registered")
def test_as_a_language_model(tmp_path: Path) -> None:
    run = gf.train("reverse:rows=200", out=tmp_path / "run", model="averages", steps=4, **SMALL)
    assert set(MovingAverages.started) == {"xavier"}
    loaded: Any = gf.load(run, "cpu")
    assert all((layer.gate.bias - 3).abs().max() < 0.5 for layer in loaded.model.encoder.layers)
    assert loaded.generate("ab", tokens=5, seed=1) == loaded.generate("ab", tokens=5, seed=1)
    checks = gf.check(run, only="cached,batched,padded,looked-at,saved,resumed", device="cpu")
    assert [check.passed for check in checks.checked] == [True] * 6, checks.words

    ids = torch.tensor([[1, 4, 5, 6, 4]])
    before = loaded.model(ids)
    with gf.capture(loaded.model) as seen:
        after = loaded.model(ids)
    assert torch.equal(before, after)
    assert seen["encoder.layers.1.kept"].shape == (1, 5, 8)
    assert seen["encoder.layers.0.gate.output"].sigmoid().equal(seen["encoder.layers.0.kept"])
    assert seen["encoder.norm.output"].equal(seen["encoder.output"])

    lens: Any = gf.look(run, "abc", view="logit-lens", device="cpu").panels[0]
    assert list(lens.layers) == ["embedding", "layer 0", "layer 1"]  # the last of them is the model's own
    states: Any = gf.look(run, "abc", view="states", device="cpu").panels[0]
    assert list(states.labels) == ["0", "1"]
    assert [panel.title for panel in states.frames[0]] == ["state h", "a"]


@pytest.mark.usefixtures("registered")
def test_as_a_classifier(tmp_path: Path) -> None:
    table = write_table(tmp_path / "opinions.csv", opinions(60, classes=3))
    settings = {key: value for key, value in SMALL.items() if key != "training.samples"}
    run = gf.train(table, out=tmp_path / "run", model="averages", steps=4, **settings)
    loaded: Any = gf.load(run, "cpu")
    found = loaded.predict(["the soup was good", "the film was awful"])
    assert all(sum(one.probabilities.values()) == pytest.approx(1) for one in found)
    assert gf.evaluate(run, device="cpu").metrics == pytest.approx(run.validation)
    states: Any = gf.look(run, "the soup was good", view="states", device="cpu").panels[0]
    assert len(states.frames) == 2
    again = gf.train(table, out=tmp_path / "again", model="averages", steps=4, **settings)
    assert again.validation == run.validation


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_as_the_encoder_of_a_translator_and_not_as_its_decoder(tmp_path: Path) -> None:
    small = {"model.width": 8, "model.layers": 1, "model.context": 64}
    run = gf.train(
        "reverse-pairs:rows=60", out=tmp_path / "run", model="averages", task="translation", steps=2, **small
    )
    states: Any = gf.look(run, "abc", view="states", device="cpu")
    assert states.panels[0].title.startswith("Source")
    with pytest.raises(gf.GlassformerError, match=r"unknown model\.decoder .averages."):
        gf.train("reverse-pairs:rows=60", out=tmp_path / "no", **{"model.encoder": "lstm", "model.decoder": "averages"})
