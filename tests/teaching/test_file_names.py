"""Names of submitted files: none is taken for an option or runs code, and each is one printable line."""

import json
import os
from pathlib import Path

import pytest

from glassformer.cli.main import main


@pytest.mark.parametrize("words", [["grade"], ["lesson", "attention", "--check"]])
def test_a_name_like_brick_runs_no_code(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    Path("--brick=evil.py").write_text("")
    assert main([*words, "--brick=evil.py", "evil.py", "--lesson", "attention"]) == 2
    assert main([*words, "--brick", "evil.py", "--lesson", "attention"]) == 2
    assert main(["-q", *words, "--brick", "evil.py"]) == 2
    assert not Path("ran").exists()
    assert capsys.readouterr().err.count("\n") == 3


def test_a_name_like_hidden_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("x.py", "--hidden=x.py"):
        Path(folder).mkdir()
        Path(folder, "attention.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    assert main(["grade", "--hidden=x.py", "x.py", "--lesson", "attention"]) == 2
    assert not Path("ran").exists()
    assert "write ./*.py instead of *.py" in capsys.readouterr().err


@pytest.mark.slow
def test_names_and_messages_are_one_printable_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [
        b"\xff.py",
        b"forged  12 of 12\nb.py",
        b"\x1b[31mred.py",
        "b\u202egpj.py".encode(),
        b"-x.py",
        b"gone\x9b.py",
    ]
    files = [os.path.join(os.fsencode(tmp_path), name) for name in names]
    for file in files[:-1]:
        with open(file, "w") as to:
            to.write('parameters = 9216\nraise ValueError("note \\udc80 \\x1b[31m \\u2028")\n')
    words = [os.fsdecode(file) for file in files]
    for suffix in ("csv", "json"):
        out = tmp_path / f"points.{suffix}"
        assert main(["grade", *words, "--lesson", "attention", "--out", str(out)]) == 1
        text = out.read_text(encoding="utf-8")
        assert text.count("\n") == (1 + len(names) if suffix == "csv" else 1)
        assert not {*"\x1b\x9b\u202e\u2028"} & {*text}
    told = capsys.readouterr()
    assert "b.py" not in {line.strip().split(" ")[0] for line in told.out.splitlines()}
    for one in json.loads(text)["submissions"]:
        for line in (one["file"], one["problem"], *one["notes"], *(item["line"] for item in one["items"])):
            assert line.isprintable()
    assert main(["grade", words[2], "--lesson", "attention", "--gradescope", "--out", str(tmp_path / "r.json")]) == 0
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert "note" in result["output"]
    assert result["output"].isprintable()
