"""`glassformer import` and `export`, and what the other verbs make of a run that was imported."""

import json
from pathlib import Path

import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer.cli.main import main
from helpers.twins import VOCAB, save_tokens, save_twin


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 as it lies on the hub: its body's names alone, with the masks that it once kept."""
    place = tmp_path_factory.mktemp("place")
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=31, n_embd=12, n_layer=2, n_head=3, bos_token_id=2, eos_token_id=2
    )
    model = save_twin(place / "small.model", GPT2LMHeadModel, config)
    save_tokens(place / "small.model", opening=False)
    _as_on_the_hub(place / "small.model")
    assert model is not None
    return place


def _as_on_the_hub(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    weights = {name.removeprefix("transformer."): one for name, one in load_file(folder / "model.safetensors").items()}
    weights["h.0.attn.bias"] = torch.ones(1, 1, 31, 31)
    save_file(weights, folder / "model.safetensors")


def test_in_and_out_again(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(place)
    assert main(["import", "small.model", "--json"]) == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["run"] == "runs/small.model-1"
    assert said["imported"] == {
        "from": "small.model",
        "format": "huggingface",
        "architecture": "GPT2LMHeadModel",
        "dtype": "F32",
    }
    assert "next: glassformer generate runs/small.model-1" in err
    readme = Path(said["run"], "README.md").read_text()
    assert "GPT2LMHeadModel" in readme
    assert "from small.model." in readme
    assert main(["generate", said["run"], "the cat", "--greedy", "--tokens", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["export", said["run"], "--to", "hf", "out", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "out/config.json" in json.loads(out)["files"]
    assert "differs from the run by at most" in err
    assert main(["export", said["run"], "--to", "hf", "out"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["import", "small.model", "--out", "runs/small.model-1"]) == 2
    assert "already holds a run" in capsys.readouterr().err


LINES = [
    (["evaluate", "RUN"], 2, "does not know what it was trained on: name the data to evaluate on"),
    (["doctor", "RUN"], 2, "was imported: there is no training to look at; use `check` instead"),
    (["train", "data.txt", "--out", "RUN", "--resume"], 2, "was imported and never trained here: train DATA --from"),
    (["import", "no/such/thing"], 2, "no file or folder no/such/thing"),
    (["import", "small.model", "--to", "x"], 2, "unknown option --to"),
    (["import", "no/such.gguf"], 2, "no file or folder no/such.gguf"),
    (["import", "RUN"], 2, "is a run already"),
    (["import", "small.model", "--out", "RUN"], 2, "already holds a run: replace it with --overwrite"),
    (["export", "RUN", "--to", "hf", "RUN", "--overwrite"], 2, "is a run: name another folder"),
    (["export", "RUN", "--to", "onnx", "RUN", "--overwrite"], 2, "is a run: name another folder"),
    (["export", "RUN", "--to", "word", "x"], 2, "--to"),
    (["evaluate", "RUN", "data.txt"], 0, "document"),
    (["embed", "RUN", "the cat", "--out", "cat.npy"], 0, "1 text written to cat.npy"),
]


@pytest.mark.parametrize(("words", "code", "line"), LINES)
def test_other_verbs(
    words: list[str],
    code: int,
    line: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    Path("data.txt").write_text("the cat sat on the mat\n" * 9)
    if not Path("runs/shared").exists():
        assert main(["import", "small.model", "--out", "runs/shared"]) == 0
    capsys.readouterr()
    assert main([word.replace("RUN", "runs/shared") for word in words]) == code
    out, err = capsys.readouterr()
    assert line in out + err
    assert "Traceback" not in err
