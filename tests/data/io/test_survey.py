"""What is kept of large files: as if they had been read, for as long as they are the same; and found by one process."""

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings, TokenizerSettings
from glassformer.data.io import source as source_module
from glassformer.data.io import survey as survey_module
from glassformer.data.io.source import Source, open_source
from glassformer.data.io.survey import Survey, survey
from glassformer.data.packing import packer
from glassformer.data.packing.store import pack
from glassformer.data.split.documents import split_texts
from glassformer.text.tokenizer import Tokenizer

FILES = 12
TOKENIZER = Tokenizer.train(["abc 0123456789"], TokenizerSettings(kind="char"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read."""
    names: list[str] = []
    real = source_module.text_blocks

    def read(path: Path, encoding: str) -> Iterator[str]:
        names.append(path.name)
        return real(path, encoding)

    monkeypatch.setattr(source_module, "text_blocks", read)
    return names


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Twelve files, in groups of about two."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source_module, "GROUP", 500)
    monkeypatch.setattr(survey_module, "MIN_CACHED_BYTES", 100)
    monkeypatch.setattr(survey_module, "SETTLED", 0.0)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:02}.txt").write_text(f"{number} " + "abc " * (60 + 5 * number))
    (folder / "05.txt").write_text("  \n" * 50)
    yield folder
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".part", ".lock")]


def opened(folder: Path) -> Source:
    return open_source(str(folder), DataSettings())


def plain(found: Survey) -> dict[str, Any]:
    values = {item.name: getattr(found, item.name) for item in dataclasses.fields(found) if item.name != "source"}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def test_groups_are_the_whole(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = survey(opened(corpus))
    assert 4 < len(found.groups) < FILES
    assert found.groups[0] == 0
    one = dataclasses.replace(opened(corpus), file_groups=())
    assert plain(survey(one)) == {**plain(found), "groups": [0]}


def test_the_second_time_nothing_is_read(corpus: Path, reads: list[str]) -> None:
    first = survey(opened(corpus))
    assert sorted(reads) == [f"{number:02}.txt" for number in range(FILES)]
    reads.clear()
    assert plain(survey(opened(corpus))) == plain(first)
    assert reads == []


def test_a_group_that_has_changed_is_read_again(corpus: Path, reads: list[str]) -> None:
    before = survey(opened(corpus)).fingerprint
    reads.clear()
    text = (corpus / "07.txt").read_text()
    (corpus / "07.txt").write_text(text.replace("abc", "abd"))
    assert survey(opened(corpus)).fingerprint != before
    assert "07.txt" in reads
    assert len(reads) <= 3
    (corpus / "07.txt").write_text(text)
    assert survey(opened(corpus)).fingerprint == before


def test_what_is_damaged_is_found_again(corpus: Path, reads: list[str], tmp_path: Path) -> None:
    expected = plain(survey(opened(corpus)))
    for number, path in enumerate(sorted((tmp_path / "cache" / "surveys").iterdir())):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data if number % 2 else data[: len(data) // 2])
    reads.clear()
    assert plain(survey(opened(corpus))) == expected
    assert len(reads) >= FILES / 2, "some of the bytes of such a file say nothing"


def test_what_was_changed_a_moment_ago_is_not_trusted(
    corpus: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "SETTLED", 1e9)
    survey(opened(corpus))
    survey(opened(corpus))
    assert len(reads) == 2 * FILES


def test_a_cache_that_cannot_be_written(
    corpus: Path, reads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = plain(survey(opened(corpus)))
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "file"))
    reads.clear()
    assert plain(survey(opened(corpus))) == expected
    assert len(reads) == FILES


def test_files_without_text(tmp_path: Path) -> None:
    folder = tmp_path / "blank"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(" " * 600)
    with pytest.raises(DataError, match="is empty: there is no text in it"):
        survey(opened(folder))


def test_a_single_text_among_blank_files(tmp_path: Path) -> None:
    """It lies in a later group."""
    folder = tmp_path / "nearly blank"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(" " * 600)
    (folder / "3.txt").write_text("one text " * 100)
    part = split_texts(opened(folder), DataSettings()).parts["train"]
    assert "".join(chunk.text for chunk in part.chunks()).startswith("one text one text")


def test_a_part_that_changed_is_noticed_at_the_group(corpus: Path) -> None:
    part = split_texts(opened(corpus), DataSettings(validation_fraction=0.2)).parts["train"]
    (corpus / "00.txt").write_text("shorter")
    (corpus / "01.txt").write_text("shorter")
    with pytest.raises(DataError, match="changed while it was being read: the train part had"):
        next(chunk for chunk in part.chunks() if chunk.text.startswith("9 "))


# --- files of others' shards are not read ---


def test_only_the_files_of_a_missing_shard_are_read(
    corpus: Path, reads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packer, "SHARD", 600)
    monkeypatch.setattr(source_module, "CHUNK", 100)
    part = split_texts(opened(corpus), DataSettings(validation_fraction=0.1)).parts["train"]
    pack(part, TOKENIZER)
    folder = tmp_path / "cache" / "tokens"
    expected = {path.name: path.read_bytes() for path in folder.glob("*.ids")}
    assert len(expected) >= 4
    next(folder.glob("*.3.ids")).unlink()
    reads.clear()
    pack(part, TOKENIZER)
    assert {path.name: path.read_bytes() for path in folder.glob("*.ids")} == expected
    assert 0 < len(set(reads)) < FILES / 2 + 1


# --- processes ---

SLOW = """
import sys, time
from glassformer.config.sections import DataSettings
from glassformer.data.io import source, survey
source.GROUP, survey.MIN_CACHED_BYTES, survey.SETTLED = 500, 100, 0.0
count, real = [], source.text_blocks
def read(path, encoding):
    count.append(path.name)
    time.sleep(0.1)
    return real(path, encoding)
opened = source.open_source(sys.argv[1], DataSettings())
source.text_blocks = read
print("ready", flush=True)
sys.stdin.readline()
print(len(count), survey.survey(opened).fingerprint, len(count))
"""


def test_processes_share_the_files(corpus: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW, str(corpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=300)[0] for process in processes]
    counts = [int(answer.split()[-1]) for answer in answers]
    assert len({answer.split()[1] for answer in answers}) == 1
    assert sum(counts) == FILES, "each file is read once"
    assert min(counts) > 0
