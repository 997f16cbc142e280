"""Lines of files and of stdin are held to the limits; a file of answers is whole, or the one of before."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from glassformer.cli.terminal.inputs import held_texts, lines_of, text_of_stdin, texts_of
from glassformer.config.limits import LimitExceeded
from glassformer.families.translation import LoadedTranslator
from helpers.running import Command

LONG = "ä" * 600


@pytest.fixture
def pipe_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A text as a shell gives it to stdin."""
    with ExitStack() as files:

        def pipe(text: str) -> None:
            (tmp_path / "stdin").write_text(text, newline="")
            monkeypatch.setattr("sys.stdin", files.enter_context((tmp_path / "stdin").open()))

        yield pipe


READERS: dict[str, Callable[[], object]] = {
    "one by one": lambda: list(texts_of([])),
    "held": lambda: held_texts([]),
    "whole": text_of_stdin,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_line_of_stdin_without_end(
    reader: str, pipe_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSFORMER_LIMITS", "field_bytes=500")
    pipe_in(LONG)
    with pytest.raises(LimitExceeded, match=r"stdin: .* and more.*--limit field_bytes="):
        READERS[reader]()


def test_many_lines_of_stdin(pipe_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_LIMITS", "field_bytes=2000,unpacked_bytes=10000")
    pipe_in(f"{LONG}\r\n\n" * 30)
    assert list(texts_of(["-"])) == [LONG, ""] * 30  # none of which is held
    pipe_in(f"{LONG}\n" * 30)
    with pytest.raises(LimitExceeded, match=r"stdin would take .* of memory and more.*--limit unpacked_bytes="):
        held_texts([])


def test_lines_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.txt").write_text(f"a\n\n{LONG}", encoding="latin-1")
    assert lines_of(str(tmp_path / "in.txt"), "latin-1") == ["a", "", LONG]
    monkeypatch.setenv("GLASSFORMER_LIMITS", "field_bytes=500")
    with pytest.raises(LimitExceeded, match=r"in.txt, line 3: .*--limit field_bytes="):
        lines_of(str(tmp_path / "in.txt"), "latin-1")


def test_translations_stopped_on_the_way(
    command: Command, translators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.cli.terminal.inputs.TOGETHER", 1)
    (tmp_path / "out.txt").write_text("before")
    translate, calls = LoadedTranslator.translate, []

    def stopped(*args: object, **keywords: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return translate(*args, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(LoadedTranslator, "translate", stopped)
    code, _, err = command("translate", translators / "gru", "abc", "fed", "--out", "out.txt")
    assert (code, err) == (1, "glassformer: stopped\n")
    assert (tmp_path / "out.txt").read_text() == "before"
    assert os.listdir(tmp_path) == ["out.txt"]
    assert command("translate", translators / "gru", "abc", "fed", "--out", "out.txt")[0] == 0
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 2


@pytest.mark.parametrize("name", ["out.npy", "out.jsonl"])
def test_vectors_stopped_on_the_way(
    name: str, command: Command, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("before")

    def stopped(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array_header_1_0", stopped)
        patch.setattr("glassformer.verbs.files._vectors_json", stopped)
        code, _, err = command("embed", runs / "two", "a text", "--out", name)
    assert (code, err) == (1, "glassformer: stopped\n")
    assert (tmp_path / name).read_text() == "before"
    assert command("embed", runs / "two", "a text", "--out", name)[0] == 0
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() != b"before"


def test_the_report_stays_with_its_run(command: Command, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "two", tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    code, _, err = command("look", "run", "--view", "report")
    assert (code, err.splitlines()[-1]) == (0, "written: run/report.html")
    assert (tmp_path / "run" / "report.html").is_file()
    assert os.listdir(tmp_path) == ["run"]
