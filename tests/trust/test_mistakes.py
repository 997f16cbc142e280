"""Mistakes of a person at work, each one line; and names that steer a terminal, none of which reaches a screen."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.cli.main import main
from glassformer.cli.terminal.show import console
from glassformer.config.errors import Misuse
from helpers.running import labelled, tiny
from helpers.tables import amounts, opinions, write_table
from helpers.translating import mirrored, translating

pytestmark = pytest.mark.trust

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a person at work: data, and a run of each kind."""
    folder = tmp_path_factory.mktemp("desk")
    write_table(folder / "two.csv", opinions(60))
    write_table(folder / "rated.csv", amounts(60), ("text", "rating"))
    write_table(folder / "pairs.csv", mirrored(60), ("source", "target"))
    (folder / "good.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 40)
    (folder / "empty.txt").write_text("")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("text,label\n")
    (folder / "latin.csv").write_bytes("text,label\nfine,good\ncafé,bad\n".encode("latin-1"))
    (folder / "bad.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    (folder / "half.jsonl").write_text('{"text": "a \\ud800 b", "label": "x"}\n' * 20)
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "bad.yaml").write_text("model:\n  width: [1\n")
    (folder / "folder").mkdir()
    quick = {"training.optimizer": "adamw", "training.lr": 0.05, "training.steps": 4}
    with pytest.MonkeyPatch.context() as patch:
        for draw in ("draw_curves", "draw_confusion", "leave_report"):
            patch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)
        gf.train(folder / "two.csv", out=folder / "run", **labelled("lstm"), **quick)
        gf.train(folder / "rated.csv", out=folder / "numbers", model="bag", **quick)
        gf.train(folder / "two.csv", out=folder / "writer", task="language-model", **tiny("lstm"), **quick)
        gf.train(folder / "pairs.csv", out=folder / "translator", **translating("gru", training__steps=4))
    return folder


MISTAKES: dict[str, str] = {
    # the verb
    "tran two.csv": "did you mean train?",
    "--json train two.csv": "--json goes after the verb",
    "-q evaluate run": "-q goes after the verb",
    "--frobnicate": "",
    "two.csv": "",
    # options
    "train two.csv --learning_rate 0.1": "it is called --lr here",
    "train two.csv --learning-rate 0.1": "it is called --lr here",
    "train two.csv --d_model 8": "--model.width",
    "train two.csv --hidden-size 8": "--model.width",
    "train two.csv --n_layer 2": "--model.layers",
    "train two.csv --num-heads 2": "--model.heads",
    "train two.csv --bs 2": "--batch-size",
    "train two.csv --batch 2": "--batch-size",
    "train two.csv --block_size 2": "--model.context",
    "train two.csv --max-length 2": "--model.context",
    "train two.csv --num_epochs 2": "--epochs",
    "train two.csv --max_iters 2": "--steps",
    "train two.csv --extra label": "--extra-columns",
    "train two.csv --model.n_embd 2": "--model.width",
    "train two.csv --widht 8": "",
    "train two.csv --model.widht 8": "--model.width",
    "train two.csv --steps": "expected one argument",
    "train two.csv --steps many": "training.steps wants a whole number",
    "train two.csv --steps 1.5": "training.steps wants a whole number",
    "train two.csv --steps -3": "",
    "train two.csv --lr fast": "training.lr wants a number",
    "train two.csv --lr nan": "training.lr wants a number",
    "train two.csv --model lsmt": "did you mean lstm?",
    "train two.csv --size enormous": "",
    "train two.csv --style gpt5": "",
    "train two.csv --task clasification": "did you mean classification?",
    "train two.csv --task vectors": "only for imported models",
    "train two.csv --device cuda:99": "",
    "train two.csv --device tpu": "",
    "train two.csv --config bad.yaml": "",
    "train two.csv --config nothing.yaml": "cannot read the config",
    "train two.csv --resume --overwrite": "give one of them",
    "train two.csv --folds 1": "",
    "train two.csv one more": "",
    "train": "DATA is missing",
    "train nothing.csv": "no file 'nothing.csv'",
    "train folder": "",
    "train empty.txt": "",
    "train empty.csv": "",
    "train header.csv": "",
    "train latin.csv": "",
    "train bad.jsonl": "",
    "train half.jsonl": "half a character",
    "train two.csv --label nothing": "no column",
    "train two.csv --text nothing": "no column",
    "train two.csv --data.encoding utf-99": "",
    "train two.csv --out run": "already holds a run",
    "train two.csv --out good.txt": "",
    "train two.csv --from nothing": "",
    "train --source-file good.txt": "",
    "train --source-file good.txt --target-file nothing.txt": "",
    "train --resume --out folder": "",
    # a run
    "evaluate": "RUN is missing",
    "evaluate nothing": "no run at nothing",
    "evaluate two.csv": "not a run",
    "evaluate folder": "not a run",
    "evaluate ''": "this name is empty",
    "evaluate run nothing.csv": "",
    "evaluate run two.csv --file two.csv": "give one of them",
    "evaluate run --file nothing.csv": "",
    "evaluate run --out errors.html": "add --errors",
    "evaluate run --out errors.txt": "should end in",
    "evaluate run --out nowhere/errors.png": "no folder nowhere",
    "evaluate run --part training": "",
    "evaluate run --stride 4": "",
    "evaluate run --accuracy 0.9": "--errors",
    "evaluate run --beam x": "",
    "predict run two.csv": "--file two.csv",
    "predict run nothing.csv": "--file nothing.csv",
    "predict run ''": "TEXT is empty",
    "predict run '  ' --json": "TEXT is empty",
    "predict run text --file two.csv": "not both",
    "predict run --file nothing.csv": "",
    "predict run --file two.csv --out out.xlsx": "should end in",
    "predict run --file two.csv --out two.csv": "write to another",
    "predict run --file two.csv --text nothing": "no column",
    "predict run text --out out.csv": "goes with --file",
    "predict run text --top 3": "masked language models",
    "predict writer --file two.csv": "",
    "generate run prompt": "",
    "generate writer a --tokens 0": "at least 1",
    "generate writer a --tokens five": "",
    "generate writer a --greedy --top-k 3": "do not go with it",
    "generate writer a --temperature -1": "",
    "generate writer a --top-p 2": "",
    "generate writer a --seed -1": "",
    "generate writer a --chat": "not taught to chat",
    "generate writer --file nothing.txt": "cannot read",
    "translate run text": "",
    "translate translator pairs.csv": "--file pairs.csv",
    "translate translator a --beam 0": "between 1 and 1,000",
    "translate translator a --nbest 9": "",
    "translate translator --file nothing.txt": "cannot read",
    "embed run two.csv": "--file two.csv",
    "embed run text --out vectors.csv": "should end in",
    "embed run text more --per-token --out vectors.npy": "make no array",
    "look run text --view nothing": "unknown view",
    "look run text --view attention": "has no attention",
    "look run text --layer x": "",
    "look run": "no text to look at",
    "look run one two": "put quotes around it",
    "look run text --out look.doc": "should end in",
    "look run text --open --out look.png": "must end in .html",
    "look run text --versus other --word text": "two views",
    "look run text --second-run run": "--versus",
    "look run text --links nothing.jsonl": "",
    "tokenizer show run": "TEXT is missing",
    "tokenizer shwo run text": "did you mean show?",
    "tokenizer train good.txt --out run": "already there",
    "tokenizer compare good.txt --kinds char:many": "kind or kind:size",
    "tokenizer show deep.json text": "",
    "compare two.csv --models bag,nothing": "unknown model",
    "compare two.csv --vary model.heads": "",
    "compare two.csv --seeds 0": "",
    "compare two.csv --fractions 2": "",
    "tune two.csv --trials 0": "",
    "tune two.csv --space nothing.yaml": "",
    "plan two.csv --gpus 0": "must be above 0",
    "plan two.csv --training-tokens 1e9": "give one",
    "plan": "DATA is missing",
    "doctor nothing": "no run at nothing",
    "check run --only nothing": "",
    "scaling --models nothing": "",
    "scaling --lengths x": "",
    "import nothing": "",
    "import two.csv": "",
    "export run --to pytorch out": "invalid choice",
    "export run --to hf": "DIR is missing",
    "export run --to hf folder/x/../../run": "",
    "data chekc two.csv": "did you mean check?",
    "data check": "DATA is missing",
    "data show two.csv --rows 0": "at least 1",
    "data describe nothing": "no file",
    "demo --out good.txt": "is a file",
}
"""What a person types, and what the line says that answers; empty: any."""


@pytest.fixture
def at_work(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    console.cache_clear()


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line(line: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(shlex.split(line))
    out, err = capfd.readouterr()
    *_, last = err.rstrip("\n").split("\n")
    assert code in (1, 2), (code, out, err)
    assert last.startswith("glassformer: "), err
    assert err.count("glassformer: ") == 1, err
    assert MISTAKES[line] in last, last
    assert "Traceback" not in err
    assert not STEERS.search(out + err)


PYTHON = {
    "tokens": lambda run: run("writer").generate("a", tokens="5"),
    "temperature": lambda run: run("writer").generate("a", temperature="hot"),
    "top_k": lambda run: run("writer").generate("a", top_k=2.5),
    "seed": lambda run: run("writer").generate("a", seed="x"),
    "prompt": lambda run: run("writer").generate(5),
    "k": lambda run: run("writer").probabilities("a", k="x"),
    "beam": lambda run: run("translator").translate("a", beam="x"),
    "length_penalty": lambda run: run("translator").translate("a", length_penalty="x"),
    "nbest": lambda run: run("translator").translate("a", nbest=None),
    "layer": lambda run: gf.look("run", "a", layer="a"),
    "head": lambda run: gf.look("run", "a", head=1.5),
    "view": lambda run: gf.look("run", "a", view=5),
    "mode": lambda run: gf.look("run", "a", mode=5),
    "word": lambda run: gf.look("run", "a", word=5),
    "data": lambda run: gf.train(5),
    "out": lambda run: gf.train("two.csv", out=5),
    "resume": lambda run: gf.train("two.csv", resume="yes"),
    "model": lambda run: gf.train("two.csv", model=torch.nn.Linear),
    "part": lambda run: gf.evaluate("run", part=5),
    "stride": lambda run: gf.evaluate("writer", stride="x"),
    "accuracy": lambda run: gf.errors("run", accuracy="x"),
    "device": lambda run: gf.load("run", device=5),
    "run": lambda run: gf.load(5),
    "only": lambda run: gf.check("run", only=5),
    "to": lambda run: gf.export("run", to=5, folder="x"),
    "folder": lambda run: gf.export("run", to="hf", folder=5),
    "gpus": lambda run: gf.plan("two.csv", gpus="x"),
    "memory": lambda run: gf.plan("two.csv", device_memory="x"),
    "seeds": lambda run: gf.compare("two.csv", seeds="x"),
    "models": lambda run: gf.compare("two.csv", models=5),
    "trials": lambda run: gf.tune("two.csv", trials="x"),
    "jobs": lambda run: gf.tune("two.csv", jobs=None),
    "folds": lambda run: gf.cross_validate("two.csv", folds="x"),
    "width": lambda run: gf.scaling(width="x"),
    "source": lambda run: gf.import_model(5),
    "learning_rate": lambda run: gf.train("two.csv", learning_rate=0.1),
    "steps": lambda run: gf.train("two.csv", steps=[5]),
}
"""Arguments of the wrong type, by name."""


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("name", PYTHON)
def test_a_mistake_in_python_is_a_misuse(name: str) -> None:
    with pytest.raises(Misuse) as error:
        PYTHON[name](gf.load)
    assert "\n" not in str(error.value)
    assert name in ("run", "model") or name in str(error.value)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels, words, columns and files that would steer a terminal, and a run that learned from them."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        rows = [
            {f"te{EVIL}xt": f"{text} {EVIL}word<script>", "label": f"={label}{EVIL}[x](javascript:1)|"}
            for text, label in opinions(60)
        ]
        Path("evil.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        Path(f"na{EVIL}me.txt").write_text(f"the quick {EVIL}brown fox\n" * 60)
        settings = {"training.optimizer": "adamw", "training.lr": 0.05, "training.steps": 4}
        gf.train(
            "evil.jsonl", text=f"te{EVIL}xt", label="label", out="run", task="classification", model="bag", **settings
        )
        gf.train(f"na{EVIL}me.txt", out=f"wri{EVIL}ter", **tiny("lstm"), **settings)
    return folder


WRITER, TABLE = f"'wri{EVIL}ter'", f"--text 'te{EVIL}xt'"
HOSTILE = [
    f"train evil.jsonl {TABLE} --label label --task classification --model bag --steps 2 --out run --overwrite",
    "evaluate run",
    "evaluate run --errors --out errors.html",
    "evaluate run --json",
    f"evaluate {WRITER}",
    f"predict run 'a {EVIL} text'",
    f"predict run 'a {EVIL} text' --json",
    "predict run --file evil.jsonl",
    "predict run --file evil.jsonl --json --probabilities",
    "predict run --file evil.jsonl --out predicted.csv",
    f"predict {WRITER} 'the {EVIL}'",
    f"generate {WRITER} 'the {EVIL}' --tokens 20 --probabilities",
    f"generate {WRITER} --tokens 20 --json",
    f"embed run '{EVIL}'",
    f"look run 'a {EVIL} text' --out look.html",
    f"look run 'a {EVIL} text' --view attribution --out look.png",
    f"look {WRITER} 'the {EVIL}' --json",
    f"look {WRITER} 'the {EVIL}' --view next --out look.html",
    f"tokenizer show run 'a {EVIL} text'",
    f"tokenizer show {WRITER} 'a {EVIL} text' --merges",
    f"tokenizer train 'na{EVIL}me.txt' --out 'to{EVIL}ken.json' --overwrite",
    f"tokenizer compare 'na{EVIL}me.txt' --kinds char,word",
    f"data describe 'na{EVIL}me.txt'",
    f"data show 'na{EVIL}me.txt' --rows 1",
    f"data check evil.jsonl {TABLE} --label label",
    f"data show evil.jsonl {TABLE} --label label --rows 2",
    f"plan 'na{EVIL}me.txt' --no-probe --size nano",
    "doctor run",
    f"check {WRITER} --only cached,saved",
    f"export run --to onnx 'ex{EVIL}port' --overwrite",
    f"compare evil.jsonl {TABLE} --label label --task classification --models bag --seeds 1 --steps 2 "
    "--no-references --out compared --overwrite",
    # and what goes wrong with such names
    f"train '{EVIL}.csv'",
    f"train evil.jsonl --text '{EVIL}'",
    f"train evil.jsonl '--{EVIL}'",
    f"'{EVIL}'",
    f"predict '{EVIL}' x",
    f"look run x --view '{EVIL}'",
    f"evaluate run '{EVIL}.csv'",
    f"predict run --file evil.jsonl --out '{EVIL}.xlsx'",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_nothing_steers_the_screen(
    line: str, hostile: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    console.cache_clear()
    main(shlex.split(line))
    out, err = capfd.readouterr()
    # into a pipe, texts keep their directions: it is no screen
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", out), ascii(out)
    assert not STEERS.search(err), ascii(err)


def test_papers_hold_no_markup_of_others(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    card = Path("run/README.md").read_text(encoding="utf-8")
    assert not STEERS.search(card)
    assert "<script>" not in card
    assert "[x](" not in card
    assert main(shlex.split("predict run --file evil.jsonl --out table.csv -q")) == 0
    predicted = Path("table.csv").read_text(encoding="utf-8")
    assert ",=" not in predicted
    assert ",'=" in predicted


def test_a_name_that_is_not_utf8(
    desk: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    name = os.fsdecode(b"na\xffme.csv")
    Path(name).write_text((desk / "two.csv").read_text())
    assert main(["train", name, "--model", "bag", "--steps", "2", "--out", "odd", "-q"]) == 0
    assert main(["evaluate", "odd", "--out", os.fsdecode(b"pic\xffture.png")]) == 0
    assert main(["predict", "odd", "--file", name, "--out", os.fsdecode(b"out\xff.csv")]) == 0
    assert main(["train", name, "--model", "bag", "--out", os.fsdecode(b"ru\xffn")]) == 2
    assert "not a name in UTF-8" in capfd.readouterr().err
    assert main(["predict", "odd", os.fsdecode(b"te\xffxt")]) == 2


def test_what_was_tried(tried) -> None:  # type: ignore[no-untyped-def]
    tried("mistakes: wrong arguments", "typed on the command line", len(MISTAKES), "a one-line error each")
    tried("mistakes: arguments of the wrong type", "passed to Python functions", len(PYTHON), "a one-line error each")
    tried(
        "names, labels and texts with control sequences",
        "through every verb",
        len(HOSTILE),
        "none reached the terminal",
    )
