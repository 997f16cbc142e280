"""What the loop tells of its layers and of numbers that are no longer finite; and that measuring changes nothing."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.config.errors import TrainingFailed
from glassformer.runs.run import Run
from glassformer.training.events import Diverged, Finding, Stepped
from glassformer.training.measurements import MAX_TRIED_ROWS, is_measured, layer_of, rows_not_finite
from glassformer.verbs.train import train
from helpers.fitting import Fit, Training, linear, trained
from helpers.running import StopAfter, identical, log_of, losses_of, same_run, tensors_of, tiny, train_here


def rms(*tensors: torch.Tensor) -> float:
    flat = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
    return float(flat.square().mean().sqrt())


def test_sizes_of_gradients_weights_and_update_by_layer() -> None:
    model = nn.Sequential(linear(), nn.Linear(2, 2))
    twin = nn.Sequential(linear(), nn.Linear(2, 2))
    twin.load_state_dict(model.state_dict())
    training = trained(model, Fit(), steps=1, lr=0.3, optimizer="sgd", weight_decay=0.0, grad_clip=0.01)
    batch = Fit().batch(0)
    (Fit().loss(twin, batch.x, batch.y) / batch.count).backward()  # type: ignore[no-untyped-call]
    (event,) = training.told(Stepped)
    assert set(event.layers) == {"0", "1"}
    for number in (0, 1):
        found, before, after = event.layers[str(number)], twin[number], model[number]
        pairs = list(zip(after.parameters(), before.parameters(), strict=True))
        gradients = [weight.grad for weight in before.parameters() if weight.grad is not None]
        assert found.gradient == pytest.approx(rms(*gradients), rel=1e-5)  # before it is clipped
        assert found.weight == pytest.approx(rms(*after.parameters()), rel=1e-5)
        assert found.update == pytest.approx(rms(*(new - old for new, old in pairs)), rel=1e-4)


def test_a_few_updates_are_measured() -> None:
    steps = [step for step in range(1, 2001) if is_measured(step)]
    assert steps[:12] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]
    assert {2**power for power in range(11)} < set(steps)
    assert len(steps) < 45
    told = trained(linear(), Fit(), steps=20).told(Stepped)
    assert [event.step for event in told if event.layers is not None] == [step for step in steps if step <= 20]


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("encoder.blocks.3.attend.query.weight", "encoder.blocks.3"),
        ("encoder.layers.cell.weight_ih_l1_reverse", "encoder.layers.cell.1"),
        ("encoder.layers.cell.bias_hh_l0", "encoder.layers.cell.0"),
        ("head.weight", "head"),
        ("embed.table.weight", "embed.table"),
        ("0.weight", "0"),
        ("weight", "weight"),
    ],
)
def test_layers_by_name(name: str, layer: str) -> None:
    assert layer_of(name) == layer


class OneBadRow(Fit):
    def __init__(self, step: int, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.step, self.bad = step, rows

    def batch(self, step: int) -> Any:
        batch = super().batch(step)
        if step + 1 == self.step:
            for row in self.bad:
                batch.x[row, 0] = torch.inf
        return batch


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((7,), r"with example 8 of 12 in the batch of step 3, 'row 7'; first tensor"),
        ((3, 8), r"with example 4 and 1 more of 12 in the batch of step 3, 'row 3'; first tensor"),
    ],
)
def test_the_example_that_is_to_blame(rows: tuple[int, ...], told: str) -> None:
    training = Training(
        nn.Sequential(linear(), nn.Identity()),
        OneBadRow(3, rows),
        steps=9,
        lr=0.3,
        describe=lambda batch, row: f"row {row}",
    )
    with pytest.raises(TrainingFailed, match=told):
        training.run()
    (broke,) = training.told(Diverged)
    assert (broke.step, broke.batch, broke.rows, broke.size) == (2, 3, rows, 12)
    assert broke.tensor == "output of 0"
    assert broke.example == f"row {rows[0]}"


def test_where_every_example_fails_none_is_named() -> None:
    model = linear()
    with torch.no_grad():
        model.weight[0, 0] = torch.nan
    training = Training(model, Fit(), steps=9)
    training.trainer.context.task.batch = lambda step: _judged(Fit().batch(step))  # type: ignore[method-assign]
    with pytest.raises(TrainingFailed, match=r"with every example of the batch of step 1; .*parameter weight"):
        training.run()


def _judged(batch: Any) -> Any:
    """Every row with something to judge."""
    batch.y.nan_to_num_(0.0)
    return batch


def test_gradients_alone_can_be_to_blame() -> None:
    """The root of 0 is 0, its slope is not finite; only one example is at 0."""
    weight = nn.Parameter(torch.ones(()))
    model = nn.Module()
    model.weight = weight
    values = torch.tensor([3.0, 0.0, 5.0])
    assert rows_not_finite(model, 3, lambda row: (weight * values[row]).abs().sqrt()) == (1,)
    assert weight.grad is None
    assert len(rows_not_finite(model, 1000, lambda row: weight * math.inf)) == MAX_TRIED_ROWS


def test_examples_are_tried_without_cudnn() -> None:
    """Whose recurrent layers give no gradients but in training."""
    seen = []

    def compute(row: int) -> torch.Tensor:
        seen.append(torch.backends.cudnn.enabled)
        return weight * 1.0

    weight = nn.Parameter(torch.ones(()))
    model = nn.Module()
    model.weight = weight
    assert rows_not_finite(model, 1, compute) == ()
    assert seen == [False]
    assert torch.backends.cudnn.enabled


def test_the_first_gradient_is_that_of_the_last_module() -> None:
    class Steep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + (x * 0).abs().sqrt()

    training = Training(nn.Sequential(linear(), nn.Linear(2, 2), Steep()), Fit(), steps=9)
    with pytest.raises(TrainingFailed, match=r"gradient of 1\.weight"):
        training.run()


def test_measuring_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny(training__steps=9, model__dropout=0.3, training__validate_every=4)
    train_here(tmp_path / "with", settings)
    monkeypatch.setattr("glassformer.training.measurements.is_measured", lambda step: False)
    monkeypatch.setattr("glassformer.pipeline.recorder.Recorder.begin_diagnosis", lambda *args: None)
    monkeypatch.setattr("glassformer.pipeline.recorder.Recorder.conclude_diagnosis", lambda *args: None)
    train_here(tmp_path / "without", settings)
    identical(tensors_of(tmp_path / "with"), tensors_of(tmp_path / "without"))
    assert losses_of(tmp_path / "with") == losses_of(tmp_path / "without")
    assert "layers" in log_of(tmp_path / "with")[0]
    assert "layers" not in log_of(tmp_path / "without")[0]


def findings_in(run: Path) -> list[tuple[str, int]]:
    return [(line["kind"], line["step"]) for line in log_of(run) if line["event"] == "finding"]


@pytest.mark.slow
def test_a_run_that_goes_on_finds_the_same_once(tmp_path: Path) -> None:
    settings = tiny(training__steps=12, model__causal_mask=False, training__checkpoint_every=3)
    train_here(tmp_path / "whole", settings)
    train_here(tmp_path / "parts", settings, listen=StopAfter(7))
    assert findings_in(tmp_path / "parts") == [("leak", 1)]
    train(out=tmp_path / "parts", resume=True)
    same_run(tmp_path / "whole", tmp_path / "parts")
    assert [kind for kind, _ in findings_in(tmp_path / "parts")].count("leak") == 1


def test_what_was_found_at_the_end_is_forgotten_when_it_goes_on(tmp_path: Path) -> None:
    settings = tiny(training__steps=6)
    train_here(tmp_path / "run", settings)
    told = Finding("still-falling", 6, "note", "words", "advice", {})
    Run(tmp_path / "run").add_metrics({"event": "finding", **told.to_dict(), "end": True})
    train(out=tmp_path / "run", resume=True, steps=8)
    assert ("still-falling", 6) not in findings_in(tmp_path / "run")


def test_a_failure_is_logged(tmp_path: Path) -> None:
    settings = tiny(training__optimizer="sgd", training__steps=6, training__lr=1e20, training__warmup=0)
    with pytest.raises(TrainingFailed) as caught:
        train_here(tmp_path / "run", settings)
    (line,) = [line for line in log_of(tmp_path / "run") if line["event"] == "finding"]
    assert line["kind"] == "not-finite"
    assert line["severity"] == "problem"
    assert line["numbers"]["tensor"] in str(caught.value)
    assert f"step {line['step']}" in line["words"]
    train(out=tmp_path / "run", resume=True, lr=0.01)
    assert "not-finite" not in dict(findings_in(tmp_path / "run"))


def test_a_finding_as_a_line() -> None:
    finding = Finding("flat", 7, "warning", "It does not fall.", "--lr 0.1", {"first": 2.0})
    assert Finding.of({"event": "finding", **finding.to_dict()}) == finding
    assert finding.line == "It does not fall. Try: --lr 0.1"
