"""The command line as a person uses it."""

import gc
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli.completion import parser_of
from glassformer.cli.main import VERBS
from glassformer.cli.options import VERB_TABLES
from glassformer.cli.train import collected_later
from glassformer.config.plugins import VARIABLE
from glassformer.config.resolve import ALIASES
from glassformer.config.views import VIEWS
from glassformer.runs.run import Run
from helpers.running import TINY, Command
from helpers.tables import opinions, write_table


def run_apart(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-P", "-m", "glassformer.cli.main", *words], capture_output=True, text=True)


def test_help_lists_every_verb_model_and_view_without_torch() -> None:
    code = "import sys; from glassformer.cli.main import main; main(['--help']); main(['train', '--help-all']); "
    code += "main(['look', '--help']); import glassformer; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for word in (*VERBS, "transformer", "lstm", "--model.positions", "rotary", *VIEWS, "--ablate-heads"):
        assert word in done.stdout


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "words",
    [[verb] for verb in VERBS] + [["tokenizer", "show"], ["tokenizer", "compare"], ["data", "show"], ["data", "check"]],
    ids=" ".join,
)
def test_every_verb_has_help_with_an_example(words: list[str]) -> None:
    done = run_apart(*words, "--help")
    assert done.returncode == 0
    assert re.search("examples?:\n  glassformer ", done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize("verb", ["train", "compare", "tune", "plan"])
def test_the_help_of_long_verbs_fits_on_a_screen_and_names_the_complete_help(verb: str, command: Command) -> None:
    code, short, _ = command(verb, "--help")
    assert code == 0
    assert len(short.splitlines()) <= 55
    assert "--help-all" in short
    assert "--training.beta2" not in short
    code, complete, _ = command(verb, "--help-all")
    assert code == 0
    assert "--training.beta2" in complete
    listed = [option for option in VERB_TABLES[verb]["most_used"] if option not in short]
    assert not listed, "most_used names options that the verb does not have"
    assert command(verb, "--help")[1] == short


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["look", "--help"]], ids=" ".join)
def test_a_broken_plugin_does_not_block_the_help(
    words: list[str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    expected = command(*words)
    monkeypatch.setenv(VARIABLE, "broken.py")
    code, out, err = command(*words)
    assert (code, out) == expected[:2] == (0, expected[1])
    assert err == "glassformer: broken.py cannot be imported: line 1: ZeroDivisionError: division by zero\n"


def test_a_broken_plugin_stops_a_verb(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    monkeypatch.setenv(VARIABLE, "broken.py")
    code, out, err = command("data")
    assert (code, out) == (2, "")
    assert "cannot be imported" in err


def test_only_tune_has_options_by_the_names_of_settings() -> None:
    taken = {("tune", "--minutes")}
    for verb in ("train", "plan", "compare", "tune"):
        parser = parser_of(verb)
        settings = {name.replace("_", "-") for name in ALIASES}
        own = {name for action in parser._actions if "." not in action.dest for name in action.option_strings}
        assert {(verb, name) for name in own if name.removeprefix("--") in settings} <= taken, verb


@pytest.mark.slow
def test_from_text_to_writing(command: Command, files: Path) -> None:
    code, out, err = command("train", "--out", "run", "good.txt", *TINY, "--json", "--data.test_fraction", "0.1")
    assert code == 0, err
    trained = json.loads(out.splitlines()[-1])
    assert {"run", "task", "model", "parameters", "steps", "seconds", "validation", "best", "test"} <= trained.keys()
    assert (trained["steps"], trained["task"], trained["model"]) == (2, "language-model", "transformer")
    assert "next: glassformer generate" in err

    code, out, _ = command("evaluate", "run", "--json")
    evaluated = json.loads(out)
    assert evaluated.keys() == {"loss", "perplexity", "bits_per_byte", "tokens"}
    assert evaluated == pytest.approx(trained["test"])
    code, out, _ = command("evaluate", "run", "--part", "validation", "--json")
    assert json.loads(out) == pytest.approx(trained["validation"])
    code, out, err = command("evaluate", "run", "good.txt", "--stride", "3", "--json")
    assert json.loads(out)["tokens"] == len((files / "good.txt").read_text()) + 1  # and END
    assert "3 apart" in err

    code, first, _ = command("generate", "run", "the", "--tokens", "20", "--seed", "3")
    code, again, _ = command("generate", "--seed", "3", "--tokens", "20", "run", "the")
    code, other, _ = command("generate", "run", "the", "--tokens", "20", "--seed", "4")
    assert code == 0
    assert first == again != other
    assert first.startswith("the")
    code, out, _ = command("generate", "run", "the", "--tokens", "5", "--greedy", "--probabilities", "--json")
    generated = json.loads(out)
    places = generated["probabilities"]
    text = generated["prompt"] + generated["text"]
    assert len(places) == min(8, len(text) + 1)
    assert all(len(place["expected"]) == 5 for place in places)
    # greedy: the token that was written is the likeliest one at its place
    assert all(place["token"] == place["expected"][0][0] for place in places[-1 - len(generated["text"]) : -1])
    code, out, err = command("generate", "run", "the", "--tokens", "30", "--greedy", "--probabilities")
    assert "the five likeliest" in out
    assert "context of 8 tokens" in err
    (files / "prompts.txt").write_text("the\nfox\n")
    code, out, _ = command("generate", "run", "--file", "prompts.txt", "--tokens", "3", "--json")
    assert [json.loads(line)["prompt"] for line in out.splitlines()] == ["the", "fox"]
    code, out, err = command("generate", "run", "§the", "--tokens", "3")
    assert err.splitlines() == ["1 token is unknown to this model"]
    (files / "prompts.txt").write_text("§the\nfox §§\nthe\n")
    code, out, err = command("generate", "run", "--file", "prompts.txt", "--tokens", "30")
    unknown, long = err.splitlines()
    assert unknown == "3 tokens are unknown to this model"
    assert "context of 8 tokens" in long


@pytest.mark.slow
def test_config_file_and_flags(command: Command, files: Path) -> None:
    (files / "recipe.yaml").write_text(
        "data: {path: good.txt}\ntokenizer: {kind: char}\n"
        "model: {encoder: lstm, size: nano, context: 8}\ntraining: {steps: 50, batch_size: 2}\n"
    )
    code, out, err = command("train", "--config", "recipe.yaml", "--steps", "2", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["model"], result["steps"]) == ("lstm", 2)
    assert result["run"] == "runs/good-lstm-1"
    code, out, err = command("train", "--config", "runs/good-lstm-1/glassformer.json", "--seed", "4", "--json")
    assert json.loads(out)["run"] == "runs/good-lstm-2"
    code, out, _ = command("generate", "last", "--tokens", "2")
    assert code == 0


@pytest.mark.slow
def test_data_and_tokenizer_verbs(command: Command, files: Path) -> None:
    code, out, _ = command("data", "--json")
    assert "docstrings" in {row["name"] for row in json.loads(out)["datasets"]}
    code, out, _ = command("data", "describe", "good.txt", "--json")
    parts = json.loads(out)["parts"]
    assert sum(part["characters"] for part in parts.values()) == len((files / "good.txt").read_text())
    code, out, _ = command(
        "data", "show", "reverse", "--batch", "3", "--tokenizer.kind", "char", "--model.context", "9"
    )
    assert "batch 3: 16 rows of 9 tokens" in out
    assert "→" in out
    code, out, _ = command("data", "show", "reverse", "--tokenizer.kind", "char", "--model.context", "9", "--json")
    shown = json.loads(out)
    assert shown["pairs"][2] == ["".join(shown["rows"][0][:3]), shown["rows"][0][3]]
    code, out, _ = command("tokenizer", "train", "good.txt", "--vocab-size", "290", "--out", "tokens.json", "--json")
    assert json.loads(out)["vocab_size"] <= 290
    assert command("tokenizer", "train", "good.txt", "--out", "tokens.json")[0] == 2
    code, out, _ = command("tokenizer", "show", "tokens.json", "the lazy fox", "--merges")
    assert "merge 1" in out
    assert "tokens for 12 characters" in out
    assert out.count("<start>|") == out.count("|<end>") == 1
    code, out, _ = command("tokenizer", "show", "tokens.json", "the lazy fox", "a fox", "--json")
    shown = [json.loads(line) for line in out.splitlines()]
    assert [text["text"] for text in shown] == ["the lazy fox", "a fox"]
    assert [(text["tokens"][0]["text"], text["tokens"][-1]["text"]) for text in shown] == [("<start>", "<end>")] * 2
    code, out, _ = command("tokenizer", "show", "tokens.json", "--merges")
    assert len(out.splitlines()) == json.loads((files / "tokens.json").read_text())["model"]["merges"].__len__()
    code, out, _ = command("tokenizer", "compare", "good.txt", "--kinds", "char,word,bpe:280", "--json")
    assert [row["kind"] for row in json.loads(out)["tokenizers"]] == ["char", "word", "bpe"]
    code, _, err = command("train", "good.txt", *TINY[:-2], "--tokenizer.file", "tokens.json", "--out", "with-file")
    assert code == 0, err
    assert (files / "with-file" / "tokenizer.json").read_text() == (files / "tokens.json").read_text()


def test_while_modules_are_imported_nothing_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    with collected_later():
        assert gc.isenabled()  # what is slow to import is there already
    monkeypatch.delitem(sys.modules, "torch")
    try:
        with collected_later():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_words_after_two_dashes_may_begin_with_one(command: Command, tmp_path: Path) -> None:
    table = write_table(tmp_path / "-dash.csv", opinions(40))
    code, out, err = command("data", "check", "--", Path(table).name)
    assert (code, out.splitlines()[1].split()) == (0, ["rows", "40"]), err
    code, _, err = command("train", "--model", "bag", "--steps", "2", "--out", "run", "--", "-dash.csv")
    assert code == 0, err
    assert Run(tmp_path / "run").config().data.path == str(tmp_path / "-dash.csv")
    code, out, err = command("predict", "run", "--", "--good", "-bad")
    assert (code, len(out.splitlines())) == (0, 2), err
    assert command("train", "-dash.csv")[0] == 2
    code, _, err = command("train", "--out", "--", "-dash.csv")
    assert (code, "--out: expected one argument" in err) == (2, True), err


@pytest.mark.parametrize("verb", ["train", "compare", "tune", "plan"])
def test_a_verb_that_starts_from_a_run_may_skip_its_checks(command: Command, verb: str) -> None:
    assert "--no-verify" in command(verb, "--help-all" if verb in ("train", "compare", "tune", "plan") else "--help")[1]
