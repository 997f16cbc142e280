import errno
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.config.errors import GlassformerError
from glassformer.config.messages import listening
from glassformer.config.sections import TOKENIZER_KINDS, TokenizerSettings
from glassformer.data.cache import cache_folders
from glassformer.data.io import source as source_module
from glassformer.data.io.source import Source
from glassformer.data.io.survey import survey
from glassformer.data.packing import packer as packing
from glassformer.data.packing.store import Tokens, pack
from glassformer.data.split.documents import TextPart, whole_text
from glassformer.text.tokenizer import Tokenizer

TEXTS = ["the cat sat\n\non  the mat, \n  and so\nit goes" * 7, "a", "été €\n" * 11]


class Letters:
    """A tokenizer small enough to see through: a letter's id is its place in the alphabet."""

    def __init__(self, vocab_size: int = 31, unk: int | None = 3) -> None:
        self.vocab_size, self.hash = vocab_size, f"letters {vocab_size}"
        self.pad, self.start, self.end, self.unk = 0, 1, 2, unk
        self.calls = 0

    def encode_batch(self, texts: list[str]) -> list[Any]:
        self.calls += 1
        return [np.array([ord(x) - 93 if "a" <= x <= "z" else 3 for x in text], np.int32) for text in texts]


def part_of(*texts: str) -> TextPart:
    return whole_text(survey(Source("rows", lambda: (iter([text]) for text in texts))), "train")


def packed(part: TextPart, tokenizer: Any) -> Tokens:
    with listening(lambda line: pytest.fail(line)):
        return pack(part, tokenizer)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "tokens"
    assert not list(tmp_path.rglob("*.part")), "something half-written was left behind"


def test_documents_stand_between_start_and_end() -> None:
    tokens = packed(part_of("abc", " ", "d é"), Letters())
    assert tokens.ids.tolist() == [1, 4, 5, 6, 2, 1, 7, 3, 3, 2]
    assert isinstance(tokens.ids, np.memmap)
    assert (len(tokens), tokens.documents, tokens.characters, tokens.bytes, tokens.unknown) == (10, 2, 6, 7, 2)


def test_a_document_in_many_pieces_starts_and_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "CHUNK", 3)
    monkeypatch.setattr(packing, "TOGETHER", 7)
    tokens = packed(part_of("abcdefghijk", "lmn"), Letters())
    assert tokens.ids.tolist() == [1, *range(4, 15), 2, 1, 15, 16, 17, 2]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(31, np.uint16), (65_536, np.uint16), (65_537, np.uint32)])
def test_the_smallest_numbers_that_hold_the_vocabulary(vocab_size: int, dtype: type) -> None:
    tokens = packed(part_of("abc"), Letters(vocab_size))
    assert tokens.ids.dtype == dtype
    assert tokens.ids.tolist() == [1, 4, 5, 6, 2]


def test_without_unk_none_is_unknown() -> None:
    assert packed(part_of("a b"), Letters(unk=None)).unknown == 0


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_pieces_change_no_token(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    size = 300 if kind == "bpe" else None
    tokenizer = Tokenizer.train(TEXTS, TokenizerSettings(kind=kind, vocab_size=size))
    at_once = packed(part_of(*TEXTS), tokenizer).ids.tolist()
    expected = [[tokenizer.start, *tokenizer.encode(text), tokenizer.end] for text in TEXTS]
    assert at_once == list(itertools.chain(*expected))
    monkeypatch.setattr(source_module, "CHUNK", 19)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "another"))
    assert packed(part_of(*TEXTS), tokenizer).ids.tolist() == at_once


def test_the_second_time_nothing_is_encoded(cache: Path) -> None:
    tokenizer = Letters()
    first = packed(part_of(*TEXTS), tokenizer)
    again = packed(part_of(*TEXTS), tokenizer)
    assert tokenizer.calls == 1
    assert again.ids.tolist() == first.ids.tolist()
    assert (again.bytes, again.characters, again.documents, again.unknown) == (
        first.bytes, first.characters, first.documents, first.unknown,
    )  # fmt: skip
    assert sorted(path.suffix for path in cache.iterdir()) == [".ids", ".json"]
    packed(part_of(*TEXTS, "more"), tokenizer)
    packed(part_of(*TEXTS), Letters(37))
    assert len(list(cache.iterdir())) == 6


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0\0")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("suffix", [".ids", ".json"])
@pytest.mark.parametrize("damage", [cut, lengthen, flip, empty, Path.unlink])
def test_a_damaged_entry_is_made_again(cache: Path, suffix: str, damage: Any) -> None:
    tokenizer = Letters()
    good = packed(part_of(*TEXTS), tokenizer).ids.tolist()
    damage(next(cache.glob(f"*{suffix}")))
    assert packed(part_of(*TEXTS), tokenizer).ids.tolist() == good
    assert tokenizer.calls == 2
    packed(part_of(*TEXTS), tokenizer)
    assert tokenizer.calls == 2


@pytest.mark.parametrize("values", [{"tokens": 7}, {"unknown": 0}, {"key": "another"}, {"extra": 1}])
def test_an_entry_that_was_changed_is_not_trusted(cache: Path, values: dict[str, Any]) -> None:
    tokenizer = Letters()
    packed(part_of("a b"), tokenizer)
    path = next(cache.glob("*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    assert packed(part_of("a b"), tokenizer).unknown == 1
    assert tokenizer.calls == 2


def test_an_entry_under_a_wrong_name_is_not_trusted(cache: Path) -> None:
    packed(part_of("abc"), Letters())
    wrong = {path.suffix: path.read_bytes() for path in cache.iterdir()}
    packed(part_of("abd"), Letters())
    for path in cache.iterdir():
        path.write_bytes(wrong[path.suffix])
    assert packed(part_of("abd"), Letters()).ids.tolist() == [1, 4, 5, 7, 2]


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    lines: list[str] = []
    with listening(lines.append):
        tokens = pack(part_of("abc"), Letters())  # type: ignore[arg-type]
    assert tokens.ids.tolist() == [1, 4, 5, 6, 2]
    assert len(lines) == 1
    assert lines[0].startswith(f"cannot write to the cache {tmp_path / 'file' / 'tokens'} (Not a directory)")
    assert not list((tmp_path / "temporary").iterdir())


def test_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(GlassformerError) as caught:
        packed(part_of("abc"), Letters())
    assert str(caught.value) == f"cannot keep the tokens of the train part in {cache}: No space left on device"
    assert not list(cache.iterdir())


def test_an_interruption_leaves_nothing_behind(cache: Path) -> None:
    class Interrupted(Letters):
        def encode_batch(self, texts: list[str]) -> list[Any]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        packed(part_of("abc"), Interrupted())
    assert not list(cache.iterdir())


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("GLASSFORMER_CACHE", "/own")
    assert cache_folders() == [Path("/own")]
    monkeypatch.setenv("GLASSFORMER_CACHE", os.pathsep.join(["/one", "~/two", ""]))
    assert cache_folders() == [Path("/one"), Path("/home/someone/two")]
    monkeypatch.delenv("GLASSFORMER_CACHE")
    assert cache_folders() == [Path("/xdg/glassformer")]
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folders() == [Path("/home/someone/.cache/glassformer")]


def test_who_has_no_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a number that no file of users knows, in a container."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("GLASSFORMER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    said: list[str] = []
    assert cache_folders() == []
    with listening(said.append):
        assert len(pack(part_of("abc"), Letters())) == 5
    assert said == ["there is no home folder for a cache: tokens go to a temporary folder, this time only"]
