"""Raw text in, raw text out: stop strings, seeds, and what a model expected where."""

from typing import Any

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.config.errors import SettingError
from glassformer.config.resolve import resolve
from glassformer.config.sections import TokenizerSettings
from glassformer.families.generate import Writer
from glassformer.models.build import build_language_model
from glassformer.text.stream import Stops
from glassformer.text.tokenizer import Tokenizer
from helpers.running import tiny
from helpers.support import randomise

TEXT = "the quick brown fox jumps over the lazy dog"


def writer_of(kind: str = "char", vocab_size: int | None = None, **flags: Any) -> Writer:
    tokenizer = Tokenizer.train([TEXT], TokenizerSettings(kind=kind, vocab_size=vocab_size))
    settings = resolve({}, tiny(**flags)).model
    return Writer(randomise(build_language_model(settings, vocab=tokenizer.vocab_size)).eval(), tokenizer)


# --- stop strings ---


def streamed(stops: list[str], pieces: list[str]) -> str:
    """Through `Stops`, as a stream does it; and nothing is shown that may have to be taken back."""
    held = Stops(stops)
    shown = ""
    for piece in pieces:
        shown += held.push(piece)
        if held.found:
            return shown
    return shown + held.end()


def cut(stops: list[str], text: str) -> str:
    """The definition: read letter by letter, the first stop string to be complete ends the text where it begins."""
    for end in range(1, len(text) + 1):
        begins = [end - len(stop) for stop in stops if stop and text[:end].endswith(stop)]
        if begins:
            return text[: min(begins)]
    return text


def test_a_stop_string_split_over_pieces() -> None:
    assert streamed(["END"], ["to be E", "N", "D or not"]) == "to be "
    assert streamed(["END"], ["to be E", "N", "T or not"]) == "to be ENT or not"
    assert streamed(["END"], ["to be", " E", "N"]) == "to be EN"
    assert streamed(["\n\n"], ["a\n", "b\n", "\n", "c"]) == "a\nb"
    assert streamed(["aab"], ["aa", "ab"]) == "a"  # the first a was none of it after all
    assert streamed(["aba", "b"], ["aba"]) == streamed(["aba", "b"], ["a", "b", "a"]) == "a"
    assert streamed(["ab", "b"], ["ab"]) == streamed(["ab", "b"], ["a", "b"]) == ""
    assert streamed([], ["a", "b"]) == "ab"
    assert streamed([""], ["a", "b"]) == "ab"


def test_shown_as_soon_as_it_is_safe() -> None:
    held = Stops(["END", "stop"])
    assert held.push("to be") == "to be"
    assert held.push(" or s") == " or "
    assert held.push("t") == ""
    assert held.push("range") == "strange"
    assert not held.found
    assert held.push("xEND and more") == "x"
    assert held.found


letters = st.text("ab\n", max_size=12)


@given(st.lists(st.text("ab\n", max_size=4), max_size=3), st.lists(letters, max_size=6))
def test_how_the_text_is_cut_into_pieces_has_no_say(stops: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    assert streamed(stops, pieces) == streamed(stops, [text]) == streamed(stops, list(text)) == cut(stops, text)


def test_a_writer_stops() -> None:
    writer = writer_of()
    seed, whole = next((n, text) for n in range(50) if len(text := writer.generate("the", tokens=60, seed=n)) > 12)
    for stop in (whole[5:8], whole[10:11]):
        text = writer.generate("the", tokens=60, seed=seed, stop=[stop])
        assert text == whole[: whole.index(stop)]


# --- streams ---


@pytest.mark.parametrize("kind", ["char", "word", "bpe"])
def test_pieces_are_the_whole(kind: str) -> None:
    writer = writer_of(kind, 280 if kind == "bpe" else None)
    pieces = list(writer.stream("the quick", tokens=40, seed=1))
    assert "".join(pieces) == writer.generate("the quick", tokens=40, seed=1)
    assert len(pieces) > 3
    assert writer.generate("the quick", tokens=40, seed=2) != "".join(pieces)


def test_special_tokens_are_never_written_and_end_ends() -> None:
    writer = writer_of()
    tokenizer = writer.tokenizer
    bad = {tokenizer.pad, tokenizer.start, tokenizer.unk}
    assert None not in bad
    with torch.no_grad():  # a model that likes special tokens best
        writer.model.head.weight[list(tokenizer.specials)] *= 30
    lengths = {len(writer.generate(tokens=30, temperature=3.0, seed=seed)) for seed in range(20)}
    assert min(lengths) < 30  # END came
    text = writer.generate(tokens=30, temperature=3.0)
    assert "<" not in text


def test_greedy_takes_no_seed() -> None:
    writer = writer_of()
    texts = {writer.generate("the", tokens=30, greedy=True, seed=seed) for seed in range(3)}
    assert texts == {writer.generate("the", tokens=30, temperature=0.0, seed=9)}
    penalised = writer.generate("the", tokens=30, greedy=True, repetition_penalty=100.0)
    assert {penalised} != texts


def test_no_tokens_at_all() -> None:
    with pytest.raises(SettingError, match="--tokens"):
        writer_of().generate(tokens=0)


def foreign() -> Writer:
    """A tokenizer made elsewhere, without START and END."""
    pipeline = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    pipeline.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model = randomise(build_language_model(resolve({}, tiny()).model, vocab=3)).eval()
    return Writer(model, Tokenizer(pipeline))


def test_without_start_a_prompt_is_needed() -> None:
    writer = foreign()
    with pytest.raises(SettingError, match="has no START: give it a prompt"):
        writer.generate()
    with pytest.raises(SettingError, match="has no START: give it a"):
        writer.probabilities("")
    assert writer.generate("a b", tokens=5)
    assert len(writer.probabilities("a b")) == 2


# --- probabilities ---


@pytest.mark.parametrize("style", ["llama", "gpt2"])
@pytest.mark.parametrize("length", [0, 1, 10, 15, 16, 40])
def test_probabilities(style: str, length: int) -> None:
    """Of each token as the model gave it; of a text beyond the context, of its end. The last row is what comes next."""
    writer = writer_of(model__style=style)
    text = (TEXT + TEXT)[:length]
    rows = writer.probabilities(text, k=5)
    start = writer.tokenizer.start
    assert start is not None
    ids = [start, *writer.tokenizer.encode(text)][-16:]
    with torch.no_grad():
        expected = writer.model(torch.tensor([ids]))[0].softmax(-1)
    assert len(rows) == len(ids)
    assert "".join(row.token or "" for row in rows) == text[max(0, length - 15) :]
    for place, row in enumerate(rows):
        assert [value for _, value in row.expected] == pytest.approx(expected[place].topk(5).values.tolist(), rel=1e-4)
        if place + 1 < len(ids):
            assert row.probability == pytest.approx(expected[place, ids[place + 1]].item(), rel=1e-4)
    assert rows[-1].token is None
    assert rows[-1].probability is None


def test_all_probabilities_sum_to_one() -> None:
    writer = writer_of()
    for row in writer.probabilities(TEXT[:12], k=writer.tokenizer.vocab_size):
        assert sum(value for _, value in row.expected) == pytest.approx(1, abs=1e-5)
        assert len(row.expected) == writer.tokenizer.vocab_size


def test_probabilities_of_what_was_really_written() -> None:
    """Bytes that are no character decode to another text: cut again, its tokens would not be those written."""
    writer = writer_of("bpe", 280)
    writing = writer.stream("the", tokens=12, greedy=True)
    text = "".join(writing)
    assert "\ufffd" in text, "there is nothing to see where every byte is a character"
    written = writer.probabilities(writing.ids)[-13:-1]
    assert len(written) == 12
    assert all(row.token == row.expected[0][0] for row in written)


def test_words_join_the_prompt() -> None:
    writer = writer_of("word")
    writing = writer.stream("the quick", tokens=6, seed=3)
    assert "the quick" + "".join(writing) == writer.tokenizer.decode(writing.ids)


def test_the_context_is_spoken_of_before_the_text() -> None:
    writer = writer_of()
    said: list[str] = []
    writing = writer.stream(TEXT[:10], tokens=30, say=said.append)
    assert len(said) == 1
    assert "context of" in said[0]
    "".join(writing)
    writer.stream("q", tokens=2, say=said.append)
    assert len(said) == 1


# --- beams ---


def test_a_beam_writes_what_no_greedy_way_finds_less_of() -> None:
    writer = writer_of()
    greedy = writer.generate("the quick", tokens=6, greedy=True)
    assert writer.generate("the quick", tokens=6, beam=1) == greedy
    assert writer.generate("the quick", tokens=6, beam=5) == writer.generate("the quick", tokens=6, beam=5, seed=3)


def test_a_beam_stays_within_the_context() -> None:
    writer, heard = writer_of(), list[str]()
    context = writer.model.context
    writing = writer.stream("the lazy dog", tokens=100, beam=3, say=heard.append)
    "".join(writing)
    assert len(writing.ids) <= context + 1
    assert heard == [f"a beam writes within the model's context of {context} tokens: {context + 1 - 13} at most"]
    writing = writer.stream("x" * 40, tokens=100, beam=3, say=heard.append)
    "".join(writing)
    assert len(writing.ids) - 41 <= context + 1 - context // 2
    assert heard[-1].endswith(f"after the last {context // 2} of the prompt's")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"beam": 2, "temperature": 0.5}, "--beam cannot be combined with"),
        ({"beam": 2, "greedy": True}, "--beam cannot be combined with"),
        ({"beam": 2, "top_k": 3}, "--beam cannot be combined with"),
        ({"beam": 0}, "--beam is 0, but must lie between 1 and 1,000"),
        ({"beam": 10**9}, "must lie between 1 and 1,000"),
    ],
)
def test_beams_that_cannot_be(how: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        writer_of().generate("the", tokens=3, **how)
