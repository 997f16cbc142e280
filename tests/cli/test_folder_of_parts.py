"""Folders of parts: as each file alone, in shards, resumed, and never mixed with what another run said."""

import gzip
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

import glassformer as gf
from glassformer.verbs.parts.folder import PartsFailed
from helpers.running import Command, one_line
from helpers.tables import opinions, read_csv, write_table
from helpers.translating import mirrored

ROWS = {"a.csv": 11, "b.jsonl": 7, "c.parquet": 23, "d.tsv": 5, "e.csv.gz": 3, "year=2026/f.csv": 13}
"""The rows of each part."""


def texts_of(count: int, seed: int) -> list[str]:
    return [text for text, _ in opinions(count, seed=seed)]


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A folder with a part of each kind, and files that are none."""
    folder = tmp_path / "parts"
    (folder / "year=2026").mkdir(parents=True)
    for seed, (name, count) in enumerate(ROWS.items()):
        rows = list(enumerate(texts_of(count, seed)))
        if name.endswith("parquet"):
            table = pyarrow.table({"id": [row for row, _ in rows], "text": [text for _, text in rows]})
            parquet.write_table(table, folder / name, row_group_size=5)
        elif name.endswith("jsonl"):
            (folder / name).write_text("".join(json.dumps({"id": row, "text": text}) + "\n" for row, text in rows))
        elif name.endswith("gz"):
            (folder / name).write_bytes(
                gzip.compress("".join(["id,text\n", *(f"{n},{t}\n" for n, t in rows)]).encode())
            )
        else:
            write_table(folder / name, rows, ("id", "text"))
    (folder / "_SUCCESS").write_text("")
    (folder / "notes.md").write_text("not a part")
    return folder


def written(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, its hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def entries(folder: Path) -> list[dict[str, Any]]:
    return [entry for path in sorted(folder.glob("manifest-*")) for entry in json.loads(path.read_text())["parts"]]


def outputs(folder: Path) -> dict[str, bytes]:
    return {name: held for name, held in written(folder).items() if not name.startswith("manifest")}


def test_each_part_is_as_its_file_alone(command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    code, out, err = command("predict", runs / "two", "--file", "parts", "--out", "judged", "--json")
    assert code == 0
    assert err.splitlines()[0] == "left out: 1 file of other kinds (notes.md)"
    assert err.splitlines()[-1].startswith("62 rows of 6 parts written to judged in ")
    assert err.splitlines()[-1].endswith(" rows/s")
    told = json.loads(out)
    assert (told["rows"], told["parts"], told["skipped"], told["failed"]) == (62, 6, 0, [])
    assert told["rows_per_second"] == pytest.approx(62 / told["seconds"])
    names = {name: name.removesuffix(".gz") for name in ROWS}
    assert outputs(tmp_path / "judged").keys() == {*names.values()}
    for name, output in names.items():
        alone = tmp_path / f"alone{Path(output).suffix}"
        assert command("predict", runs / "two", "--file", parts / name, "--out", alone)[0] == 0
        assert (tmp_path / "judged" / output).read_bytes() == alone.read_bytes(), name
    assert {entry["part"]: entry["rows"] for entry in entries(tmp_path / "judged")} == ROWS


def test_parquet_keeps_its_types_rows_and_order(
    command: Command, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.data.io.table.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("glassformer.verbs.added_columns.GROUP_BYTES", 1000)
    (tmp_path / "parts").mkdir()
    texts = [*texts_of(30, 3), "", "  "]
    times = pyarrow.array([10**18 + row for row in range(32)], pyarrow.timestamp("ns"))
    columns = {"n": list(range(32)), "text": texts, "when": times, "many": [[row, None] for row in range(32)]}
    table = pyarrow.table(columns)
    parquet.write_table(table, tmp_path / "parts" / "a.parquet", row_group_size=5)
    assert command("predict", runs / "two", "--file", "parts", "--out", "judged", "--probabilities")[0] == 0
    file = parquet.ParquetFile(tmp_path / "judged" / "a.parquet")
    found = file.read()
    assert file.num_row_groups > 1
    assert found.select(table.column_names).equals(table)
    assert found.column_names[4:] == ["predicted", "probability", "p_bad", "p_good", "unknown_text"]
    alone = gf.load(runs / "two", "cpu").predict(texts[:30])
    assert found["predicted"].to_pylist() == [one.label for one in alone] + [None, None]
    assert found["p_bad"].to_pylist()[:30] == pytest.approx([one.probabilities["bad"] for one in alone], abs=1e-5)
    command("predict", runs / "rated", "--file", "parts", "--out", "rated")
    assert parquet.read_table(tmp_path / "rated" / "a.parquet").schema.field("predicted").type == pyarrow.float64()
    command("predict", runs / "two", "--file", "parts", "--out", "as-csv", "--format", "csv")
    assert [row["n"] for row in read_csv((tmp_path / "as-csv" / "a.csv").read_text())] == [str(n) for n in range(32)]


def test_texts_become_a_table_of_texts(command: Command, runs: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "in.csv", [("7", "a soup")], ("n", "text"))
    assert command("predict", runs / "two", "--file", "in.csv", "--out", "out.parquet")[0] == 0
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist()[0].items() >= {("n", "7"), ("text", "a soup")}


@pytest.mark.parametrize("kind", ["jsonl", "npy"])
def test_embed(kind: str, command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    (parts / "g.txt").write_text("a soup\nbad tea\n")
    assert command("embed", runs / "two", "--file", "parts", "--out", "vectors", "--format", kind)[0] == 0
    names = {Path(name.removesuffix(".gz")).with_suffix(f".{kind}") for name in (*ROWS, "g.txt")}
    assert outputs(tmp_path / "vectors").keys() == set(map(str, names))
    expected = gf.load(runs / "two", "cpu").embed(["a soup", "bad tea"])
    if kind == "npy":
        found = np.load(tmp_path / "vectors" / "g.npy")
        assert np.load(tmp_path / "vectors" / "c.npy").shape == (23, found.shape[1])
    else:
        lines = [json.loads(line) for line in (tmp_path / "vectors" / "g.jsonl").read_text().splitlines()]
        assert [line["text"] for line in lines] == ["a soup", "bad tea"]
        found = np.array([line["vector"] for line in lines])
    np.testing.assert_allclose(found, [one.vector for one in expected], atol=1e-6)


def test_translate(command: Command, translators: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    words = [word for word, _ in mirrored(9, seed=4)]
    (tmp_path / "parts" / "a.txt").write_text("\n".join([*words, "", "abc"]) + "\n")
    write_table(tmp_path / "parts" / "b.csv", [(str(n), word) for n, word in enumerate([*words, ""])], ("n", "source"))
    table = pyarrow.table({"translation": [1] * 9, "source": words})
    parquet.write_table(table, tmp_path / "parts" / "c.parquet", row_group_size=2)
    code, _, err = command("translate", translators / "gru", "--file", "parts", "--out", "said", "--beam", "2")
    assert code == 0
    assert "b.csv: 1 row without text, and so without a translation" in err
    expected = [one.text for one in gf.load(translators / "gru", "cpu").translate([*words, "", "abc"], beam=2)]
    assert (tmp_path / "said" / "a.txt").read_text().split("\n") == [*expected, ""]
    rows = read_csv((tmp_path / "said" / "b.csv").read_text())
    assert [(row["source"], row["translation"]) for row in rows] == list(zip([*words, ""], expected[:10], strict=True))
    found = parquet.read_table(tmp_path / "said" / "c.parquet")
    assert found["translation_by_model"].to_pylist() == expected[:9]
    assert found.drop(["translation_by_model"]).equals(table)
    code, out, _ = command("translate", translators / "gru", "--file", "parts/b.csv", "--beam", "2")  # as one file
    assert read_csv(out) == rows
    code, _, err = command("translate", translators / "gru", "--file", "parts/b.csv", "--nbest", "2")
    assert (code, "a row of a table has one translation" in one_line(err)) == (2, True)


def test_a_part_without_rows_has_none_afterwards(command: Command, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.csv").write_text("id,text\n")
    write_table(tmp_path / "parts" / "b.csv", [("1", "a soup")], ("id", "text"))
    table = pyarrow.table({"id": pyarrow.array([], pyarrow.int64()), "text": pyarrow.array([], pyarrow.string())})
    parquet.write_table(table, tmp_path / "parts" / "c.parquet")
    assert command("predict", runs / "two", "--file", "parts", "--out", "judged")[0] == 0
    assert (tmp_path / "judged" / "a.csv").read_text() == "id,text,predicted,probability,unknown_text\n"
    found = parquet.read_table(tmp_path / "judged" / "c.parquet")
    assert (found.num_rows, found.schema.field("id").type) == (0, pyarrow.int64())
    assert command("embed", runs / "two", "--file", "parts", "--out", "vectors", "--format", "npy")[0] == 0
    width = np.load(tmp_path / "vectors" / "b.npy").shape[1]
    assert np.load(tmp_path / "vectors" / "c.npy").shape == (0, width)
    assert {entry["part"]: entry["rows"] for entry in entries(tmp_path / "vectors")} == {
        "a.csv": 0,
        "b.csv": 1,
        "c.parquet": 0,
    }


# --- shards ---


def test_shards_make_the_whole(command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    command("predict", runs / "two", "--file", "parts", "--out", "whole")
    for shard in ("3/3", "1/3", "2/3"):
        assert command("predict", runs / "two", "--file", "parts", "--out", "shards", "--shard", shard)[0] == 0
    assert outputs(tmp_path / "shards") == outputs(tmp_path / "whole")
    manifests = [json.loads(path.read_text()) for path in sorted((tmp_path / "shards").glob("manifest-*"))]
    assert [[entry["part"] for entry in one["parts"]] for one in manifests] == [
        [sorted(ROWS)[place] for place in (number, number + 3)] for number in range(3)
    ]
    code, _, err = command("predict", runs / "two", "--file", "parts", "--out", "shards", "--shard", "2/2")
    assert err.splitlines()[-1] == "0 rows of 0 parts written to shards; 3 parts done before"
    (tmp_path / "shards" / "a.csv").unlink()
    code, out, _ = command("predict", runs / "two", "--file", "parts", "--out", "shards", "--json")
    assert {name: json.loads(out)[name] for name in ("parts", "skipped", "rows")} == {
        "parts": 1,
        "skipped": 5,
        "rows": 11,
    }
    assert outputs(tmp_path / "shards") == outputs(tmp_path / "whole")
    code, _, err = command("predict", runs / "two", "--file", "parts", "--out", "shards", "--shard", "9/9")
    assert (code, err.splitlines()[-1]) == (0, "0 rows of 0 parts written to shards")


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1/0", "3", "a/b", "-1/3", "1/3/5", ""])
def test_a_shard_that_cannot_be(shard: str, command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    code, out, err = command("predict", runs / "two", "--file", "parts", "--out", "judged", f"--shard={shard}")
    assert (code, out) == (2, "")
    assert one_line(err).startswith(f"glassformer: --shard {shard}: ")
    assert not (tmp_path / "judged").exists()


IN_THERE = "is in the folder that is read: write to another"
NOT_OURS = "full is not empty and holds no answers of ours: name another --out"
ONE_FILE = "is for a folder of parts, and parts/a.csv is one file: split it into parts"
REFUSED = [
    ("--file parts/a.csv --out b.csv --shard 1/2", f"--shard {ONE_FILE}"),
    ("--file parts/a.csv --out b.csv --on ray", f"--on {ONE_FILE}"),
    ("--file parts/a.csv --out b.csv --overwrite", f"--overwrite {ONE_FILE}"),
    ("--file parts/a.csv --format csv", "--format is for a folder of parts: of one file, the name of --out says it"),
    ("text --overwrite", "--shard, --on, --jobs and --overwrite go with --file FOLDER"),
    ("--file parts", "parts is a folder of parts: --out names the folder to write to"),
    ("--file parts --out parts/a.csv", "parts/a.csv is a file: name a folder with --out"),
    ("--file parts --out parts", f"--out parts {IN_THERE}"),
    ("--file parts --out parts/judged", f"--out parts/judged {IN_THERE}"),
    ("--file empty --out judged", "empty holds no parts: their names end in .parquet, .jsonl, .csv, .tsv, .txt"),
    ("--file parts --out full", NOT_OURS),
    ("--file parts --out full --overwrite", NOT_OURS),
    (
        "--file parts --out new --overwrite --shard 1/2",
        "--overwrite would take away what other shards write: name another --out",
    ),
    ("--file parts --out new --jobs 2", "--jobs is for --on ray; on one machine, give each process a --shard"),
    (
        "--file twice --out new",
        "a.csv, a.txt would all be written as a.csv: rename them, or give them folders of their own",
    ),
]


@pytest.mark.parametrize(("options", "line"), REFUSED)
def test_what_is_refused(options: str, line: str, command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    for name in ("empty", "full", "twice"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    write_table(tmp_path / "twice" / "a.csv", [("soup",)], ("text",))
    (tmp_path / "twice" / "a.txt").write_text("soup\n")
    code, _, err = command("predict", runs / "two", *options.split())
    assert (code, err.splitlines()[-1]) == (2, f"glassformer: {line}")
    assert sorted(os.listdir(tmp_path / "full")) == ["mine.txt"]
    assert not (tmp_path / "new").exists()


# --- what is there already ---


def test_other_answers_are_not_mixed(command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    words = ["--file", "parts", "--out", "judged"]
    command("predict", runs / "two", *words)
    before = written(tmp_path / "judged")
    for other, why in (
        (["predict", runs / "three", *words], "with other weights"),
        (["predict", runs / "two", *words, "--probabilities"], "with probabilities False"),
        (["predict", runs / "two", *words, "--shard", "1/2", "--text", "id"], "with text None"),
        (["embed", runs / "two", *words], "by predict"),
    ):
        code, _, err = command(*other)
        assert code == 2
        assert f"judged was written {why}" in err.splitlines()[-1]
        assert err.endswith("manifest-1-of-1.json says: name another --out, or replace it with --overwrite\n")
        assert written(tmp_path / "judged") == before
    assert command("embed", runs / "two", *words, "--overwrite")[0] == 0
    assert {Path(name).suffix for name in outputs(tmp_path / "judged")} == {".jsonl"}
    assert entries(tmp_path / "judged")[0]["output"] == "a.jsonl"
    command("embed", runs / "two", "--file", "parts", "--out", "fresh")
    assert outputs(tmp_path / "judged") == outputs(tmp_path / "fresh")


def test_what_is_torn_or_changed_is_done_again(command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    words = ["predict", runs / "two", "--file", "parts", "--out", "judged"]
    command(*words)
    whole = written(tmp_path / "judged")
    torn = tmp_path / "judged" / "a.csv"
    torn.write_bytes(torn.read_bytes()[:-9])
    turned = tmp_path / "judged" / "c.parquet"
    turned.write_bytes(bytes([turned.read_bytes()[0] ^ 1]) + turned.read_bytes()[1:])
    code, out, err = command(*words, "--json")
    assert (code, json.loads(out)["parts"], json.loads(out)["skipped"]) == (0, 2, 4)
    assert "a.csv: it, or what was written of it, has changed since: it is done again" in err
    assert written(tmp_path / "judged") == whole
    os.utime(parts / "b.jsonl")  # as after a copy: its bytes are the same
    assert json.loads(command(*words, "--json")[1])["skipped"] == 6
    (parts / "b.jsonl").write_text('{"text": "a soup"}\n')
    assert json.loads(command(*words, "--json")[1])["rows"] == 1
    assert (tmp_path / "judged" / "b.jsonl").read_text().count("\n") == 1


def test_a_part_that_cannot_be_read(command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    (parts / "b.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    (parts / "c.parquet").write_text("no parquet")
    words = ["predict", runs / "two", "--file", "parts", "--out", "judged"]
    code, out, err = command(*words, "--json")
    assert (code, json.loads(out)["failed"], json.loads(out)["parts"]) == (1, ["b.jsonl", "c.parquet"], 4)
    lines = [line for line in err.splitlines() if ": not read: " not in line]
    assert lines[1].startswith("b.jsonl: not done: parts/b.jsonl, line 2: not JSON")
    assert lines[2].startswith("c.parquet: not done: parts/c.parquet is damaged")
    assert lines[-1].startswith(
        "glassformer: 2 of 6 parts could not be read (b.jsonl, c.parquet): parts/b.jsonl, line 2"
    )
    assert {entry["part"] for entry in entries(tmp_path / "judged")} == ROWS.keys() - {"b.jsonl", "c.parquet"}
    code, _, err = command(*words, "-q")
    assert (code, len(err.splitlines())) == (1, 1)
    with pytest.raises(PartsFailed) as failed:
        gf.predict_file(runs / "two", parts, tmp_path / "judged")
    assert failed.value.written.skipped == 4
    (parts / "c.parquet").unlink()
    (parts / "b.jsonl").write_text('{"text": "fine"}\n')
    assert command(*words)[0] == 0


def test_a_damaged_manifest(command: Command, runs: Path, parts: Path, tmp_path: Path) -> None:
    words = ["predict", runs / "two", "--file", "parts", "--out", "judged"]
    command(*words)
    path, mine = tmp_path / "judged" / "manifest-1-of-1.json", tmp_path / "mine.csv"
    mine.write_text("mine")
    held = json.loads(path.read_text())
    held["parts"][0]["output"] = "../mine.csv"
    path.write_text(json.dumps(held))
    code, _, err = command(*words, "--overwrite")
    damaged = "is damaged: restore it from a copy, or name another --out ('../mine.csv' is outside of its folder)"
    assert (code, err.splitlines()[-1]) == (1, f"glassformer: judged/manifest-1-of-1.json {damaged}")
    assert mine.read_text() == "mine"


def test_without_ray(
    command: Command, runs: Path, parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = command("predict", runs / "two", "--file", "parts", "--out", "judged", "--on", "ray")
    assert (code, err) == (2, "glassformer: --on ray needs Ray: pip install 'glassformer[ray]'\n")
    assert not (tmp_path / "judged").exists()


def test_from_python(runs: Path, parts: Path, tmp_path: Path) -> None:
    model = gf.load(runs / "two", "cpu")
    done = gf.predict_file(model, parts, tmp_path / "judged", shard="1/2")
    assert (done.parts, done.skipped) == (3, 0)
    done = gf.predict_file(runs / "two", str(parts), str(tmp_path / "judged"), device="cpu")
    assert (done.parts, done.skipped) == (3, 3)
    assert sum(entry["rows"] for entry in entries(tmp_path / "judged")) == 62
    assert gf.embed_file(model, parts / "a.csv", tmp_path / "a.npy").rows == 11
    with pytest.raises(gf.GlassformerError, match="unknown format 'xml'"):
        gf.predict_file(model, parts, tmp_path / "other", format="xml")
    with pytest.raises(gf.GlassformerError, match="learned classification, not to translate"):
        gf.translate_file(model, parts, tmp_path / "other")
    shutil.rmtree(tmp_path / "judged")
    with pytest.raises(gf.GlassformerError, match="--file is for runs that learned labels"):
        gf.predict_file(runs / "writer", parts, tmp_path / "judged")
    assert not (tmp_path / "judged").exists()
