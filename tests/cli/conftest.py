"""A folder with files good and bad, and a command line that runs in it."""

import gzip
import random
from pathlib import Path

import pytest

from glassformer.cli.main import main
from running import Command


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
    return tmp_path
