"""`train --from` on the command line: what it says, what it leaves, and how it refuses."""

import json
from pathlib import Path

import pytest

from glassformer.runs.run import Run
from helpers.beginnings import BODY, quick, write_data
from helpers.running import Command


@pytest.mark.slow
def test_fine_tuning(command: Command, tmp_path: Path) -> None:
    data = write_data(tmp_path)
    writer = quick(data["text"], out=tmp_path / "runs" / "writer", **BODY, **{"tokenizer.kind": "char"})
    words = ["train", data["labels"], "--from", "last", "--steps", "2", "--training.last_blocks", "1"]
    code, out, err = command(*words, "--out", "tuned", "--json")
    assert code == 0
    trained = json.loads(out)
    card = Run(Path("tuned")).card()
    assert (trained["parameters"], trained["learned"]) == (card["parameters"], card["learned"])
    assert card["learned"] < card["parameters"]
    assert f"from {writer}: 24 of 25 weights" in err
    assert f"model: {card['parameters']:,} parameters, {card['learned']:,} of them learned" in err
    readme = Path("tuned/README.md").read_text(encoding="utf-8")
    assert "| began from | writer (language-model; weights " in readme
    assert f"{card['parameters']:,} parameters, {card['learned']:,} of them learned), trained with" in readme
    code, out, err = command("predict", "tuned", "we liked the soup")
    assert (code, out.split()[0]) in ((0, "good"), (0, "bad"))

    code, _, err = command("train", data["labels"], "--from", "runs/writer", "--model.width", "64")
    assert code == 2
    assert err.strip().splitlines()[-1].endswith("has 16, and --from keeps its body: leave it away")
    code, _, err = command("train", data["labels"], "--from", "nowhere")
    assert (code, "--from: no run at nowhere" in err) == (2, True)
    code, _, err = command("train", data["labels"], "--from", "")
    assert (code, "--from is empty: name a run's folder" in err) == (2, True)
    Path("tune.yaml").write_text("model: {from_run: runs/writer, pool: mean}\ntraining: {steps: 1}\n", encoding="utf-8")
    code, _, _ = command("train", data["labels"], "--config", "tune.yaml", "--out", "again")
    assert code == 0
    config = Run(Path("again")).config()
    assert (config.model.pool, config.model.from_run) == ("mean", str(writer))
