"""Chat messages as the text that a model was trained on, rendered by the model's chat template."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from glassformer.config.errors import DataError, Misuse, with_article
from glassformer.text.tokenizer import Tokenizer

Message = Mapping[str, str]
"""Keys `role` (system, user, assistant) and `content`."""

PROGRAM = Path(__file__).with_name("chat_template.py")
"""Script that renders a template in a process of its own."""

MAX_CHARS = 4_000_000
"""Maximum number of characters that a template may write."""
CPU_SECONDS = 5
"""CPU time limit of a template."""
TIMEOUT = 60
"""Wall-clock limit; starting a process can take long on a busy machine."""
PRIVATE = range(0xF0000, 0xFFFFE)
"""Private-use code points that replace the names of special tokens while a template is rendered."""


def specials_of(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the special tokens under the names that templates use, such as `bos_token`."""
    roles = tokenizer.roles
    ids = {"bos": roles.start, "eos": roles.end, "pad": roles.pad, "unk": roles.unk, "mask": roles.mask}
    return {f"{part}_token": tokenizer.token(id) for part, id in ids.items() if id is not None}


def render_chat(template: str, messages: Sequence[Message], *, specials: Mapping[str, str]) -> str:
    """Return the text of a chat up to the assistant's next answer.

    The template is untrusted code. It runs in Jinja's sandbox in a process of its own, with limits on CPU time and
    memory. `specials` maps names such as `bos_token` to tokens.
    """
    _check(messages)
    request = {
        "template": template,
        "messages": messages,
        "specials": dict(specials),
        "max_chars": MAX_CHARS,
        "seconds": CPU_SECONDS,
    }
    command, request_bytes = [sys.executable, "-P", str(PROGRAM)], json.dumps(request, default=dict).encode()
    try:
        process = subprocess.run(command, input=request_bytes, capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise DataError(f"the chat template wrote nothing within {TIMEOUT} s: it does not end") from None
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
    """Return the token ids of a chat.

    Special tokens of the template become special tokens. A message that spells the name of one remains plain text.
    """
    _check(messages)
    names = sorted((token.content for token in tokenizer.special_tokens.values()), key=len, reverse=True)
    any_name = re.compile("|".join(map(re.escape, names)) or "(?!)")
    values = [value for message in messages for value in message.values()]
    spelled_names = sorted({name for value in values for name in any_name.findall(value)})
    used = {*template, *"".join(values)}
    unused_marks = (chr(code) for code in PRIVATE if chr(code) not in used)
    mark_of = dict(zip(spelled_names, unused_marks, strict=False))
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
        for stretch in _split_at_specials(tokenizer, text)
    )


def _split_at_specials(tokenizer: Tokenizer, text: str) -> Iterator[str | int]:
    """Yield the text between special tokens and the ids of the special tokens.

    Some special tokens include the whitespace beside them.
    """
    longest_first = sorted(tokenizer.special_tokens.items(), key=lambda item: -len(item[1].content))
    patterns = [
        (r"\s*" if token.lstrip else "") + f"({re.escape(token.content)})" + (r"\s*" if token.rstrip else "")
        for _, token in longest_first
    ]
    start = 0
    for match in re.finditer("|".join(patterns) or "(?!)", text):
        if match.start() > start:
            yield text[start : match.start()]
        assert match.lastindex is not None
        yield longest_first[match.lastindex - 1][0]
        start = match.end()
    if start < len(text):
        yield text[start:]
