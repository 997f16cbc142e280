"""Tables, images and mixed examples through the command line; and what people get wrong with them: one line each."""

import json
import re
import shutil
from pathlib import Path

import pytest

from glassformer.verbs.train import train
from helpers.kinds import rows_of, write_bars, write_rows
from helpers.running import Command, one_line
from helpers.tables import opinions, write_table

QUICK = {"training.steps": 3, "training.batch_size": 8, "training.threads": 1}
FEW = ["--steps", "2", "--out", "run"]


@pytest.fixture(scope="session")
def kind_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that no test may change: of rows, of images, of texts with columns, of texts."""
    folder = tmp_path_factory.mktemp("kinds")
    rows = write_rows(folder / "rows.csv", rows_of(60))
    bars = write_bars(folder / "bars", 40)
    texts = opinions(40)
    mixed = write_rows(
        folder / "mixed.csv",
        [{"text": text, "n": place % 7, "label": label} for place, (text, label) in enumerate(texts)],
    )
    with pytest.MonkeyPatch.context() as patch:
        for draw in ("draw_curves", "draw_confusion"):
            patch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)
        train(rows, out=folder / "table", model="linear", **QUICK)
        train(bars, out=folder / "image", model="cnn", **QUICK)
        train(mixed, out=folder / "both", model="average", extra_columns="n", **QUICK)
        train(write_table(folder / "texts.csv", texts), out=folder / "text", model="bag", **QUICK)
    return folder


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    rows = rows_of(30)
    write_rows(tmp_path / "rows.csv", rows)
    write_rows(tmp_path / "word.csv", [*rows[:20], {**rows[20], "height": "12 cm"}, *rows[21:]])
    write_rows(tmp_path / "lacking.csv", [{key: row[key] for key in ("height", "city", "size")} for row in rows])
    write_rows(tmp_path / "constant.csv", [{"height": "3", "city": "Rome", "size": row["size"]} for row in rows])
    write_rows(tmp_path / "unseen.csv", [{**row, "size": "XL"} for row in rows])
    write_table(tmp_path / "texts.csv", opinions(30))
    write_bars(tmp_path / "bars", 20)
    write_bars(tmp_path / "sizes", 20)
    write_bars(tmp_path / "sizes", 2, size=(5, 5))
    write_bars(tmp_path / "torn", 20)
    torn = tmp_path / "torn" / "lying" / "4.png"
    torn.write_bytes(torn.read_bytes()[:40])
    shutil.copytree(tmp_path / "bars" / "lying", tmp_path / "one" / "lying")
    shutil.copytree(tmp_path / "bars" / "lying", tmp_path / "new" / "tilted")
    shutil.copytree(tmp_path / "bars" / "lying", tmp_path / "new" / "lying")
    write_rows(tmp_path / "files.csv", [{"file": "no.png", "label": "ab"[n % 2]} for n in range(20)])
    return tmp_path


TRAINING = {
    "sizes": (["sizes"], ["sizes: lying/", "is 5×5 pixels", "is 11×7", "--data.image_size"]),
    "torn": (["torn"], ["torn/lying/4.png is damaged, or no picture: save it again, or take it out"]),
    "one class": (["one"], ["one are of one class, 'lying'"]),
    "no numbers of folders": (["bars", "--task", "regression"], ["bars holds pictures with a class each", "--image"]),
    "word among numbers": (["word.csv"], ["word.csv, line 22, column 'height'", "'12 cm'", "--extra-columns"]),
    "constant": (["constant.csv"], ["constant.csv has 30 rows, 1 of them different: too few", "1 of them different"]),
    "no such column": (["texts.csv", "--extra-columns", "hour"], ["texts.csv: no column 'hour'", "--extra-columns"]),
    "no such image": (["files.csv", "--image", "file"], ["files.csv, line 2, column 'file': no image at", "no.png"]),
    "bag of rows": (["rows.csv", "--model", "bag"], ["bag does not read tables", "linear", "--model"]),
    "linear on texts": (["texts.csv", "--model", "linear"], ["linear does not read texts"]),
    "lstm on images": (["bars", "--model", "lstm"], ["lstm does not read images", "cnn"]),
    "flat texts": (["texts.csv", "--model", "lstm", "--model.pool", "flatten"], ["model.pool flatten"]),
    "tokens of rows": (["rows.csv", "--tokenizer.kind", "bpe"], ["tokenizer.kind", "data.kind is table"]),
    "another kind": (["rows.csv", "--data.kind", "image"], ["data.kind image", "rows.csv holds tables"]),
    "texts as images": (["bars", "--data.kind", "text"], ["data.kind text", "bars holds images"]),
    "odd size": (["bars", "--data.image_size", "big"], ["data.image_size", "'big'"]),
}

ASKING = {
    "missing column": (
        ["evaluate", "table", "lacking.csv"],
        2,
        ["lacking.csv: no column 'weight', which this run reads"],
    ),
    "missing in a file": (
        ["predict", "table", "--file", "lacking.csv"],
        2,
        ["no column 'weight', which this run reads"],
    ),
    "missing in a row": (["predict", "table", '{"height": 3}'], 2, ["no column 'weight'"]),
    "word in a file": (
        ["predict", "table", "--file", "word.csv"],
        2,
        ["word.csv, line 22, column 'height'", "'12 cm'"],
    ),
    "a new label": (["evaluate", "table", "unseen.csv"], 2, ["unseen.csv, line 2", "column 'size'", "'XL'"]),
    "no row": (["predict", "table", "hello"], 2, ["this run reads rows, as JSON", "'hello' is none", "--file"]),
    "rows for images": (["evaluate", "image", "rows.csv"], 2, ["rows.csv holds no labelled pictures"]),
    "images for rows": (["evaluate", "table", "bars"], 2, ["bars is no table"]),
    "images for texts": (["evaluate", "text", "bars"], 2, ["bars is no table"]),
    "rows for texts": (["evaluate", "text", "rows.csv"], 2, ["no column 'text'"]),
    "texts for mixed": (["evaluate", "both", "texts.csv"], 2, ["texts.csv: no column 'n', which this run reads"]),
    "no image": (["predict", "image", "nothing.png"], 2, ["no image at 'nothing.png'"]),
    "no picture": (["predict", "image", "rows.csv"], 2, ["rows.csv is damaged, or no picture"]),
    "a new class": (
        ["evaluate", "image", "new", "--bad-rows", "error"],
        2,
        ["new, tilted/", "the label 'tilted' does not occur in training"],
    ),
    "no tokens": (["tokenizer", "show", "table", "a text"], 2, ["reads no words"]),
    "token vectors": (["embed", "table", "{}", "--per-token"], 2, ["a vector for each example, not for tokens"]),
    "writing": (["generate", "image", "x"], 2, ["image learned classification"]),
}


@pytest.mark.parametrize("name", TRAINING)
def test_one_line_about_data(name: str, command: Command, odd: Path) -> None:
    words, said = TRAINING[name]
    code, out, err = command("train", *words, *FEW)
    last = one_line(err)
    assert (code, out) == (2, "")
    for part in said:
        assert part in last
    assert not (odd / "run").exists()


@pytest.mark.parametrize("name", ASKING)
def test_one_line_about_a_run(name: str, command: Command, odd: Path, kind_runs: Path) -> None:
    words, code, said = ASKING[name]
    words = [str(kind_runs / word) if (kind_runs / word / "glassformer.json").is_file() else word for word in words]
    got, out, err = command(*words)
    last = one_line(err)
    assert (got, out) == (code, "")
    for part in said:
        assert part in last


@pytest.mark.sample(3)
@pytest.mark.parametrize(("model", "columns"), [("linear", 3), ("mlp", 3), ("transformer", 3)])
def test_a_table_from_training_to_predicting(model: str, columns: int, command: Command, odd: Path) -> None:
    code, out, err = command("train", "rows.csv", "--model", model, *FEW, "--json")
    assert code == 0, err
    assert f"a table without text, {columns} columns read (--extra-columns), label column 'size', the last one" in err
    assert "read: number columns: height, weight; category columns: city" in err
    assert "next: glassformer predict run --file rows.csv" in err
    trained = json.loads(out)
    assert trained["validation"]["examples"] == 3
    code, out, err = command("evaluate", "run", "--out", "confusion.png")
    assert code == 0, err
    assert "over 3 examples" in out
    assert (odd / "confusion.png").stat().st_size > 0
    code, out, _ = command("predict", "run", "--file", "rows.csv")
    assert code == 0
    assert out.splitlines()[0] == ("height,weight,city,size,predicted,probability,outside_range,unseen_categories")
    code, out, _ = command("predict", "run", "--json", json.dumps(rows_of(1)[0]))
    assert json.loads(out)["example"].startswith("height=")
    assert (odd / "run" / "README.md").read_text().count("number columns: height, weight; category columns: city") == 1
    assert not (odd / "run" / "tokenizer.json").exists()


@pytest.mark.sample(3)
@pytest.mark.parametrize("model", ["linear", "mlp", "cnn", "transformer"])
def test_images_from_training_to_predicting(model: str, command: Command, odd: Path) -> None:
    code, _, err = command("train", "bars", "--model", model, *FEW)
    assert code == 0, err
    assert "pictures of 2 classes; task: classification (--task)" in err
    assert "read: images of 11×7 pixels (height × width), grey" in err
    code, out, err = command("predict", "run", "bars/lying/0.png", "bars/standing/1.png")
    assert code == 0, err
    assert [line.split("\t")[2] for line in out.splitlines()] == ["bars/lying/0.png", "bars/standing/1.png"]
    code, out, _ = command("evaluate", "run", "bars", "--json")
    assert json.loads(out)["examples"] == 20


def test_sizes_that_are_brought_to_one(command: Command, odd: Path) -> None:
    code, _, err = command("train", "sizes", "--model", "linear", "--data.image_size", "6x4", *FEW)
    assert code == 0, err
    assert "read: images of 6×4 pixels" in err
    code, out, _ = command("evaluate", "run", "sizes", "--json")
    assert json.loads(out)["examples"] == 20


def test_text_and_columns(command: Command, odd: Path, kind_runs: Path) -> None:
    code, out, err = command("predict", kind_runs / "both", '{"text": "a fine soup", "n": 3}')
    assert code == 0, err
    assert out.split("\t")[2] == "a fine soup\n"
    code, out, err = command("predict", kind_runs / "both", "--file", kind_runs / "mixed.csv")
    assert code == 0, err
    assert len(out.splitlines()) == 41


def test_looking_at_data(command: Command, odd: Path) -> None:
    code, out, _ = command("data", "describe", "rows.csv")
    assert code == 0
    assert "examples" in out
    code, out, _ = command("data", "check", "word.csv")
    assert code == 0
    assert re.search(r"^rows +30$", out, re.MULTILINE)
    assert "column 'height': 1 value is no number among numbers, and training would refuse it: line 22" in out
    code, out, _ = command("data", "check", "constant.csv")
    assert "column 'city' is Rome in every row: it says nothing" in out
    assert "rows occur with different labels" in out or "row occurs with different labels" in out
    code, out, _ = command("data", "check", "new")
    assert code == 0
    assert "10 pictures repeat an earlier picture: numbers" in out
    assert "10 pictures occur with different labels" in out
    code, out, _ = command("data", "show", "rows.csv", "--model", "linear", "--rows", "1")
    assert code == 0
    assert "the numbers of each as the model reads them" in out
    assert "|2: " in out
    code, out, _ = command("data", "show", "bars", "--rows", "1", "--json")
    assert "1 × 11 × 7: from " in json.loads(out)["rows"][0][1]


@pytest.mark.slow
def test_a_model_that_reads_no_text_takes_the_other_columns(command: Command, tmp_path: Path) -> None:
    rows = [f"{row % 2},{row % 3},a person called {row} of no fame at all,{row % 5}.5" for row in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["survived,class,name,fare", *rows]))
    code, _, err = command("train", "people.csv", "--label", "survived", "--model", "linear", "--epochs", "1")
    assert code == 0, err
    assert "2 columns read" in err
    assert "not read: name" in err
    code, _, err = command("train", "people.csv", "--label", "survived", "--model", "cnn", "--epochs", "1")
    assert code == 0, err
    assert "text column 'name'" in err
