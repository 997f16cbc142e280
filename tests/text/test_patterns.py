"""Patterns and templates that somebody else wrote, and that fail: one line each."""

import pytest
import tokenizers

from glassformer.config.errors import DataError
from glassformer.text.chat import chat_ids
from glassformer.text.tokenizer import Tokenizer


@pytest.fixture
def tokenizer() -> Tokenizer:
    rust = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    rust.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("(x+x+)+y"), "isolated")
    return Tokenizer(rust)


def test_a_pattern_that_gives_up_is_one_line(tokenizer: Tokenizer, capfd: pytest.CaptureFixture[str]) -> None:
    for encode in (tokenizer.encode, tokenizer.encode_with_offsets):
        with pytest.raises(DataError, match="the tokenizer's pattern gives up on this text"):
            encode("x" * 60)
    assert capfd.readouterr().err == ""
    assert tokenizer.encode("a") == [0]


def test_a_template_that_writes_nothing(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="wrote nothing"):
        chat_ids(tokenizer, "{% if false %}x{% endif %}", [{"role": "user", "content": "hello"}], {})
