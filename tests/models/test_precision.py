"""Models in 8 bits and in bf16: close to what they are in float32, whichever way they are used."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks import int8
from glassformer.bricks.int8 import Int8Linear, Int8Scores, join_linears, to_int8
from glassformer.cli.evaluate import run as evaluate_command
from glassformer.cli.generate import run as generate_command
from glassformer.cli.main import main
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.resolve import resolve
from glassformer.decoding.running import generate
from glassformer.decoding.sampling import GREEDY
from glassformer.encoders.fused_step import CpuStep
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.families import load as loading
from glassformer.families.load import load
from glassformer.inspection.capture import capture
from glassformer.models.build import build_language_model
from glassformer.models.weights import lower_precision
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.exchange import export
from helpers.beginnings import BODY, quick, write_data
from helpers.support import randomise
from helpers.translators import translator
from helpers.writing import VOCAB, every_model, model_of, prompt_of

KINDS = [Int8Linear, Int8Scores]


def off(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.fixture(params=["here", "elsewhere"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This one, and one without FBGEMM, whose fast products are of float32."""
    if request.param == "elsewhere":
        monkeypatch.setattr(int8, "fast_dtype", lambda: torch.float32)
        monkeypatch.setattr(int8, "_pack", lambda whole, scale: None)


# --- the brick ---


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [23, 64])
@pytest.mark.parametrize("rest", [(), (1,), (3, 1), (2, 11)])
def test_it_gives_what_the_linear_map_gives(kind: type[Int8Linear], width: int, rest: tuple[int, ...]) -> None:
    linear = nn.Linear(width, 37)
    linear.weight.data[5] = 0.0
    small, x = kind.of(linear), torch.randn(*rest, width)
    x[..., 3] *= 50  # one number that is far from the others
    with torch.no_grad():
        assert off(small.weight, linear.weight) < 0.01
        assert off(small(x), F.linear(x, small.weight, linear.bias)) < (5e-3 if kind is Int8Linear else 1e-4)
        assert small(x).dtype == torch.float32
        assert off(small(torch.zeros(2, width)), linear.bias.expand(2, -1)) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_knows_nothing_of_those_beside_it(kind: type[Int8Linear]) -> None:
    small, x = kind.of(nn.Linear(64, 37)), torch.randn(5, 64)
    x[2] = -x[2].abs()
    alone = small(x[2:3])
    x[3:] *= 1000
    torch.testing.assert_close(small(x)[2:3], alone, rtol=1e-5, atol=1e-5)


def test_how_vectors_lie_in_memory_does_not_matter() -> None:
    small, x = Int8Linear.of(nn.Linear(64, 37)), torch.randn(1, 64, 5).transpose(1, 2)
    torch.testing.assert_close(small(x), small(x.contiguous()))


def test_joined_maps_are_the_maps() -> None:
    maps = [Int8Linear.of(nn.Linear(64, width)) for width in (7, 3, 11)]
    x = torch.randn(1, 64)
    apart = torch.cat([map(x) for map in maps], -1)
    one = join_linears(maps)
    torch.testing.assert_close(one(x), apart)
    torch.testing.assert_close(torch.cat([map(x) for map in maps], -1), apart)
    assert maps[1].whole.untyped_storage().data_ptr() == one.whole.untyped_storage().data_ptr()


def test_it_has_no_gradient_and_says_so() -> None:
    small = Int8Linear.of(nn.Linear(3, 5))
    with pytest.raises(Misuse, match="a model in 8 bits has no gradients: load it in fp32"):
        small(torch.randn(1, 3, requires_grad=True))


# --- models ---


@pytest.mark.sample(5)
@every_model
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_language_model_scores_and_writes_in_it(flags: dict[str, Any], precision: str) -> None:
    model = model_of(**flags).float()
    lower = copy.deepcopy(model)
    if precision == "bf16" and flags["encoder"] in ("cnn", "window"):
        with pytest.raises(Misuse, match="convolutions in bf16 come out wrong on some CPUs"):
            lower_precision(lower, precision)
        return
    lower_precision(lower, precision)
    ids = torch.tensor([prompt_of(12, seed=3)])
    with torch.inference_mode():
        scores = model(ids)
        assert off(lower(ids).float(), scores) < 0.1
        state, steps = lower.init_state(1, 12), []
        for place in range(12):
            steps.append(lower.head(lower.extend(ids[:, place : place + 1], state)))
        assert off(torch.cat(steps, 1).float(), scores) < 0.1
    for tokens in generate(lower, [prompt_of(3), prompt_of(5)], GREEDY, max_tokens=6):
        assert all(token is not None and 0 <= token < VOCAB for token in tokens)


def test_a_large_model_in_8_bits_takes_the_step_of_few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.encoders.fused_step.MAX_CPU_WEIGHTS", 2000)
    settings = {"model.layers": 2, "model.width": 96, "model.heads": 6, "model.kv_heads": 2, "model.context": 64}
    model = randomise(build_language_model(resolve({}, settings).model, vocab=VOCAB)).eval()
    assert isinstance(model.encoder, TransformerEncoder)
    assert model.encoder._fused_step(torch.device("cpu")) is None
    to_int8(model)
    assert isinstance(model.encoder._fused_step(torch.device("cpu")), CpuStep)
    ids = torch.tensor([prompt_of(9)])
    with torch.inference_mode():
        state, twin = model.init_state(1, 9), model.init_state(1, 9)
        twin.fused = False  # type: ignore[attr-defined]
        for place in range(9):
            few, many = (model.extend(ids[:, place : place + 1], one) for one in (state, twin))
            assert off(few, many) < 0.01


@pytest.mark.parametrize(("decoder", "settings"), [("transformer", {}), ("lstm", {}), ("lstm", {"bias": "single"})])
@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_translator_scores_in_it(decoder: str, settings: dict[str, str], precision: str) -> None:
    model = translator(decoder, decoder, **settings).eval()
    lower = copy.deepcopy(model)
    lower_precision(lower, precision)
    source, target = torch.tensor([[3, 5, 4, 6]]), torch.tensor([[1, 4, 3]])
    with torch.inference_mode():
        assert off(lower(source, None, target).float(), model(source, None, target)) < 0.1


def test_what_passes_inside_can_be_looked_at() -> None:
    model = model_of().float()
    to_int8(model)
    with torch.no_grad(), capture(model) as activations:
        model(torch.tensor([prompt_of(5)]))
    assert any(name.endswith("attend.weights") for name in activations)


def test_a_model_without_linear_maps_is_refused() -> None:
    with pytest.raises(Misuse, match="no linear maps to be put in 8 bits"):
        lower_precision(nn.Sequential(nn.EmbeddingBag(5, 3)), "int8")


# --- runs ---


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("precision")
    return quick(write_data(folder)["text"], out=folder / "run", steps=20, **{**BODY, "tokenizer.kind": "char"})


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_run_loses_little(run: Path, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "cpu_has_bf16", lambda: True)
    loaded = load(run, "cpu", precision=precision)
    full, lower = evaluate(run, device="cpu").metrics["loss"], evaluate(loaded).metrics["loss"]
    assert full != lower
    assert abs(full - lower) < 0.02
    assert evaluate(run, device="cpu", precision=precision).metrics["loss"] == lower
    with pytest.raises(Misuse, match=f"is for a run's folder; this one is loaded in {precision}"):
        evaluate(loaded, precision="int8")
    assert len(loaded.generate("we", tokens=5, greedy=True)) >= 5
    assert loaded.parameters == load(run, "cpu").parameters
    assert pickle.loads(pickle.dumps(loaded)).precision == precision
    with pytest.raises(Misuse, match=f"a model in {precision} is for use: load it in fp32 to export it"):
        export(loaded, to="hf", folder=run.parent / "hf")


def test_what_cannot_be_had_is_one_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match=r"unknown precision 'int4'.*fp32, bf16, int8"):
        load(run, "cpu", precision="int4")
    monkeypatch.setattr(loading, "cpu_has_bf16", lambda: False)
    with pytest.raises(Misuse, match="this CPU has no bf16 of its own"):
        load(run, "cpu", precision="bf16")
    monkeypatch.setattr(loading, "choose_device", lambda name: torch.device("cuda"))
    with pytest.raises(Misuse, match="8 bits are for a CPU"):
        load(run, precision="int8")


def test_evaluate_shows_what_it_costs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate_command([str(run), "--precision", "int8", "--device", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[:3] for line in lines[:2]] == [["in", "int8:", "loss"], ["in", "fp32:", "loss"]]
    assert lines[2].startswith("difference: loss ")
    evaluate_command([str(run), "--precision", "int8", "--device", "cpu", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["fp32"]["tokens"] == shown["tokens"]
    with pytest.raises(Misuse, match="does not go with --errors"):
        evaluate_command([str(run), "--precision", "int8", "--errors"])


def test_generate_says_what_it_did(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(run), "we", "--precision", "int8", "--device", "cpu", "--tokens", "3"]) == 0
    said = capsys.readouterr().err
    assert "weights in 8 bits; what that costs: glassformer evaluate" in said
    with pytest.raises(Misuse, match=r"--precision: invalid choice: 'int4' \(choose from"):
        generate_command([str(run), "we", "--precision", "int4"])
