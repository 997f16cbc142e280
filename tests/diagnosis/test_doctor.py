"""The doctor over real trainings: healthy ones are called so, and each illness is found in one that has it."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.config.errors import TrainingFailed
from glassformer.diagnosis.advice import training_facts
from glassformer.diagnosis.doctor import Doctor
from glassformer.diagnosis.layers import dead_shares, head_entropies, saturated_shares, training_loss
from glassformer.families.build import prepare_again
from glassformer.families.load import load
from glassformer.rendering.view import View
from glassformer.reporting.report import report_of
from glassformer.runs.run import Run
from glassformer.training.events import NOTE, Event, Finding, FindingReported
from glassformer.verbs.check import doctor
from helpers.kinds import rows_of, write_rows
from helpers.look_runs import RUNS, train_kind

COPY = "copy:rows=400"
LETTERS = {"tokenizer.kind": "char", "model.context": 32, "training.samples": False, "model": "transformer"}
SMALL = {"model.width": 16, "model.layers": 2, "model.heads": 2}


def kinds(found: Any) -> set[str]:
    return {finding.kind for finding in found.findings}


def severe(found: Any) -> set[str]:
    return {finding.kind for finding in found.findings if finding.severity != NOTE}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (COPY, {**LETTERS, **SMALL, "steps": 60, "training.validate_every": 20}),
        ("reverse-pairs:rows=600", {"model": "lstm", "model.width": 48, "model.context": 32, "steps": 150}),
        ("iris", {"model": "mlp", "epochs": 20}),
    ],
    ids=["writer", "translator", "table"],
)
def test_a_healthy_training_is_called_so(data: str, settings: dict[str, Any], tmp_path: Path) -> None:
    heard: list[Event] = []
    trained = gf.train(data, out=tmp_path / "run", listen=heard.append, **settings)
    found = gf.doctor(trained.run)
    assert severe(found) == set(), found.findings
    told = {event.finding.kind for event in heard if isinstance(event, FindingReported)}
    assert told == kinds(found)  # what is found anew is what was told
    assert found.missing == ""


@pytest.mark.slow
def test_nothing_found_is_said_with_what_was_looked_at(tmp_path: Path) -> None:
    run = gf.train(COPY, out=tmp_path / "run", **{**LETTERS, **SMALL, "steps": 20}).run
    found = doctor(run)
    assert not found.findings
    assert found.note.startswith("Nothing found")
    assert any("gradient" in what for what in found.looked)
    assert any("dead units" in what for what in found.looked)
    found.save(tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["findings"] == []
    assert isinstance(found, View)
    assert "Nothing found" in found.page()


def test_of_what_is_not_held_out_nothing_is_looked_at(tmp_path: Path) -> None:
    whole = {"data.validation_fraction": 0, "steps": 3}
    found = doctor(gf.train(COPY, out=tmp_path / "run", **{**LETTERS, **SMALL, **whole}).run)
    assert any("dead units" in what for what in found.looked)
    assert not any("held out" in what or "validation" in what for what in found.looked)


def test_after_a_few_updates_nothing_is_learned_by_heart(tmp_path: Path) -> None:
    rows = [{"text": f"w{place % 7} v{place}", "label": "ab"[place % 2]} for place in range(60)]
    data = write_rows(tmp_path / "rows.csv", rows)
    run = gf.train(data, out=tmp_path / "run", model="bag", steps=2, draft=True).run
    doctor_of = Doctor(training_facts(Run(Path(run)).config(), Run(Path(run)).card()))
    rising = [{"event": "validation", "loss": 1.0 + place, "accuracy": 1.0 - place / 9} for place in range(9)]
    early = [{**line, "step": place + 1} for place, line in enumerate(rising)]
    steps = [{"event": "step", "step": step, "loss": 0.7, "done": step / 31, "layers": None} for step in range(1, 31)]
    for line in (*steps[:9], *early):
        assert "overfitting" not in {finding.kind for finding in doctor_of.hear(line)}
    heard = [finding for line in (*steps[9:], {**rising[-1], "step": 30}) for finding in doctor_of.hear(line)]
    assert "overfitting" in {finding.kind for finding in heard}


def test_a_rate_without_measure_names_layer_step_and_batch(tmp_path: Path) -> None:
    settings = {**LETTERS, **SMALL, "steps": 20, "optimizer": "sgd", "lr": 1e20, "training.warmup": 0}
    with pytest.raises(TrainingFailed) as caught:
        gf.train(COPY, out=tmp_path / "run", **settings)
    found = doctor(tmp_path / "run")
    (broke,) = [finding for finding in found.findings if finding.kind == "not-finite"]
    assert broke.severity == "problem"
    assert f"step {broke.numbers['batch']}" in broke.words
    assert broke.numbers["tensor"].split(" of ")[-1] in dict(_named(tmp_path / "run"))
    assert broke.numbers["rows"]
    assert broke.numbers["tensor"] in str(caught.value)
    assert "model.safetensors is missing" in found.missing


def _named(run: Path) -> list[tuple[str, object]]:
    from glassformer.families.base import Processor
    from glassformer.families.build import build_model

    config = Run(run).config()
    model = build_model(config, Processor(tokenizer=Run(run).tokenizer()))
    return [*model.named_modules(), *model.named_parameters()]


def test_an_example_that_is_to_blame_is_shown(tmp_path: Path) -> None:
    class Picky(nn.Module):
        """Divides by 0 where a text has nine tokens: seven words, START and END."""

        def __init__(self, vocab: int, outputs: int) -> None:
            super().__init__()
            self.table = nn.Embedding(vocab, outputs)

        def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
            lengths = mask.sum(1, keepdim=True)
            return (self.table(tokens) * mask.unsqueeze(-1)).sum(1) / (lengths != 9)

    texts = ["this text has seven words in {}", "this one has only {}"]
    rows = [{"text": texts[place % 5 > 0].format(place), "label": "ab"[place % 2]} for place in range(60)]
    data = write_rows(tmp_path / "rows.csv", rows)
    with pytest.raises(
        TrainingFailed, match=r"with example \d+ and \d+ more of \d+ .*'this text has seven words in \d+'"
    ):
        gf.train(data, out=tmp_path / "run", model=Picky, epochs=3, batch_size=64)


def test_a_model_that_reads_its_answer(tmp_path: Path) -> None:
    run = gf.train(COPY, out=tmp_path / "run", **{**LETTERS, **SMALL, "steps": 3, "model.causal_mask": False}).run
    (leak,) = [finding for finding in doctor(run).findings if finding.kind == "leak"]
    assert leak.severity == "problem"
    assert leak.advice == "--model.causal_mask true"


@pytest.mark.slow
def test_layers_without_residual_and_norm_learn_nothing(tmp_path: Path) -> None:
    deep = {"model.layers": 8, "model.residual": False, "model.norm": "none", "model.qk_norm": False, "draft": True}
    settings = {**LETTERS, **SMALL, **deep, "steps": 12, "training.validate_every": 12}
    run = gf.train(COPY, out=tmp_path / "run", **settings).run
    found = doctor(run)
    assert {"vanishing", "dead-units"} <= severe(found)
    (vanished,) = [finding for finding in found.findings if finding.kind == "vanishing"]
    assert "--model.residual true" in vanished.advice


@pytest.fixture(scope="module")
def chance(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Labels that nothing tells: what is learned of them is learned by heart. Nine of ten are alike."""
    folder, draw = tmp_path_factory.mktemp("chance"), random.Random(1)
    words = [f"w{number}" for number in range(50)]
    rows = [{"text": " ".join(draw.choices(words, k=6)), "label": "rare" if place % 10 == 0 else "usual"}
            for place in range(400)]  # fmt: skip
    data = write_rows(folder / "rows.csv", rows)
    held = {"data.validation_fraction": 0.3, "batch_size": 64}
    settings = {
        "model": "bag:counts",
        "model.head_layers": 1,
        "model.word_dropout": 0.0,
        "lr": 0.01,
        "epochs": 20,
        **held,
    }
    return gf.train(data, out=folder / "run", draft=True, **settings).run


def test_what_is_learned_by_heart(chance: str) -> None:
    found = doctor(chance)
    assert {"overfitting", "imbalance", "collapse", "no-better"} <= kinds(found)
    (rose,) = [finding for finding in found.findings if finding.kind == "overfitting"]
    validations = [line for line in Run(Path(chance)).read_metrics() if line["event"] == "validation"]
    lowest = min(validations, key=lambda line: line["loss"])
    assert rose.numbers["best_step"] == lowest["step"]


def test_without_its_data_the_log_tells(chance: str, tmp_path: Path) -> None:
    before = doctor(chance)
    data = Path(Run(Path(chance)).card()["config"]["data"]["path"])
    data.rename(data.with_suffix(".away"))
    try:
        found = doctor(chance)
    finally:
        data.with_suffix(".away").rename(data)
    assert "no file" in found.missing
    logged = {line["kind"] for line in Run(Path(chance)).read_metrics() if line["event"] == "finding"}
    assert {"overfitting", "imbalance"} <= logged <= kinds(found) <= kinds(before) | logged


def test_the_report_lists_what_was_found(chance: str) -> None:
    run = Run(Path(chance))
    page = report_of(run, run.config(), prepare_again(run), None, {}).page()
    assert "What the doctor found" in page
    assert "of very different size" in page


def test_a_rate_too_low_and_a_loss_that_does_not_fall(tmp_path: Path) -> None:
    settings = {"model": "bag", "steps": 120, "optimizer": "sgd", "lr": 1e-9}
    found = doctor(gf.train("opinions:rows=400", out=tmp_path / "run", draft=True, **settings).run)
    assert "flat" in severe(found)


def test_dead_units_by_layer(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rows.csv", rows_of(80))
    settings = {"model": "mlp", "label": "size", "data.kind": "table", "model.head_hidden": 8, "steps": 2}
    run = gf.train(data, out=tmp_path / "run", draft=True, **settings).run
    loaded, task = load(run), prepare_again(Run(Path(run))).task
    (layer,) = (module for name, module in loaded.model.named_modules() if name.endswith("hidden.0"))
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.bias[:6] = -1e6
        layer.bias[6:] = 1e6
    shares = dead_shares(loaded.model, task)
    assert [share for name, share in shares.items() if name.endswith("hidden.0")] == [0.75]
    assert not any(module._forward_hooks for module in loaded.model.modules())
    assert "dead-units" in kinds(doctor(loaded))


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A run of each kind, trained once."""
    folder = tmp_path_factory.mktemp("kinds")
    return lambda name: Run(folder / name if (folder / name).exists() else Path(train_kind(name, folder)[0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["writer", "translator", "classifier"])
def test_heads_that_look_at_one_token_or_at_all(name: str, run_of: Callable[[str], Run]) -> None:
    run = run_of(name)
    loaded, task = load(run), prepare_again(run).task
    attentions = [
        module for path, module in loaded.model.named_modules() if path.endswith((".attend", ".cross_attention"))
    ]
    for scale, low, high in ((1e-6, 0.999, 1.001), (1e6, 0.0, 0.05)):
        for module in attentions:
            module.scale = scale  # type: ignore[assignment]
        shares = head_entropies(loaded.model, task)
        assert len(shares) == sum(module.heads for module in attentions)  # type: ignore[misc]
        assert all(low <= share <= high for share in shares.values()), shares
        kind = "heads-one-token" if scale > 1 else "heads-everywhere"
        assert kind in kinds(doctor(loaded))


@pytest.mark.slow
def test_gates_that_are_stuck(run_of: Callable[[str], Run]) -> None:
    run = run_of("lstm-writer")
    loaded, task = load(run), prepare_again(run).task
    free = saturated_shares(loaded.model, task)
    assert free
    assert max(free.values()) < 0.5
    with torch.no_grad():
        for name, weight in loaded.model.named_parameters():
            if "bias_ih_l0" in name:
                weight[: len(weight) // 4] = 50.0  # the input gate
    shares = saturated_shares(loaded.model, task)
    assert [name for name, share in shares.items() if share == 1.0] == ["encoder.layers.0.gates.i"]
    assert "stuck" in severe(doctor(loaded))


def test_the_training_loss_is_without_smoothing_and_weights(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rows.csv", rows_of(200))
    settings = {"model": "linear", "label": "size", "data.kind": "table", "steps": 60, "draft": True}
    altered = {"training.label_smoothing": 0.3, "training.class_weights": "S=5"}
    run = gf.train(data, out=tmp_path / "run", **settings, **altered).run
    loaded, task = load(run), prepare_again(Run(Path(run))).task
    found, batch = training_loss(loaded.model, task), task.batch(0)
    assert found == pytest.approx(task.evaluate(loaded.model, "train").metrics["loss"], rel=0.1)
    with torch.no_grad():
        learned = float(task.loss(loaded.model, *batch.tensors(torch.device("cpu")))) / batch.count
    assert learned > 1.3 * found


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", RUNS)
def test_every_kind_of_run_can_be_asked(name: str, run_of: Callable[[str], Run]) -> None:
    run = run_of(name)
    found = doctor(run)
    assert found.missing == ""
    assert all(isinstance(finding, Finding) for finding in found.findings)
    logged = {line["kind"] for line in run.read_metrics() if line["event"] == "finding"}
    assert logged == kinds(found)


def test_weights_of_classes_make_no_first_loss(tmp_path: Path) -> None:
    """A rare class of great weight may stand in the first batch: it alone tells nothing of the first weights."""
    rows = [
        {"text": f"word{place % 9} {place}", "label": "rare" if place % 40 == 0 else "usual"} for place in range(400)
    ]
    data = write_rows(tmp_path / "rows.csv", rows)
    settings = {"model": "bag", "steps": 2, "batch_size": 400, "draft": True, "training.class_weights": "balanced"}
    run = gf.train(data, out=tmp_path / "run", **settings).run
    config, card = Run(Path(run)).config(), Run(Path(run)).card()
    plain = replace(config, training=replace(config.training, class_weights=None))
    first = {"event": "step", "step": 1, "loss": 4.0, "done": 0.0}
    assert Doctor(training_facts(config, card)).hear(first) == []
    assert [finding.kind for finding in Doctor(training_facts(plain, card)).hear(first)] == ["first-loss"]
    assert training_facts(config, card).guessing == pytest.approx(
        math.log(2)
    )  # what validation is judged by: there no class weighs more


def test_several_labels_are_judged_by_what_guessing_costs(tmp_path: Path) -> None:
    rows = [{"text": f"word{place % 9}", "labels": ["red;blue", "blue", ""][place % 3]} for place in range(120)]
    data = write_rows(tmp_path / "rows.csv", rows)
    settings = {"task": "multilabel", "model": "bag", "steps": 2, "draft": True}
    run = gf.train(data, out=tmp_path / "run", **settings).run
    facts = training_facts(Run(Path(run)).config(), Run(Path(run)).card())
    assert (facts.family.primary, facts.family.lower_is_better) == ("micro_f1", False)
    steps = [line for line in Run(Path(run)).read_metrics() if line["event"] == "step"]
    assert steps[0]["loss"] == pytest.approx(facts.guessing)
    found = doctor(run)
    assert found.missing == ""
    assert {"first-loss", "leak"}.isdisjoint(kinds(found))
