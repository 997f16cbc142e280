"""`glassformer plan` as a person types it."""

import json
from pathlib import Path

import pytest

from glassformer.cli.measure import training_words
from helpers.running import Command

SMALL = ["--model.width", "16", "--model.layers", "1", "--model.context", "16", "--batch-size", "4"]


def test_a_plan_in_words(command: Command, files: Path) -> None:
    code, out, err = command("plan", "good.txt", "--no-probe", "--out", "plan.html", *SMALL)
    assert code == 0
    assert out.startswith("A plan: transformer on good.txt (language-model)\n")
    for part in ("Parameters", "word vectors", "Memory of a step", "optimiser (muon)", "multiplications", "epochs"):
        assert part in out
    assert err.splitlines()[-1] == f"next: glassformer train good.txt {' '.join(SMALL)}"
    assert "A plan: transformer on good.txt" in (files / "plan.html").read_text()
    assert not (files / "runs").exists()


def test_a_plan_in_numbers(command: Command, files: Path) -> None:
    code, out, _ = command("plan", "good.txt", "--no-probe", "--json", "--out", "plan.json", *SMALL)
    assert code == 0
    found = json.loads(out)
    assert found == json.loads((files / "plan.json").read_text())
    assert sum(found["parts"].values()) == found["parameters"]
    assert found["fits"] is True
    assert found["speed"] is None
    assert found["work"]["per_update"] == 4 * 16
    assert found["memory"]["peak"] == max(found["memory"]["peaks"].values())


@pytest.mark.slow
def test_on_paper(command: Command) -> None:
    words = [
        "--training-tokens",
        "1e9",
        "--size",
        "large",
        "--vocab-size",
        "50257",
        "--gpus",
        "8",
        "--device-memory",
        "1",
    ]
    code, out, err = command("plan", *words)
    assert (code, err) == (0, "")
    assert "8 × 1 GiB, on paper" in out
    assert "computed again" in out
    assert "--training.parallel ddp (copied) or fsdp (sharded)" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "DATA is missing, or --training-tokens N"),
        (["good.txt", "--training-tokens", "5"], "both set the number of tokens: give one"),
        (["good.txt", "--flops", "5"], "--flops goes with --gpus or --training-tokens"),
        (["good.txt", "--device-memory", "0"], "--device-memory is 0, but must be above 0"),
        (["good.txt", "--device-memory", "inf"], "--device-memory is inf, but must be above 0 and finite"),
        (["--training-tokens", "inf"], "--training-tokens is inf, but must be above 0 and finite"),
        (["--training-tokens", "nan"], "--training-tokens is nan, but must be above 0 and finite"),
        (["--training-tokens", "0.5"], "--training-tokens is 0.5, but must be 1 or more"),
        (["--training-tokens", "1e6", "--gpus", "-2"], "--gpus is -2, but must be above 0"),
        (["--training-tokens", "1e6", "--gpus", "two"], "--gpus: invalid int value: 'two'"),
        (["--training-tokens", "1e6", "--tokenizer.kind", "char"], "give DATA or --vocab-size"),
        (["--training-tokens", "1e6", "--task", "classification"], "--training-tokens is for language models"),
        (["--training-tokens", "1e6", "--gpus", "5", "--batch-size", "4"], "is too small for 5 GPUs"),
        (["good.txt", "--model.widht", "3"], "unknown option --model.widht; did you mean --model.width?"),
        (["nowhere.txt"], "nowhere.txt"),
        (["good.txt", "--out", "plan.gif"], "--out plan.gif: its name should end in"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(command: Command, words: list[str], told: str) -> None:
    code, out, err = command("plan", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_the_training_that_follows() -> None:
    words = [
        "a b.txt",
        "--device-memory",
        "3",
        "--json",
        "--steps",
        "5",
        "--out=plan.html",
        "--no-probe",
        "--size",
        "nano",
    ]
    assert training_words(words) == "'a b.txt' --steps 5 --size nano"


def test_models_side_by_side(command: Command, files: Path) -> None:
    code, out, err = command("plan", "good.txt", "--models", "lstm,transformer", "--out", "sizes.html", *SMALL)
    assert code == 0
    assert out.startswith("Model sizes: good.txt (language-model)\n")
    for word in ("embedding", "encoder", "FLOPs per token", "lstm", "transformer"):
        assert word in out
    assert "next:" not in err
    assert "Model sizes" in (files / "sizes.html").read_text()
    code, out, _ = command("plan", "good.txt", "--models", "lstm,transformer", "--json", *SMALL)
    assert code == 0
    assert [model["name"] for model in json.loads(out)["models"]] == ["lstm", "transformer"]
    code, _, err = command("plan", "good.txt", "--models", "lstm", "--gpus", "8")
    assert code == 2
    assert err == "glassformer: --models lists parameters and FLOPs only; remove --gpus, or plan one --model\n"
