"""A run that answers messages: its template, its special tokens, where an answer ends; and runs without one."""

import dataclasses
import json
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.config.errors import Misuse, RunError
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.load import load_for
from glassformer.runs.run import Run
from glassformer.text.tokenizer import Roles, Tokenizer
from helpers.running import tiny, train_here

TEMPLATE = (
    "{% for message in messages %}{{ message.role[0] + ' ' + message.content + eos_token }}{% endfor %}{{ 'a ' }}"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(train_here(tmp_path_factory.mktemp("chat") / "run", tiny(training__steps=2)).run)


@pytest.fixture
def chatting(run: Path) -> LoadedLanguageModel:
    (run / "chat_template.jinja").write_text(TEMPLATE)
    Run.open(run).update_card(specials={"eos_token": "<end>"})
    return load_for("generate", run, "cpu")


def test_messages_go_through_the_template(chatting: LoadedLanguageModel) -> None:
    tokenizer = chatting.tokenizer
    talk = [{"role": "system", "content": "ab"}, {"role": "user", "content": "c<end>"}]
    writing = chatting.stream_chat(talk, greedy=True, tokens=3)
    prompt = [*tokenizer.encode("s ab"), tokenizer.end, *tokenizer.encode("u c<end>"), tokenizer.end]
    prompt += tokenizer.encode("a ")
    assert writing.ids == prompt
    answer = "".join(writing)
    assert answer == tokenizer.decode(writing.ids[len(prompt) :])
    assert chatting.chat(talk, greedy=True, tokens=3) == answer
    alone = chatting.stream_chat("c", tokens=1)
    assert alone.ids == [*tokenizer.encode("u c"), tokenizer.end, *tokenizer.encode("a ")]


def test_the_names_of_special_tokens_may_follow_from_their_roles(run: Path, chatting: LoadedLanguageModel) -> None:
    Run.open(run).update_card(specials={})
    assert load_for("generate", run, "cpu").stream_chat("c").ids == chatting.stream_chat("c").ids


def test_an_answer_ends_at_each_of_several(chatting: LoadedLanguageModel) -> None:
    written = chatting.stream("", greedy=True, tokens=6)
    text = "".join(written)
    second = written.ids[2]
    roles = dataclasses.replace(chatting.tokenizer.roles, stops=(second,))
    stopping = dataclasses.replace(chatting, tokenizer=Tokenizer.from_json(chatting.tokenizer.to_json(), roles=roles))
    shorter = "".join(stopping.stream("", greedy=True, tokens=6))
    assert shorter == text[: text.index(chatting.tokenizer.token(second))]
    assert second not in stopping.tokenizer.never(stopping.tokenizer.vocab_size)


def test_nothing_to_go_on_from_is_the_end_of_the_text_before(chatting: LoadedLanguageModel) -> None:
    """As GPT-2 has it: no START, so that a text begins after the END of another."""
    end = chatting.tokenizer.end
    plain = dataclasses.replace(
        chatting, tokenizer=Tokenizer.from_json(chatting.tokenizer.to_json(), roles=Roles(end=end))
    )
    assert plain.stream("").ids == [end]
    assert plain.stream("ab").ids == plain.tokenizer.encode("ab")
    framed = Tokenizer.from_json(chatting.tokenizer.to_json(), roles=Roles(end=end, opening=(end, 1)))
    assert dataclasses.replace(chatting, tokenizer=framed).stream("").ids == [end, 1]


def test_the_command(chatting: LoadedLanguageModel, capsys: pytest.CaptureFixture[str]) -> None:
    path = chatting.run.path
    asked = ["generate", str(path), "--tokens", "4", "--greedy", "--chat", "--device", "cpu"]
    assert main([*asked, "c", "--system", "ab", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["messages"] == [{"role": "system", "content": "ab"}, {"role": "user", "content": "c"}]
    assert said["text"] == chatting.chat(said["messages"], greedy=True, tokens=4)
    assert main([*asked, "c"]) == 0
    assert capsys.readouterr().out == chatting.chat("c", greedy=True, tokens=4) + "\n"
    for words, says in ((asked, "--chat answers a message"), (["generate", str(path), "--system", "x"], "with --chat")):
        assert main(words) == 2
        assert says in capsys.readouterr().err


def test_a_run_that_was_not_taught_to_chat(
    run: Path, chatting: LoadedLanguageModel, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(RunError, match=r"chat_template.jinja is damaged"):
        load_for("generate", run, "cpu")
    (run / "chat_template.jinja").unlink()
    with pytest.raises(Misuse, match="no chat template"):
        load_for("generate", run, "cpu").chat("c")
    assert main(["generate", str(run), "c", "--chat"]) == 2
    assert "was not taught to chat" in capsys.readouterr().err
    (run / "chat_template.jinja").write_text(TEMPLATE)
    Run.open(run).update_card(specials=[1])
    with pytest.raises(RunError, match="its specials are no names"):
        load_for("generate", run, "cpu")
