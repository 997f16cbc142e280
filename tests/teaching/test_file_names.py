"""Names of submitted files: none is taken for an option or runs code."""

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
