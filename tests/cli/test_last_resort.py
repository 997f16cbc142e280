"""What nobody foresaw is one line too; what a person asked for is quiet where they said so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.cli.terminal.show import Screen, console, make_table
from glassformer.config.errors import STRICT
from glassformer.text.escaping import SCREEN
from helpers.running import Command, one_line


class Panic(BaseException):
    """As Rust's, it is no Exception."""


@pytest.mark.parametrize("error", [KeyError("a\x1b[31m\nb"), RecursionError("deep"), Panic("rust")])
def test_an_error_of_our_own_is_one_line(
    error: BaseException, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(argv: list[str]) -> None:
        raise error

    monkeypatch.delenv(STRICT)
    monkeypatch.setattr("glassformer.cli.data.run", fail)
    code, out, err = command("data", "a file")
    (log,) = (tmp_path / "cache").glob("glassformer-error-*.log")
    assert (code, out) == (1, "")
    assert one_line(err).startswith(f"glassformer: stopped on an error of its own: {type(error).__name__}: ")
    assert f"the traceback is in {log}: please report it" in err
    assert "\x1b" not in err
    text = log.read_text()
    assert "Traceback" in text
    assert "['data', 'a file']" in text


def test_tests_see_errors_of_our_own(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(argv: list[str]) -> None:
        raise KeyError

    monkeypatch.setattr("glassformer.cli.data.run", fail)
    with pytest.raises(KeyError):
        command("data")


def test_no_place_for_the_traceback(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(argv: list[str]) -> None:
        raise KeyError

    monkeypatch.delenv(STRICT)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("glassformer.cli.data.run", fail)
    code, _, err = command("data")
    assert code == 1
    assert "its traceback could not be written" in one_line(err)


@pytest.mark.slow
def test_quiet_says_nothing_on_the_way(command: Command, files: Path) -> None:
    words = ("train", files / "two.csv", "--model", "bag", "--steps", 2)
    code, out, err = command(*words, "--out", "one", "-q")
    assert (code, err) == (0, "")
    assert out.startswith("one: bag")
    assert command("predict", "one", "fine", "--quiet")[2] == ""
    code, _, err = command(*words, "--out", "one", "--quiet")
    assert code == 2
    assert "already holds a run" in one_line(err)
    assert "training: 2 updates" in command(*words, "--out", "two")[2]  # the next is not quiet


def test_colours_are_ours_and_texts_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = console.__wrapped__()
    terminal._force_terminal = True
    terminal._color_system = 1
    terminal.print(make_table(["a\x1b[31m"], [["b\x9b"]]), style="bold")
    terminal.print("\x1b]0;owned\x07", style="bold")
    out = capsys.readouterr().out
    assert "\x1b[1m" in out
    assert not any(sign in out for sign in ("\x1b[31m", "\x9b", "\x1b]", "\x07"))


def test_a_screen_writes_what_its_encoding_holds(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w", encoding="ascii") as stream:
        Screen(stream, SCREEN).writelines(["é\x1b→", "\udcff"])
    assert (tmp_path / "out").read_bytes() == rb"\xe9\xb7\u2192\udcff"


@pytest.mark.slow
def test_ascii_and_no_home(runs: Path, tmp_path: Path) -> None:
    code = "import sys; from glassformer.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "TMPDIR")}
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", runs / "two", "café", "--json"],
        env={**environment, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert rb'"text": "caf\u00e9"' in done.stdout


def test_help_lists_no_task_that_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    assert "vectors (default" not in capsys.readouterr().out
