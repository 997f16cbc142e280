"""The Tab key: bash itself reads the script, and says what it would complete."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli.main import VERBS
from glassformer.cli.train import PARSER
from glassformer.config.encoders import ENCODERS
from glassformer.data.datasets.embedded import DATASETS
from helpers.running import Command

ASK = f"""
glassformer() {{ "{sys.executable}" -m glassformer "$@"; }}
source completion
COMP_WORDS=("$@")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_glassformer
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(command: Command, tmp_path: Path) -> Path:
    code, out, err = command("completion", "bash")
    assert (code, err) == (0, "")
    (tmp_path / "completion").write_text(out)
    return tmp_path


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    found = subprocess.run(["bash", "-u", "-c", ASK, "bash", "glassformer", *words], cwd=folder, capture_output=True,
                           text=True, check=True)  # fmt: skip
    assert found.stderr == ""
    return found.stdout.split("\n")[:-1] if found.stdout.strip() else []


def test_verbs_actions_options_and_their_values(script: Path) -> None:
    assert completed(script, "") == list(VERBS)
    assert completed(script, "tra") == ["train", "translate"]
    assert completed(script, "data", "") == ["list", "describe", "check", "show"]
    assert completed(script, "train", "iris", "--model.pos") == ["--model.positions"]
    assert set(completed(script, "train", "--")) == {name for name in PARSER._option_string_actions if name[:2] == "--"}
    assert completed(script, "train", "--model", "") == list(ENCODERS)
    assert completed(script, "train", "--model", "=", "ls") == ["lstm"]  # bash takes --model=ls apart
    assert completed(script, "compare", "--models", "bag,l") == ["bag,lstm", "bag,linear"]
    assert completed(script, "export", "last", "--to", "") == ["hf", "onnx"]
    assert completed(script, "data", "check", "--tokenizer.kind", "b") == ["bpe"]
    assert completed(script, "look", "last", "--view", "atten") == ["attention"]
    assert completed(script, "evaluate", "--part", "t") == ["train", "test"]
    assert completed(script, "train", "iris", "--steps", "") == []  # a number is the person's


def test_data_sets_files_and_runs(script: Path) -> None:
    (script / "opinions of mine.csv").touch()
    for name in ("runs/one", "mine", "$(touch bad)"):
        (script / name).mkdir(parents=True)
        (script / name / "glassformer.json").touch()
    (script / "runs/no-run").mkdir()
    assert completed(script, "train", "opini") == ["opinions", "opinions of mine.csv"]
    assert set(DATASETS) <= set(completed(script, "compare", ""))
    assert completed(script, "predict", "") == ["last", "$(touch bad)", "mine", "runs/one"]
    assert completed(script, "train", "iris", "--from", "ru") == ["runs/one"]
    assert not (script / "bad").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, command: Command, tmp_path: Path) -> None:
    code, out, _ = command("completion", shell)
    assert code == 0
    assert "completion words --" in out
    (tmp_path / "completion").write_text(out)
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(tmp_path / "completion")], check=True)


def test_an_unknown_shell_is_one_line(command: Command) -> None:
    code, out, err = command("completion", "tcsh")
    assert (code, out) == (2, "")
    assert "tcsh" in err


def test_it_needs_no_torch_and_a_module_is_a_program() -> None:
    words = ["completion", "words", "--", "train", ""]
    program = f"import sys; from glassformer.cli.main import main; main({words}); print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("\nFalse\n")
    found = subprocess.run([sys.executable, "-m", "glassformer", "--help"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("glassformer ")
    assert all(verb in found.stdout for verb in VERBS)
