"""What becomes of columns and rows: `data check`, `train`, `compare` and `evaluate` say it in the same words."""

import datetime
import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import glassformer as gf
from helpers.kinds import write_rows
from helpers.loading import loaded
from helpers.running import Command
from helpers.tables import opinions

QUICK = ("--steps", "2", "--training.batch_size", "8")
FEW = {"steps": 2, "training.batch_size": 8}


def letters(count: int = 60) -> list[dict[str, Any]]:
    """Letters with a subject and a message, and what people have beside them."""
    return [
        {
            "": count - row,
            "subject": f"about {label} things, {'x' * (row % 30)}",
            "message": text,
            "date": f"2024-{row % 12 + 1:02}-{row % 28 + 1:02}",
            "customer_id": f"C{row % 7}",
            "label": "" if row % 10 == 3 else label.title() if row % 10 == 4 else f" {label} ",
        }
        for row, (text, label) in enumerate(opinions(count))
    ]


def orders(count: int = 150) -> list[dict[str, Any]]:
    """Orders: no text, but numbers with units, a date, many products, a column almost empty and one always the same."""
    return [
        {
            "order_id": f"o{row}",
            "product": f"P{row % 60}" if row % 2 else "P0",
            "when": (datetime.date(2024, 1, 1) + datetime.timedelta(days=row)).strftime("%d/%m/%Y"),
            "amount": f"${row * 37 % 1009 + 1000:,}.50",
            "share": f"{row * 7 % 101}%",
            "shop": "Ulm",
            "coupon": "5" if row == 7 else "",
            "returned": "" if row == 11 else ("yes", "no")[row % 2],
        }
        for row in range(count)
    ]


def columns_line(err: str) -> str:
    return next(line for line in err.splitlines() if line.startswith("columns: "))


def check_and_train(command: Command, table: str, model: str) -> tuple[str, str]:
    """What `data check` finds, and what `train` says: of the columns, the same."""
    _, found, checked = command("data", "check", table)
    code, _, trained = command("train", table, "--model", model, *QUICK, "--out", "run")
    assert code == 0
    assert columns_line(checked) == columns_line(trained)
    return found, trained


@pytest.mark.slow
def test_letters(command: Command, tmp_path: Path) -> None:
    write_rows(tmp_path / "letters.csv", letters())
    found, trained = check_and_train(command, "letters.csv", "bag")
    assert columns_line(trained) == (
        "columns: text columns 'subject' and 'message', joined, label column 'label' with 3 classes (--text, --label); "
        "task: classification (--task); not read: Unnamed: 0 (has no name), date (only if named in --extra-columns), "
        "customer_id (an id with 7 values; --extra-columns reads it)"
    )
    skipped = "skipped: 6 rows without a label, lines 5, 15, 25, 35, 45, …"
    alike = "labels that differ only in their letters' case count as different: "
    for said in (found, trained):
        assert skipped in said
        assert alike in said
    _, _, evaluated = command("evaluate", "run", "letters.csv")
    assert skipped in evaluated
    _, _, compared = command("compare", "letters.csv", "--models", "bag", *QUICK, "--seeds", "1", "--out", "both")
    assert skipped in compared
    assert columns_line(compared) == columns_line(trained)


def test_letters_are_read_as_they_were_learned(command: Command, tmp_path: Path) -> None:
    rows = letters()
    write_rows(tmp_path / "letters.csv", rows)
    command("train", "letters.csv", "--model", "bag", *QUICK, "--out", "run")
    wanted = {"subject": rows[0]["subject"], "message": rows[0]["message"]}
    run = gf.load("run")
    joined = run.predict(f"{wanted['subject']}\n{wanted['message']}").probabilities
    assert run.predict(wanted).probabilities == joined
    with pytest.warns(UserWarning, match="not read: a column without a name, date, customer_id"):
        assert run.predict(pd.DataFrame(rows))[0].probabilities == joined
    assert run.predict([{"message": "", **wanted}])[0].probabilities == joined
    _, out, _ = command("predict", "run", json.dumps(wanted), "--json")
    assert json.loads(out)["probabilities"] == joined
    _, out, _ = command("predict", "run", "--file", "letters.csv", "--json")
    assert json.loads(out.splitlines()[0])["probability"] == max(joined.values())
    write_rows(tmp_path / "bare.csv", [{"message": row["message"], "label": row["label"]} for row in rows])
    lacking = "no column 'subject', which this run reads (columns: message"
    code, _, err = command("predict", "run", "--file", "bare.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert lacking in err
    code, _, err = command("predict", "run", '{"message": "fine"}')
    assert (code, err.count("\n")) == (2, 1)
    assert lacking in err
    with pytest.raises(gf.GlassformerError, match="no column 'subject', which this run reads"):
        run.predict(pd.DataFrame({"message": ["fine"]}))
    code, _, err = command("evaluate", "run", "bare.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "no column 'subject'" in err


def test_orders(command: Command, tmp_path: Path) -> None:
    write_rows(tmp_path / "orders.csv", orders())
    found, trained = check_and_train(command, "orders.csv", "linear")
    assert columns_line(trained) == (
        "columns: a table without text, 5 columns read (--extra-columns), label column 'returned', the last one, with "
        "2 classes (--label); task: classification (--task); numbers: '$1,000.50' in amount is 1000.50, '0%' in share "
        "is 0 (--data.decimal); dates: when, day first (read as year, month, weekday, hour and days); not read: "
        "order_id (an id with 150 values), shop (the same in every row)"
    )
    skipped = "skipped: 1 row without a label, line 13"
    assert skipped in found
    assert skipped in trained
    assert "column 'coupon' is empty in 149 of 150 rows" in found
    row = {"product": "P0", "when": "31/05/2024", "amount": "$1,200.50", "share": "7%", "coupon": ""}
    run = gf.load("run")
    said: list[str] = []
    found, plain = (run.predict(one, say=said.append) for one in (row, {**row, "amount": 1200.5, "share": 7}))
    assert found.probabilities == plain.probabilities
    assert said == ["numbers outside the range of training: when: days (1)"] * 2


@pytest.mark.parametrize("library", [pd, pl])
def test_data_frames(tmp_path: Path, library: Any) -> None:
    rows = [
        {
            "when": datetime.datetime(2024, 1, 1) + datetime.timedelta(days=number),
            "size": ("small", "large")[number % 2],
            "weight": None if number == 5 else number / 7,
            "kind": None if number == 9 else ("a", "b", "c")[number % 3],
        }
        for number in range(60)
    ]
    frame = library.DataFrame(rows)
    if library is pd:
        frame["size"] = frame["size"].astype("category")
    else:
        frame = frame.with_columns(pl.col("size").cast(pl.Categorical))
    said: list[str] = []
    run = gf.train(
        frame, out=tmp_path / "run", model="linear", label="kind", listen=lambda event: said.append(str(event)), **FEW
    )
    text = "\n".join(said)
    assert "dates: when, year first (read as year, month, weekday, hour and days)" in text
    assert "skipped: 1 row without a label, line 10" in text
    model = loaded(run)
    assert model.predict(frame)[3] == model.predict(rows)[3]
