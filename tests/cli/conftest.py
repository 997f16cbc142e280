"""A folder with files good and bad, and a command line that runs in it."""

import gzip
import random
from pathlib import Path

import pytest
from torch import Tensor, nn

from glassformer.cli.main import main
from glassformer.verbs.train import train
from helpers.running import Command, labelled, tiny
from helpers.tables import amounts, opinions, write_table
from helpers.translating import mirrored, translating


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))

    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "good.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 40)
    (tmp_path / "short.txt").write_text("hello world")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text(" \n\n \t\n")
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    (tmp_path / "latin.txt").write_bytes("café au lait\n".encode("latin-1"))
    (tmp_path / "random.txt").write_bytes(random.Random(1).randbytes(3000))
    (tmp_path / "torn.txt.gz").write_bytes(gzip.compress(b"hello " * 500)[:-20])
    (tmp_path / "bad.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    (tmp_path / "other.jsonl").write_text('{"body": "fine"}\n')
    (tmp_path / "bad.yaml").write_text("model:\n  width: [1\n")
    (tmp_path / "unknown.yaml").write_text("model:\n  widht: 12\n")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "folder").mkdir()
    _tables(tmp_path)
    return tmp_path


def _tables(folder: Path) -> None:
    rows = opinions(40)
    write_table(folder / "two.csv", rows)
    write_table(folder / "three.csv", opinions(40, classes=3))
    write_table(folder / "rated.csv", amounts(40), ("text", "rating"))
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("text,label\n")
    (folder / "ragged.csv").write_text("text,label\nfine,good\noh, no,bad\n")
    (folder / "quote.csv").write_text('text,label\nfine,good\n"no,bad\n')
    (folder / "latin.csv").write_bytes("text,label\nfine,good\ncafé,bad\n".encode("latin-1"))
    (folder / "not.parquet").write_text("text,label\n")
    (folder / "bad.vectors").write_text("soup 1 2\nfilm 1 x\n")
    (folder / "ragged.vectors").write_text("soup 1 2\nfilm 1\n")
    write_table(folder / "few.csv", rows[:2])
    write_table(folder / "one.csv", [(text, "good") for text, _ in rows])
    write_table(folder / "single.csv", [*rows, ("a lonely text", "odd")])
    write_table(folder / "blanks.csv", [("", "good"), (" ", "bad")] * 9)
    write_table(folder / "unlabelled.csv", [*rows, ("a text", "")])
    write_table(folder / "unseen.csv", [*opinions(4), ("what a text", "other")])
    write_table(folder / "words.csv", [*amounts(30), ("a text", "many")], ("text", "rating"))
    write_table(folder / "ids.csv", [(text, "x" * place) for place, (text, _) in enumerate(rows, 1)])
    pairs = [(text, text[::-1], label) for text, label in rows]
    write_table(folder / "texts.csv", pairs, ("question", "comment", "label"))
    write_table(folder / "labels.csv", [(text, label, label) for text, label in rows], ("text", "class", "topic"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that no test may change: two classes, three, numbers, a language model, a model of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    two = write_table(folder / "two.csv", opinions(60))
    three = write_table(folder / "three.csv", opinions(60, classes=3))
    rated = write_table(folder / "rated.csv", amounts(60), ("text", "rating"))
    quick = {"training.optimizer": "adamw", "training.lr": 0.05, "training.steps": 6}
    with pytest.MonkeyPatch.context() as patch:
        for draw in ("draw_curves", "draw_confusion"):
            patch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)
        train(two, out=folder / "two", **labelled("lstm"), **quick)
        train(three, out=folder / "three", model="bag", **quick)
        train(rated, out=folder / "rated", **labelled("average"), **quick)
        train(two, out=folder / "writer", task="language-model", **tiny("lstm"), **quick)
        train(three, out=folder / "own", model=lambda vocab, outputs: Averages(vocab, outputs), **quick)
    return folder


class Averages(nn.Module):
    """A model of one's own."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocab, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.words(tokens)


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that no test may change: with attention (it has learned a little), a Transformer, a bottleneck."""
    folder = tmp_path_factory.mktemp("translators")
    table = write_table(folder / "pairs.csv", mirrored(60), ("source", "target"))
    quick = {"training__optimizer": "adamw", "training__lr": 0.02, "training__validate_every": 60}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.reporting.papers.draw_curves", lambda *args, **more: None)
        train(table, out=folder / "gru", **translating("gru", **quick, model__width=24, training__steps=60))
        train(table, out=folder / "transformer", **translating(**quick))
        train(table, out=folder / "bottleneck", **translating("lstm", **quick, model__attention="none"))
    return folder
