import errno
import gzip
import json
import os
from pathlib import Path
from random import Random

import pytest

from glassformer.config.errors import DataError, Misuse
from glassformer.config.sections import DataSettings
from glassformer.data.datasets.dataset import Dataset
from glassformer.data.io import source as source_module
from glassformer.data.io.reading import BLOCK
from glassformer.data.io.source import CHUNK, chunks_of, open_source

PLAIN = DataSettings()


def documents(path: Path | str, settings: DataSettings = PLAIN) -> list[str]:
    """The chunks put together again, which holds their marks to their promise."""
    found: list[str] = []
    open_document = False
    for chunk in open_source(str(path), settings).chunks():
        assert chunk.starts is not open_document
        if chunk.starts:
            found.append("")
        found[-1] += chunk.text
        open_document = not chunk.ends
    assert not open_document
    return found


def refused(path: Path | str, settings: DataSettings = PLAIN) -> str:
    with pytest.raises(DataError) as caught:
        documents(path, settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


def write(path: Path, content: bytes | str) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a", "a.txt.gz"])
def test_a_file_is_one_document(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, "\ufeffone\r\n\r\ntwo\rthree\u2028four\n")
    source = open_source(str(file), PLAIN)
    assert documents(file) == ["one\n\ntwo\nthree\u2028four\n"]
    assert list(source.chunks()) == list(source.chunks())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    file = write(tmp_path / "a.txt", "déjà vu\r\n".encode(encoding))
    assert documents(file, DataSettings(encoding=encoding)) == ["déjà vu\n"]


def test_newlines_and_characters_that_straddle_blocks(tmp_path: Path) -> None:
    text = "x" * (BLOCK - 1) + "\r\n" + "y" * (BLOCK - 3) + "€" + "z" * (BLOCK - 1) + "\ufeff"
    assert text.encode()[3 * BLOCK :].decode() == "\ufeff"  # only at the beginning is it a byte-order mark
    assert documents(write(tmp_path / "a.txt", text)) == [text.replace("\r\n", "\n")]


def test_a_large_file_comes_in_pieces_cut_at_line_ends(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(250_007))
    file = write(tmp_path / "large.txt", text)
    chunks = list(open_source(str(file), PLAIN).chunks())
    assert [chunk.starts for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    assert [chunk.ends for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert len(chunks) > 2
    assert all(len(chunk.text) <= CHUNK for chunk in chunks)
    assert all(chunk.text.startswith("\nline ") for chunk in chunks[1:])
    assert "".join(chunk.text for chunk in chunks) == text


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("ab cd\nef gh", ["ab cd", "\nef gh"]),
        ("ab cd ef gh", ["ab cd", " ef gh"]),
        ("abcdefghijklm", ["abcdefg", "hijklm"]),
        ("ab  \n\n\n   cd", ["ab", "  \n\n\n  ", " cd"]),
        ("", [""]),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 100])
def test_where_pieces_are_cut(monkeypatch: pytest.MonkeyPatch, text: str, pieces: list[str], block: int) -> None:
    monkeypatch.setattr(source_module, "CHUNK", 7)
    blocks = [text[start : start + block] for start in range(0, len(text), block)]
    assert [chunk.text for chunk in chunks_of(blocks)] == pieces


def test_a_folder_is_its_text_files(tmp_path: Path) -> None:
    (tmp_path / "b" / ".git").mkdir(parents=True)
    for name, content in {
        "b/2.txt": "two", "1.md": "one", "c.gz": "three", "d.jsonl": '{"text": "four"}\n{"text": "five"}',
        ".hidden": "no", "b/.git/x": "no", "b/picture.png": b"\x89PNG\0\0", "packed.gz": b"\0\0", "empty.txt": "",
    }.items():  # fmt: skip
        write(tmp_path / name, content)
    assert documents(tmp_path) == ["one", "two", "three", "four", "five"]
    assert open_source(str(tmp_path), PLAIN).note.endswith("; left out: 2 binary, 1 empty, 1 hidden")


def test_a_folder_of_shards_in_their_order(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    write(tmp_path / "00.jsonl.gz", '{"text": "one"}\n{"text": "two"}\n')
    write(tmp_path / "01.txt.gz", "three")
    parquet.write_table(arrow.table({"text": ["four", "five"], "id": [1, 2]}), tmp_path / "02.parquet")
    write(tmp_path / "03.jsonl", '{"id": 7, "text": "six"}\n')
    write(tmp_path / "04.txt", "seven")
    write(tmp_path / "05.jsonl.zst", b"\x28\xb5\x2f\xfd")
    assert documents(tmp_path) == ["one", "two", "three", "four", "five", "six", "seven"]
    assert open_source(str(tmp_path), PLAIN).note.endswith("to learn labels; left out: 1 packed as .zst")
    assert refused(tmp_path / "05.jsonl.zst") == (
        f"{tmp_path / '05.jsonl.zst'} is packed in a way that is not read here: unpack it, or pack it as .gz"
    )
    damaged = tmp_path / "03.jsonl.gz"
    damaged.write_bytes(gzip.compress(b'{"text": "lost"}\n' * 5000)[:-9])
    assert refused(tmp_path).startswith(f"{damaged} is damaged, or no gzip file: save or download it again (")


def test_a_folder_without_text(tmp_path: Path) -> None:
    write(tmp_path / "a.bin", b"\0\1\2")
    assert refused(tmp_path) == f"no text files in {tmp_path} (left out: 1 binary)"


def test_a_run_is_no_data(tmp_path: Path) -> None:
    write(tmp_path / "glassformer.json", "{}")
    with pytest.raises(Misuse, match="is a glassformer run"):
        open_source(str(tmp_path), PLAIN)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_lines_are_a_document_a_row(tmp_path: Path, name: str) -> None:
    rows = [
        {"text": "one\r\ntwo", "body": "A"},
        {"text": "\u2028", "body": "B"},
        {"text": "x" * (BLOCK + 7), "body": "C"},
    ]
    content = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    file = write(tmp_path / name, content)
    assert documents(file) == ["one\ntwo", "\u2028", "x" * (BLOCK + 7)]
    assert documents(file, DataSettings(text="body")) == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"body": "x", "label": 1}', "line 3: no field 'text'; name another with --text (fields: body, label)"),
        ("{}", "(fields: none)"),
        ('{"text": "x"', "line 3: not JSON"),
        ("[" * 100_000, "line 3: lists and objects nested deeper than can be read"),
        ('["x"]', 'line 3: a row must be an object such as {"text": "…"}, not ["x"]'),
        ('{"text": "\\ud83d"}', "line 3: half a character"),
    ],
)
def test_json_lines_that_cannot_be(tmp_path: Path, row: str, message: str) -> None:
    file = write(tmp_path / "rows.jsonl", '{"text": "fine"}\n\n' + row + "\n")
    assert f"{file}, line 3: " in refused(file)
    assert message in refused(file)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.parquet"])
def test_the_rows_of_any_table_are_documents(tmp_path: Path, name: str) -> None:
    texts = [f"row {number}, which is a text" for number in range(211)]
    if name == "a.parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"n": list(range(211)), "words": texts}), tmp_path / name)
    else:
        comma = "," if ".csv" in name else "\t"
        write(
            tmp_path / name, "\n".join(f'{n}{comma}"{text}"' for n, text in [("n", "words"), *enumerate(texts)]) + "\n"
        )
    assert documents(tmp_path / name) == texts
    assert documents(tmp_path) == texts
    assert documents(tmp_path / name, DataSettings(text="n")) == [str(number) for number in range(211)]
    message = refused(tmp_path / name, DataSettings(text="word"))
    assert message == (
        f"{tmp_path / name}: no column 'word'; did you mean words? (columns: n, words): name one with --text"
    )


def test_a_table_is_read_as_it_streams(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "text\n" + "fine\n" * 1000 + "one,two\n")
    reading = open_source(str(file), PLAIN).documents()
    assert [next(next(reading)) for _ in range(1000)] == ["fine"] * 1000
    with pytest.raises(DataError, match=r"line 1,002: 2 fields"):
        next(reading)


def test_a_json_null_is_a_text_without_words(tmp_path: Path) -> None:
    assert documents(write(tmp_path / "a.jsonl", '{"text": "x"}\n{"text": null}\n{"text": 7}')) == ["x", "", "7"]


def test_a_column_of_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Dataset("add", lambda: [("good", "one"), ("bad", "two")], columns=("label", "text"))
    monkeypatch.setattr(source_module, "open_dataset", lambda spec: made)
    assert documents("add") == documents("add") == ["one", "two"]
    assert documents("add", DataSettings(text="label")) == ["good", "bad"]


@pytest.mark.parametrize("content", ["", " \n\t\r\n", "\ufeff"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.csv"])
def test_empty_files(tmp_path: Path, content: str, name: str) -> None:
    file = write(tmp_path / name, content)
    assert refused(file) == f"{file} is empty: there is no text in it"


@pytest.mark.parametrize(
    "before", ["one\r\ntwo\n", "one\n" + "é" * BLOCK + "\n", "\ufeff\r\n" + "x" * (BLOCK - 6) + "\r"]
)
@pytest.mark.parametrize("broken", [b"\xe9 caf", b"\xe9", b"\xff"])
def test_wrong_encoding_says_where(tmp_path: Path, before: str, broken: bytes) -> None:
    file = write(tmp_path / "a.txt", before.encode() + broken)
    place = f"byte 0x{broken[0]:02X} at position {len(before.encode()):,} (line 3)"
    assert refused(file) == f"{file} is not utf-8: {place}; try --data.encoding latin-1"


def test_another_wrong_encoding(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "é")
    assert refused(file, DataSettings(encoding="ascii")).endswith(
        "is not ascii: byte 0xC3 at position 0 (line 1); try --data.encoding utf-8"
    )


@pytest.mark.parametrize("encoding", ["utf-9", "hex", "", "a\0b"])
def test_unknown_encoding(tmp_path: Path, encoding: str) -> None:
    file = write(tmp_path / "a.txt", "x")
    assert refused(file, DataSettings(encoding=encoding)).startswith(f"unknown encoding '{encoding}'")


def test_binary_data(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", b"one\ntwo\n\xff\0")
    assert refused(file) == (
        f"{file} holds a NUL byte at position 9 (line 3): binary data, or UTF-16 (--data.encoding utf-16)"
    )
    file = write(tmp_path / "b.txt", "one".encode("utf-16"))
    assert refused(file).endswith("or UTF-16 (--data.encoding utf-16)")


PACKED = gzip.compress(bytes(Random(0).choices(range(97, 123), k=10_007)))


@pytest.mark.parametrize(
    "content",
    [PACKED[:-11], PACKED[:-1], PACKED[:997] + bytes([PACKED[997] ^ 8]) + PACKED[998:], PACKED + b"more", b"not gzip"],
    ids=["cut", "cut in its checksum", "flipped", "trailing", "plain"],
)
def test_damaged_gzip(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.txt.gz"
    file.write_bytes(PACKED)
    assert len(documents(file)[0]) == 10_007
    file.write_bytes(content)
    assert refused(file).startswith(f"{file} is damaged, or no gzip file: ")


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    file = write(tmp_path / "a.txt", "x")
    monkeypatch.setattr(Path, "open", denied)  # not chmod: the tests may run as root
    assert refused(file) == f"cannot read {file}: Permission denied"


def test_what_is_not_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "can be read only once" in refused(pipe)
    assert refused(" ").startswith("no data given")


def test_neither_file_nor_data_set(tmp_path: Path) -> None:
    write(tmp_path / "shakespeare.txt", "x")
    missing = tmp_path / "shakespear.txt"
    assert refused(missing) == f"no file '{missing}'; did you mean {tmp_path}/shakespeare.txt?"
    assert "did you mean reverse?" in refused("revers")
    assert "did you mean reverse?" in refused("revers:rows=10")
    assert "no file" in refused("x" * 5000)
    assert "no file" in refused("a\0b")


def test_a_path_that_exists_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert documents("copy:rows=3") != ["a file"]
    assert len(documents("copy:rows=3")) == 3
    write(tmp_path / "copy", "a file")
    assert documents("copy") == ["a file"]
