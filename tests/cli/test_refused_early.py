"""What can be refused without torch is refused before torch is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli.main import main

RUN = """
import sys
from glassformer.cli.main import main
for line in sys.argv[1:]:
    code = main(line.split())
    print(line, code, "torch" in sys.modules, sep="\\t", flush=True)
"""
TRAINING = ("train", "compare", "tune", "plan")
READING = ("predict", "evaluate", "generate", "translate", "look", "embed", "check", "doctor")
MISTAKES = {
    "a value of another kind": [f"{verb} opinions --epochs five" for verb in TRAINING],
    "a size that is none": [f"{verb} opinions --size enormous" for verb in TRAINING],
    "a value out of range": [f"{verb} opinions --dropout 2" for verb in TRAINING],
    "a setting that is none": [f"{verb} opinions --model.wdith 3" for verb in TRAINING],
    "a model that is none": ["train opinions --model nonsense", "plan opinions --model nonsense"],
    "data that is not there": [
        *(f"{verb} nowhere.csv" for verb in TRAINING),
        *(f"data {action} nowhere.csv" for action in ("describe", "check", "show")),
        *(f"tokenizer {action} nowhere.txt" for action in ("train", "compare")),
    ],
    "settings of data": ["data show opinions --model.width wide", "data check opinions --data.test_fraction 7"],
    "a run that is not there": [f"{verb} nowhere" for verb in READING],
    "a file of settings that is not there": [f"{verb} opinions --config nowhere.yaml" for verb in ("train", "plan")],
    "a model elsewhere that is not there": ["import ./nowhere", "import nowhere.gguf", "import run/glassformer.json"],
    "a file that is not there": [f"{verb} run --file nowhere.csv" for verb in ("predict", "embed", "evaluate")]
    + [f"{verb} run --file nowhere.txt" for verb in ("translate", "generate")],
    "a name that is none": ["look run a --view nonsense", "check run --only cached,nonsense"],
    "a number out of range": [
        *(f"{verb} run a --beam 0" for verb in ("generate", "translate", "evaluate", "look")),
        "generate run a --tokens 0",
        "generate run a --top-p 7",
        "translate run a --nbest 9",
        "evaluate run --length-penalty 99",
    ],
    "a file of settings with what is none": [f"{verb} opinions --config settings.yaml" for verb in TRAINING],
    "a file where a folder should be": [
        "demo --out settings.yaml/x",
        "import a/model --out settings.yaml/x",
        *(f"{verb} opinions --out settings.yaml/x" for verb in ("train", "compare", "tune")),
    ],
    "scaling": [f"scaling --{option}" for option in ("models nonsense", "parts x", "lengths 1,2", "width 7")],
    "an option that is none": [f"{verb} x --nonsense" for verb in (*TRAINING, *READING, "scaling", "import", "export")],
}


def refusals(lines: list[str], folder: Path, first: str = "") -> list[str]:
    """What is said of each line, all of them refused before torch was there. `first`: code that is run before."""
    done = subprocess.run(
        [sys.executable, "-c", first + RUN, *lines], capture_output=True, text=True, cwd=folder, check=True
    )
    assert [line.split("\t") for line in done.stdout.splitlines()] == [[line, "2", "False"] for line in lines]
    return done.stderr.splitlines()


@pytest.mark.sample(3)
@pytest.mark.parametrize("lines", MISTAKES.values(), ids=MISTAKES)
def test_without_torch(lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "glassformer.json").write_text("{}")
    (tmp_path / "settings.yaml").write_text("model: {widht: 12}")
    assert len(refusals(lines, tmp_path)) == len(lines)


def test_a_model_of_the_hub_without_its_library(tmp_path: Path) -> None:
    (line,) = refusals(["import nowhere"], tmp_path, first="import sys; sys.modules['huggingface_hub'] = None")
    assert "no file or folder nowhere; to fetch it from the hub: pip install" in line


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("play x --no-open", "(see glassformer play --help)"),
        ("serve x --no-open", "(see glassformer serve --help)"),
        ("play x --no-browsr", "did you mean --no-browser?"),
        ("play x --no-atuh", "did you mean --no-auth?"),
    ],
)
def test_no_suggestion_means_the_opposite(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.strip().endswith(hint)
