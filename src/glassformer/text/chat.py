"""Messages as the text that a model was taught to answer, by the template that came with it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from glassformer.config.errors import DataError, Misuse, with_article
from glassformer.text.tokenizer import Tokenizer

Message = Mapping[str, str]
"""`role` (system, user, assistant) and `content`."""

PROGRAM = Path(__file__).with_name("chat_template.py")
"""What runs a template."""

MOST = 4_000_000
"""Characters that a template may write."""
SECONDS = 5
"""Time that it may compute."""
WAIT = 60
"""Seconds until an answer is no longer waited for: a busy machine may need some to start a process."""
PRIVATE = range(0xF0000, 0xFFFFE)
"""Characters that mean nothing, and stand for the names of special tokens while a template is at work."""


def specials_of(tokenizer: Tokenizer) -> dict[str, str]:
    """Special tokens by the names that templates have for them, where no file says more."""
    roles = tokenizer.roles
    ids = {"bos": roles.start, "eos": roles.end, "pad": roles.pad, "unk": roles.unk, "mask": roles.mask}
    return {f"{part}_token": tokenizer.token(id) for part, id in ids.items() if id is not None}


def render_chat(template: str, messages: Sequence[Message], *, specials: Mapping[str, str]) -> str:
    """The text of a chat, up to where the assistant is to go on.

    The template is a program by somebody else, and runs in a process of its own: in a sandbox, for a few seconds, in
    bounded memory. `specials`: special tokens by the names it has for them.
    """
    _check(messages)
    request = {"template": template, "messages": messages, "specials": dict(specials), "most": MOST, "seconds": SECONDS}
    command, request_bytes = [sys.executable, "-P", str(PROGRAM)], json.dumps(request, default=dict).encode()
    try:
        process = subprocess.run(command, input=request_bytes, capture_output=True, timeout=WAIT, check=False)
    except subprocess.TimeoutExpired:
        raise DataError(f"the chat template wrote nothing within {WAIT} s: it does not end") from None
    try:
        answer = json.loads(process.stdout)
    except ValueError:
        what = "it does not end, or fills the memory" if process.returncode < 0 else f"exit {process.returncode}"
        raise DataError(f"the chat template failed: {what}") from None
    if "error" in answer:
        raise DataError(f"the chat template failed: {answer['error']}")
    return str(answer["text"])


def _check(messages: Sequence[Message]) -> None:
    if not messages:
        raise Misuse("a chat needs at least one message")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
            raise Misuse(f'message {number} has no role and content: {{"role": "user", "content": "Hello"}} is one')
        for key, value in message.items():
            if not isinstance(value, str):
                raise Misuse(f"message {number}: its {key} is {with_article(value)}, not text")


def chat_ids(
    tokenizer: Tokenizer, template: str, messages: Sequence[Message], specials: Mapping[str, str]
) -> list[int]:
    """The ids of a chat. The template's special tokens are tokens; a message that spells one is text that spells it."""
    _check(messages)
    names = sorted((token.content for token in tokenizer.special_tokens.values()), key=len, reverse=True)
    any_name = re.compile("|".join(map(re.escape, names)) or "(?!)")
    values = [value for message in messages for value in message.values()]
    spelled = sorted({name for value in values for name in any_name.findall(value)})
    used = {*template, *"".join(values)}
    free = (chr(code) for code in PRIVATE if chr(code) not in used)
    mark_of = dict(zip(spelled, free, strict=False))
    name_of = {mark: name for name, mark in mark_of.items()}
    disguised = [
        {key: any_name.sub(lambda name: mark_of[name[0]], value) for key, value in message.items()}
        for message in messages
    ]
    text = render_chat(template, disguised, specials=specials)
    if not text:
        raise DataError("the chat template wrote nothing for these messages: there is nothing to answer")
    return tokenizer.encode_around(
        stretch if isinstance(stretch, int) else "".join(name_of.get(mark, mark) for mark in stretch)
        for stretch in _cut(tokenizer, text)
    )


def _cut(tokenizer: Tokenizer, text: str) -> Iterator[str | int]:
    """A text at its special tokens; some of these take the blanks beside them."""
    longest_first = sorted(tokenizer.special_tokens.items(), key=lambda item: -len(item[1].content))
    patterns = [
        (r"\s*" if token.lstrip else "") + f"({re.escape(token.content)})" + (r"\s*" if token.rstrip else "")
        for _, token in longest_first
    ]
    place = 0
    for match in re.finditer("|".join(patterns) or "(?!)", text):
        if match.start() > place:
            yield text[place : match.start()]
        assert match.lastindex is not None
        yield longest_first[match.lastindex - 1][0]
        place = match.end()
    if place < len(text):
        yield text[place:]
