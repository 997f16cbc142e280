"""Large texts in shards: whole ones are kept, whatever ends the packing, and are the same in the end."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from glassformer.config import parts as part_files
from glassformer.config.messages import listening
from glassformer.config.sections import DataSettings, TokenizerSettings
from glassformer.data.io import source as source_module
from glassformer.data.io.source import Source
from glassformer.data.io.survey import survey
from glassformer.data.packing import packer as entries
from glassformer.data.packing import packer as packing
from glassformer.data.packing.store import Shards, Tokens, pack
from glassformer.data.split.documents import TextPart, split_texts, whole_text
from glassformer.text.tokenizer import Roles, Tokenizer

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "nine", "red", "birds"]
_random = Random(0)
TEXTS = [" ".join(_random.choices(WORDS, k=_random.randrange(1, 60))) for _ in range(97)]
TOKENIZER = Tokenizer.train(TEXTS, TokenizerSettings(kind="word"))


class Counting:
    """A tokenizer that counts the characters it was given, and may be interrupted."""

    def __init__(self, most: int | None = None) -> None:
        self.hash, self.vocab_size = TOKENIZER.hash, TOKENIZER.vocab_size
        self.start, self.end, self.unk = TOKENIZER.start, TOKENIZER.end, TOKENIZER.unk
        self.characters = 0
        self.most = most

    def encode_batch(self, texts: list[str]) -> list[Any]:
        if self.most is not None and self.characters + sum(map(len, texts)) > self.most:
            raise KeyboardInterrupt
        self.characters += sum(map(len, texts))
        return TOKENIZER.encode_batch(texts)


def part_of(texts: list[str] = TEXTS) -> TextPart:
    return whole_text(survey(Source("rows", lambda: (iter([text]) for text in texts))), "train")


def packed(part: TextPart, tokenizer: Any = TOKENIZER) -> Tokens:
    return pack(part, tokenizer)


def files(folder: Path, ending: str = "") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(f"*{ending}"))}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Pieces of 40 characters, encoded 90 together, 400 and a few to a shard."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source_module, "CHUNK", 40)
    monkeypatch.setattr(packing, "TOGETHER", 90)
    monkeypatch.setattr(packing, "SHARD", 400)
    yield tmp_path / "cache" / "tokens"
    assert not list(tmp_path.rglob("*.part")), "something half-written was left behind"


def in_one_file(part: TextPart, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tokens:
    with monkeypatch.context() as patch:
        patch.setattr(packing, "SHARD", 2**26)
        patch.setenv("GLASSFORMER_CACHE", str(tmp_path / "another"))
        return packed(part)


def ids_of(tokens: Tokens) -> list[int]:
    return np.asarray(tokens.ids).tolist()


def test_shards_hold_what_one_file_holds(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, many = in_one_file(part_of(), monkeypatch, tmp_path), packed(part_of())
    assert isinstance(one.ids, np.memmap)
    assert isinstance(many.ids, Shards)
    assert ids_of(many) == ids_of(one)
    assert many.ids.dtype == one.ids.dtype
    assert [(x.bytes, x.characters, x.documents, x.unknown) for x in (one, many)] == [
        (one.bytes, one.characters, one.documents, one.unknown)
    ] * 2
    sizes = [len(data) // 2 for data in files(cache, ".ids").values()]
    assert len(sizes) > 10
    assert all(60 <= size < 150 for size in sizes)
    assert ids_of(packed(part_of())) == ids_of(one)


def test_a_stretch_of_one_text_in_shards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its pieces are cut where the part begins and ends."""
    text = "\n".join(TEXTS)
    parts = split_texts(Source("text", lambda: iter([iter([text])])), DataSettings(test_fraction=0.1)).parts
    for part in parts.values():
        assert ids_of(packed(part)) == ids_of(in_one_file(part, monkeypatch, tmp_path))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.95])
def test_a_packing_goes_on_after_its_last_whole_shard(cache: Path, share: float) -> None:
    characters = sum(map(len, TEXTS))
    packed(part_of())
    expected = files(cache, ".ids")
    for path in cache.iterdir():
        path.unlink()
    stopped = Counting(int(share * characters))
    with pytest.raises(KeyboardInterrupt):
        packed(part_of(), stopped)
    kept = files(cache, ".ids")
    assert kept == {name: expected[name] for name in kept}
    assert bool(kept) is (share > 0.1)
    again, lines = Counting(), list[str]()
    with listening(lines.append):
        packed(part_of(), again)
    assert files(cache, ".ids") == expected
    assert again.characters < characters or not kept
    assert stopped.characters + again.characters < characters + 1200  # the shard that was not whole is made again
    whole = f"{len(kept)} of {len(expected)} shards are whole"
    said = f"packing of the train part continues: {whole}"
    assert lines == [said] * bool(kept)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize("ending", ["ids", "json"])
def test_a_damaged_shard_alone_is_made_again(cache: Path, damage: Any, ending: str) -> None:
    good = ids_of(packed(part_of()))
    expected = files(cache, ".ids")
    damage(next(cache.glob(f"*.3.{ending}")))
    again = Counting()
    assert ids_of(packed(part_of(), again)) == good
    assert files(cache, ".ids") == expected
    assert 0 < again.characters < 1200
    nothing = Counting()
    packed(part_of(), nothing)
    assert nothing.characters == 0


def test_checksums_are_compared_when_a_file_has_changed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many files; that of one alone is compared each time."""
    packed(part_of())
    compared: list[int] = []
    real = entries._checksum
    monkeypatch.setattr(entries, "_checksum", lambda ids: compared.append(len(ids)) or real(ids))
    packed(part_of())
    assert compared == []
    os.utime(next(cache.glob("*.3.ids")))
    packed(part_of())
    assert len(compared) == 1
    packed(part_of())
    assert len(compared) == 1, "what was found whole is not compared again"
    packed(part_of(TEXTS[:1]))
    packed(part_of(TEXTS[:1]))
    assert len(compared) == 3


def test_two_parts_that_have_the_same_tokens_with_other_uses_are_two(cache: Path) -> None:
    start, end = TOKENIZER.start, TOKENIZER.end
    assert packed(part_of(["cat"])).ids[0] == start
    other = Tokenizer.from_json(TOKENIZER.to_json(), roles=Roles(start=None, end=end, unk=TOKENIZER.unk))
    assert ids_of(packed(part_of(["cat"]), other)) == ids_of(packed(part_of(["cat"])))[1:]


def test_memory_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """One long document, made as it is read: four times the text, in four times the shards, in as much memory."""
    monkeypatch.setattr(source_module, "CHUNK", 5_000)
    monkeypatch.setattr(packing, "TOGETHER", 10_000)
    monkeypatch.setattr(packing, "SHARD", 10_000)

    def peak(blocks: int) -> tuple[int, int]:
        text = " ".join(WORDS * 90)
        part = whole_text(survey(Source("made", lambda: iter([iter([text] * blocks)]))), "train")
        tracemalloc.start()
        count = len(packed(part))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found, count

    peak(5)  # what the first one imports and keeps
    small, large = peak(50), peak(200)
    assert large[1] > 3.9 * small[1] > 100_000
    assert large[0] < 1.2 * small[0]


def test_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "REPORT_SECONDS", 0.0)
    lines: list[str] = []
    with listening(lines.append):
        packed(part_of())
    assert lines == [], "a small part is packed at once"
    monkeypatch.setattr(packing, "LARGE", 100)
    with listening(lines.append):
        packed(part_of([*TEXTS, "more"]))
    assert len(lines) > 10
    shares = [int(line.split("%")[0].split()[-1]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert lines[-1] == "packing the train part: 100% of 0 MB"


def test_what_a_killed_process_left_half_written_goes_in_time(cache: Path) -> None:
    cache.mkdir(parents=True)
    old, new = (cache / f".{name}.{'0' * 6}-7.part" for name in "ab")  # of another machine
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - part_files.FORGOTTEN - 60))
    packed(part_of())
    assert not old.exists()
    assert new.exists()
    new.unlink()


KILLED = """
import sys, time
sys.path.insert(0, {here!r})
import test_packing as tests
from glassformer.data.packing import packer as packing, store
from glassformer.data.io import source
source.CHUNK, packing.TOGETHER, packing.SHARD = 40, 90, 400
class Slow(tests.Counting):
    def encode_batch(self, texts):
        if self.characters > {after}:
            print("now", flush=True)
            time.sleep(600)
        return super().encode_batch(texts)
tests.packed(tests.part_of(), Slow())
"""


def test_a_killed_process_leaves_its_whole_shards(cache: Path) -> None:
    packed(part_of())
    expected = files(cache, ".ids")
    for path in cache.iterdir():
        path.unlink()
    characters = sum(map(len, TEXTS))
    code = KILLED.format(here=str(Path(__file__).parent), after=characters // 2)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    kept = files(cache, ".ids")
    assert 4 < len(kept) < len(expected)
    again = Counting()
    packed(part_of(), again)
    assert files(cache, ".ids") == expected
    assert again.characters < 0.6 * characters
    assert not list(cache.glob("*.part")), "what it was writing is swept"
