"""Parameters by part, multiplications, and pieces of a batch that fit."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.resolve import flatten, resolve
from glassformer.config.units import count, duration, size
from glassformer.experiments.models import same_size_models
from glassformer.experiments.request import MODELS
from glassformer.models.build import build_language_model, build_masked_model, learned_count, parameter_count
from glassformer.models.counting import multiplications
from glassformer.models.modules import MaskedLanguageModel
from glassformer.planning import build, compute
from glassformer.planning.capacity import AvailableMemory, _allowed, available_memory, fit
from glassformer.planning.compute import parameters_by_part, tied
from glassformer.planning.setup import BATCHES, from_data
from glassformer.planning.training_step import (
    BACKWARD,
    FORWARD,
    UPDATE,
    StepDevice,
    StepMemory,
    count_products,
    fake_tensors,
)
from glassformer.rendering.panels import Table
from glassformer.tasks.language_model import LanguageModelling
from glassformer.verbs.plan import plan, plan_models
from helpers.running import move_clock

WRITING = "reverse:rows=300"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "MIN_SECONDS", 0.0)
    move_clock(monkeypatch, "training.budget", "planning.compute")


@pytest.mark.parametrize(
    ("data", "encoder"),
    [
        *((WRITING, name) for name in MODELS),
        *(("opinions:rows=80", name) for name, info in ENCODERS.items() if "text" in info.reads),
        ("reverse-pairs:rows=200", "transformer"),
        ("reverse-pairs:rows=200", "lstm"),
        ("iris", "transformer"),
        ("digits", "cnn"),
    ],
)
def test_parts_sum_up(data: str, encoder: str) -> None:
    planned = from_data(flatten({"data.path": data, "model": encoder}), None, gpus=None)
    with fake_tensors(StepDevice(torch.device("cpu"), "fp32")):
        model = planned.build(planned.config)
        found = parameters_by_part(model)
        assert sum(found.values()) == parameter_count(model) > 0
    assert "other" not in found


def test_the_head_of_a_masked_model_is_counted_with_all_it_has() -> None:
    asked = {"task": "masked-language-model", "model.style": "bert", "model.layers": 1, "model.width": 24,
             "model.heads": 2, "model.hidden": 40, "model.context": 16, "model.head_bias": True}  # fmt: skip
    d, inner, vocab = 24, 40, 99
    model = build_masked_model(resolve({}, asked).model, vocab=vocab)
    assert parameters_by_part(model) == {
        "word vectors": vocab * d,
        "positions": 16 * d,
        **{f"attention: {part}": d * d + d for part in ("queries W^Q", "keys W^K", "values W^V", "output W^O")},
        "feed-forward": 2 * d * inner + inner + d,
        "norms": 4 * 2 * d,
        "head": d * d + d + vocab,
    }
    assert tied(model)


@pytest.mark.slow
def test_parts_of_a_transformer() -> None:
    d, inner, vocab, layers = 24, 40, 260, 3
    found = plan(
        training_tokens=10**6, style="gpt2", vocab_size=vocab,
        **{"model.width": d, "model.heads": 4, "model.hidden": inner, "model.layers": layers, "model.context": 17},
    )  # fmt: skip
    square = layers * (d * d + d)
    assert found.parts == {
        "word vectors": vocab * d,
        "positions": 17 * d,
        **{f"attention: {name}": square for name in ("queries W^Q", "keys W^K", "values W^V", "output W^O")},
        "feed-forward": layers * (2 * d * inner + inner + d),
        "norms": (2 * layers + 1) * 2 * d,
    }
    assert found.tied


@pytest.mark.parametrize(
    ("scores", "matrices"),
    [("plain", {}), ("shared", {"shared U": 24 * 24}), ("bilinear", {"bilinear W": 3 * 24 * 24})],
)
def test_scores_without_queries_and_keys_have_no_more_weights_than_their_formula(
    scores: str, matrices: dict[str, int]
) -> None:
    model = build_language_model(
        resolve({}, {"model.width": 24, "model.heads": 3, "model.layers": 1, "model.scores": scores}).model, vocab=99
    )
    found = parameters_by_part(model)
    attention = {part: count for part, count in found.items() if "attention" in part and "W^O" not in part}
    assert attention == {f"attention: {name}": count for name, count in matrices.items()}
    assert found["norms"] == 3 * 24  # before attention, before feed-forward and at the end


def test_weights_that_are_not_learned_and_weights_of_nothing_known() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(3, 5), nn.Linear(5, 2)
            self.first.bias.requires_grad_(False)

    assert parameters_by_part(Own()) == {"other": 20, "head": 12}
    assert (parameter_count(Own()), learned_count(Own())) == (32, 27)
    assert not tied(Own())


@pytest.mark.parametrize("name", MODELS)
def test_multiplications_are_those_of_the_formulas(name: str) -> None:
    """Counted as a model goes through its steps, and from its sizes."""
    settings = same_size_models([name], width=16, layers=3, vocab=29, context=11)[name]
    task = LanguageModelling({}, context=11, start=None)
    ids = torch.zeros(5, 11, dtype=torch.long)
    counted = count_products(partial(build_language_model, settings, vocab=29), task, (ids, ids))
    assert counted == 5 * multiplications(settings, vocab=29, tokens=11)


def test_of_a_masked_model_only_guessed_places_are_scored() -> None:
    flags = {"data.path": WRITING, "task": "masked-language-model", "style": "bert", "model.width": 16,
             "model.layers": 1, "model.heads": 2, "model.context": 32, "batch_size": 5, "seed": 2}  # fmt: skip
    planned = from_data(flatten(flags), None, gpus=None)
    model, width = planned.build(planned.config), 16
    assert isinstance(model, MaskedLanguageModel)
    inputs, places, *_ = planned.piece
    vocab = model.head.out_features
    body = multiplications(planned.config.model, vocab=vocab, tokens=32) - 32 * width * vocab
    counted = count_products(partial(planned.build, planned.config), planned.task, planned.piece)
    assert counted == len(inputs) * body + places.numel() * (width * width + width * vocab)
    assert places.numel() <= inputs.numel() / 2
    found = [planned.task.batch(step).tensors(torch.device("cpu"))[1].numel() for step in range(BATCHES)]
    assert places.numel() == max(found) > found[0]


# --- what fits ---


def needs_of(rows: int, pieces: int) -> StepMemory:
    """1000 whatever the batch, and 10 for each example."""
    held = 1000 + 10 * rows + (300 if pieces > 1 else 0)
    return StepMemory(600, 300, 100, 0, 10 * rows, rows, {FORWARD: held, BACKWARD: held, UPDATE: 1100})


@pytest.mark.parametrize(
    ("room", "accumulation_steps", "rows"),
    [(10_000, 1, 64), (1640, 1, 64), (1639, 2, 32), (1619, 4, 16), (1311, 64, 1), (1309, 0, 1)],
)
def test_the_fewest_pieces_that_fit(room: int, accumulation_steps: int, rows: int) -> None:
    pieces = [1, 2, 4, 8, 16, 32, 64]
    there = AvailableMemory(-(-room * 10 // 9), "somewhere")
    found = fit(needs_of(64, 1), 64, 1, pieces, there, needs_of)
    assert (found.accumulation_steps, found.rows) == (accumulation_steps, rows)
    assert found.needs.peak <= there.usable or not accumulation_steps


def test_an_update_that_does_not_fit_is_in_no_piece_smaller() -> None:
    asked, looked = replace(needs_of(64, 1), peaks={FORWARD: 800, BACKWARD: 900, UPDATE: 3000}), list[int]()

    def at(rows: int, pieces: int) -> StepMemory:
        looked.append(pieces)
        return replace(asked, batch=rows)

    found = fit(asked, 64, 1, range(1, 65), AvailableMemory(2000, "somewhere"), at)
    assert (found.accumulation_steps, looked) == (0, [2])  # one look, to say what one example takes


def test_memory_that_is_given_or_there() -> None:
    assert available_memory(torch.device("cpu"), 1.5).bytes == 1.5 * 2**30
    assert 2**20 < available_memory(torch.device("cpu")).bytes < 2**50


def test_a_container_allows_less(tmp_path: Path) -> None:
    for name, text in {
        "max": "1000\n",
        "current": "700\n",
        "stat": "anon 400\nactive_file 150\ninactive_file 50\n",
    }.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert _allowed(tmp_path) == 1000 - 700 + 200
    (tmp_path / "memory.max").write_text("max\n")
    assert _allowed(tmp_path) == _allowed(tmp_path / "nowhere") == 2**62


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_batch_that_does_not_fit_is_cut() -> None:
    found = plan(WRITING, device_memory=0.05, batch_size=32, **{"model.width": 64, "model.layers": 1})
    assert found.fit is not None
    assert found.needs is not None
    assert found.needs.peak > 0.9 * 0.05 * 2**30 >= found.fit.needs.peak
    assert found.advice == f"--training.accumulation_steps {found.fit.accumulation_steps}"
    assert found.advice in " ".join(found.words)
    again = plan(WRITING, device_memory=0.05, batch_size=32, probe=False,
                 **{"model.width": 64, "model.layers": 1,
                    "training.accumulation_steps": found.fit.accumulation_steps})  # fmt: skip
    assert again.advice is None
    assert again.needs == found.fit.needs


@pytest.mark.slow
@pytest.mark.parametrize(("compile", "said"), [("auto", False), ("on", True)])
def test_that_a_compiled_step_holds_less_is_said_beside_the_memory(compile: str, said: bool) -> None:
    found = plan(WRITING, probe=False, **{"model.width": 16, "training.compile": compile})
    (memory,) = [panel for panel in found.view().panels if panel.title == "Memory of a step"]
    assert ("a compiled step holds less" in memory.note) == said
    assert memory.note == " ".join(found.notes)


def test_on_a_gpu_long_trainings_are_compiled_and_kernels_need_more() -> None:
    planned = from_data(flatten({"data.path": WRITING, "steps": 5000}), None, gpus=None)
    stepping = build._StepMemories(planned, StepDevice(torch.device("cuda"), "bf16"), really=False)
    first, second = build._notes(stepping)
    assert "cuBLAS 8 to 32 MiB" in first
    assert "a compiled step holds less" in second


@pytest.mark.slow
def test_nothing_fits() -> None:
    found = plan(WRITING, device_memory=0.001)
    assert found.fit is not None
    assert found.fit.accumulation_steps == 0
    assert found.speed is None
    assert "weights, gradients and optimiser alone take" in " ".join(found.words)


# --- how long ---


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_the_probe_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    found = plan(WRITING, steps=40, **{"model.width": 16})
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    assert found.speed is not None
    assert found.speed.updates >= 1
    assert found.seconds is not None
    updates = 40 * found.work.per_update / found.speed.tokens
    assert updates < found.seconds < updates + 30
    assert found.work.epochs == pytest.approx(40 * found.work.per_update / found.work.tokens)


def test_passes_over_a_text_shorter_than_a_batch(tmp_path: Path) -> None:
    """A text of a few windows leaves out much of itself in every epoch: its passes are counted by the tokens read."""
    path = tmp_path / "short.txt"
    path.write_text("one two three four five six seven " * 2, encoding="utf-8")
    found = plan(str(path), model="rnn", steps=2000, probe=False, **{"model.width": 8, "model.context": 12})
    passes = 2000 * found.work.per_update / found.work.tokens
    assert found.work.epochs == pytest.approx(passes)
    assert f"{passes:,.4g} epochs of {found.work.tokens} tokens" in " ".join(found.words)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("data", "model"), [("opinions:rows=80", "lstm"), ("reverse-pairs:rows=200", "transformer")])
def test_minutes_are_turned_into_updates(data: str, model: str) -> None:
    found = plan(data, model=model, minutes=2, **{"model.width": 16})
    assert found.speed is not None
    assert found.work.updates is not None
    least, most = (share * 120 * found.speed.tokens / found.work.per_update for share in (0.65, 1.0))
    assert least <= found.work.updates <= most + 1
    assert found.times is not None
    assert 0.9 * 120 < found.times.total == found.seconds < 1.1 * 120
    assert found.times.validations <= 0.1 * 120
    assert 0 < found.times.last <= 0.22 * 120
    assert found.to_dict()["times"]["reading"] == found.times.reading > 0
    assert "the last evaluation" in " ".join(found.words)
    without = plan(data, model=model, minutes=2, probe=False, **{"model.width": 16})
    assert without.work.updates is None
    assert "only trying them out can say" in " ".join(without.words)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("data", [WRITING, "reverse-pairs:rows=200", "iris"])
def test_a_refit_is_judged_on_nothing_on_the_way(data: str) -> None:
    model = {"model": "linear"} if data == "iris" else {"model.width": 16}
    found = plan(data, steps=10, **model, **{"data.refit": True})
    assert found.speed is not None
    assert found.times is not None
    assert found.times.updates == pytest.approx(10 * found.work.per_update / found.speed.tokens)
    assert (found.times.validations, found.times.last) == (0, 0)


def test_a_model_of_ones_own_is_refused() -> None:
    with pytest.raises(SettingError, match="models by name"):
        plan(WRITING, model=nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("function", "value", "said"),
    [
        (size, 1000, "1.0 KiB"),
        (size, 3 * 2**20, "3.0 MiB"),
        (size, 1234 * 2**30, "1,234 GiB"),
        (duration, 0.0123, "12 ms"),
        (duration, 119, "119 s"),
        (duration, 150, "2.5 min"),
        (duration, 86400 * 3.5, "3.5 days"),
        (count, 124_439_808, "124,439,808"),
        (count, 70_553_706_496, "70.6 billion"),
        (count, 15e12, "15 trillion"),
    ],
)
def test_words(function: Any, value: float, said: str) -> None:
    assert function(value) == said


# --- several models side by side ---


@pytest.mark.parametrize("data", ["opinions:rows=80", "reverse-pairs:rows=100"])
def test_models_side_by_side_have_the_parameters_of_each(data: str) -> None:
    names = {"opinions:rows=80": ["bag", "lstm", "transformer:gpt2"]}
    found = plan_models(data, models=names.get(data, ["lstm", "transformer"]))
    for model in found.models:
        planned = from_data(flatten({"data.path": data, "model": model.name}), None, gpus=None)
        built = planned.build(planned.config)
        assert model.parameters == sum(model.groups.values()) == parameter_count(built)
        assert model.parts == parameters_by_part(built)
        products = compute.training_compute(planned, None).products
        assert products is not None
        assert model.flops == 2 * products
    assert bool(found.models[-1].groups["decoder"]) == data.startswith("reverse-pairs")


@pytest.mark.parametrize("data", ["opinions:rows=80", "reverse-pairs:rows=100"])
def test_flops_of_recurrent_models_on_padded_texts(data: str) -> None:
    """Per token, an LSTM layer has four matrices, a GRU layer three and an RNN layer one."""
    sizes = {"model.width": 8, "model.layers": 1}
    one, three, four = (model.flops for model in plan_models(data, models="rnn,gru,lstm", **sizes).models)
    assert one is not None
    assert three is not None
    assert four is not None
    assert four > three > one
    assert (three - one) / 2 == pytest.approx(four - three, rel=0.05)  # an LSTM decoder also starts from a cell


def test_flops_per_row_of_a_table_without_text() -> None:
    """Iris has 4 columns and 3 classes: a linear map is 12 multiplications per row, however many columns."""
    found = plan_models("iris", models="linear,mlp")
    linear, mlp = found.models
    assert (linear.flops, linear.unit) == (2 * 4 * 3, "example")
    assert mlp.flops is not None
    assert mlp.flops == pytest.approx(2 * (mlp.parameters - 64 - 3))  # all weights but the biases
    assert found.to_dict()["models"][0]["flops_per_example"] == 24
    assert "flops_per_token" not in found.to_dict()["models"][0]
    table = found.view().panels[0]
    assert isinstance(table, Table)
    assert (table.columns[-1], table.rows[0][-1]) == ("FLOPs per example", "24")
    assert "FLOPs per example are" in table.note
    assert "word" not in table.note
    assert "token" not in table.note


def test_flops_per_picture() -> None:
    (linear,) = plan_models("digits", models="linear").models
    assert (linear.flops, linear.unit) == (2 * 64 * 10, "example")


def test_groups_of_a_transformer() -> None:
    d, vocab, layers = 24, 260, 3
    sizes = {"model.width": d, "model.heads": 4, "model.hidden": 40, "model.layers": layers, "model.context": 17}
    found = plan_models(training_tokens=1e6, models="lstm,transformer:gpt2", vocab_size=vocab, **sizes)
    lstm, transformer = found.models
    assert (lstm.width, lstm.layers) == (transformer.width, transformer.layers) == (d, layers)
    assert transformer.groups["embedding"] == (vocab + 17) * d
    assert (transformer.groups["head"], transformer.tied) == (0, True)
    assert lstm.groups["encoder"] == layers * (4 * (2 * d * d + 2 * d) + 2 * d)
    assert found.notes == [
        "model.heads applies to transformer:gpt2.",
        "model.hidden applies to transformer:gpt2.",
    ]
    table = found.view().panels[0]
    assert isinstance(table, Table)
    assert table.columns == ["model", "width", "layers", "embedding", "encoder", "all", "FLOPs per token"]
    assert [row[0] for row in table.rows] == ["lstm", "transformer:gpt2"]
    assert found.to_dict()["models"][1]["groups"] == transformer.groups


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"models": ""}, "--models names no model"),
        ({"models": "lstm,lsmt"}, "unknown model 'lsmt'; did you mean lstm"),
        ({"models": "lstm,gru", "model.heads": 2}, "model.heads is not used by any of the models lstm, gru"),
        ({"models": "lstm", "model": "gru"}, "--model and --models: give one of them"),
    ],
)
def test_models_that_cannot_be_listed(asked: dict[str, Any], told: str) -> None:
    with pytest.raises((SettingError, Misuse), match=told):
        plan_models("opinions:rows=80", **asked)
