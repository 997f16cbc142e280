"""Third-party tokenizer pipelines: how their tokens spell a text, and encoding without special tokens."""

import base64
import contextlib
import copy
import json
import math
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import tokenizers

from glassformer.config.errors import DataError, first_line
from glassformer.config.json_types import JsonObject
from glassformer.config.limits import most_of, refuse_beyond

OPEN, CLOSE, OTHER = "\ufdd0", "\ufdd1", "\uffff"
"""Unicode noncharacters. OPEN and CLOSE surround the names of tokens that no text may produce.

OTHER replaces a noncharacter that occurs in a text nevertheless.
"""

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_INNER = ("normalizers", "pretokenizers", "decoders", "processors")


def hide(name: str) -> str:
    """Return a name that no text can produce for a token."""
    return f"{OPEN}{name}{CLOSE}"


def pipeline(spec: JsonObject) -> tokenizers.Tokenizer:
    """Return the pipeline of a tokenizer.json; it does not recognise special tokens in a text."""
    rust = tokenizers.Tokenizer.from_str(json.dumps(spec))
    rust.encode_special_tokens = True
    return rust


def steps(part: JsonObject | None) -> Iterator[JsonObject]:
    """Yield the steps of a pipeline component: the component itself, or those of a sequence at any depth."""
    if part is None:
        return
    if part["type"] != "Sequence":
        yield part
    for name in _INNER:
        for inner in part.get(name, ()):
            yield from steps(inner)


@dataclass(frozen=True)
class Spelling:
    """How the names of tokens spell text."""

    byte_marks: bool
    """Each character of a name is a byte, and a text is the concatenation of the bytes of its tokens."""
    blank: str | None
    """Replacement for a blank in the names; None if there is none."""
    fallback: bool
    """Names such as `<0xE4>` are single bytes of characters outside the vocabulary."""
    inside: str | None
    """Prefix of a token that continues a word ("##"); None if there is none."""

    @classmethod
    def of(cls, spec: JsonObject) -> Self:
        """Return the spelling that the decoder of a tokenizer.json reverses."""
        decoders = list(steps(spec["decoder"]))
        types = [step["type"] for step in decoders]
        blanks = [step["replacement"] for step in decoders if step["type"] == "Metaspace"]
        replacements = [step for step in decoders if step["type"] == "Replace" and step["content"] == " "]
        blanks += [step["pattern"]["String"] for step in replacements if "String" in step["pattern"]]
        prefixes = [step["prefix"] for step in decoders if step["type"] == "WordPiece"]
        return cls(
            byte_marks=types == ["ByteLevel"],
            blank=next(iter(blanks), None),
            fallback="ByteFallback" in types,
            inside=next(iter(prefixes), None),
        )

    def is_byte(self, name: str) -> bool:
        """Return whether the name is a single byte, which may be part of a character."""
        return self.fallback and _BYTE.fullmatch(name) is not None

    def bytes_of(self, name: str) -> bytes:
        """Return the bytes of the token with this name."""
        if self.byte_marks and all(mark in BYTES for mark in name):
            return bytes(BYTES[mark] for mark in name)
        if self.fallback and (byte := _BYTE.fullmatch(name)):
            return bytes([int(byte[1], 16)])
        if self.blank is not None:
            return name.strip(OPEN + CLOSE).replace(self.blank, " ").encode()
        return name.removeprefix(self.inside or "").encode()


_STDERR = threading.Lock()
"""Lock of the thread that has redirected stderr, which the whole process shares."""


@contextlib.contextmanager
def patterns_at_work() -> Iterator[None]:
    """Turn the panic of a regular expression that gives up on a text into a `DataError`.

    A panic of the Rust library also prints a report, so stderr is redirected meanwhile.
    """
    with _STDERR:
        try:
            saved_stderr = os.dup(2)
        except OSError:  # there is no stderr
            saved_stderr = None
        devnull = os.open(os.devnull, os.O_WRONLY)
        try:
            if saved_stderr is not None:
                os.dup2(devnull, 2)
            yield
        except BaseException as error:  # PanicException derives from BaseException
            if type(error).__name__ != "PanicException":
                raise
            raise DataError(f"the tokenizer's pattern gives up on this text: {first_line(error)}") from None
        finally:
            if saved_stderr is not None:
                os.dup2(saved_stderr, 2)
                os.close(saved_stderr)
            os.close(devnull)


class SafeEncoder:
    """Encoder that never produces a special token from a text.

    A text that the pipeline would read as a special token is encoded by a second pipeline without special tokens.
    """

    def __init__(
        self,
        rust: tokenizers.Tokenizer,
        spec: JsonObject,
        specials: Mapping[int, tokenizers.AddedToken],
        unk: int | None,
    ) -> None:
        """Create the encoder of a pipeline; `spec` is its tokenizer.json."""
        self._rust = rust
        self._spec = spec
        self._specials = {id: token.content for id, token in specials.items()}
        self._unk = unk
        self._growth = growth(spec["normalizer"])
        has_patterns = '"Regex"' in json.dumps([spec.get("normalizer"), spec.get("pre_tokenizer")])
        self._guard = patterns_at_work if has_patterns else contextlib.nullcontext

    def ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the ids of one text after another, because Python integers need much more memory than Rust's."""
        with self._guard():
            self._refuse_growth(texts)
            encodings = self._rust.encode_batch_fast(texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            yield self._checked(text, encoding).ids

    def with_offsets(self, text: str) -> tokenizers.Encoding:
        """Return the tokens with their character offsets, which include their blanks."""
        with self._guard():
            self._refuse_growth([text])
            encoding = self._with_blanks.encode(text, add_special_tokens=False)
        return self._checked(text, encoding)

    def _refuse_growth(self, texts: Sequence[str]) -> None:
        """Refuse a text that the normaliser would make far longer; check the length after each step."""
        for text in texts:
            if len(text) * self._growth <= most_of("field_bytes"):
                continue
            max_length, original = MAX_GROWTH * len(text), len(text)
            for step in steps(self._spec["normalizer"]):
                length = _length_after(step, text)
                if length > max_length:
                    what = f"the tokenizer makes {{}} and more of a text of {original:,} characters"
                    refuse_beyond("field_bytes", length, what)
                text = pipeline({**_ONE_TOKEN, "normalizer": step}).normalizer.normalize_str(text)

    def _checked(self, text: str, encoding: tokenizers.Encoding) -> tokenizers.Encoding:
        return self._wary.encode(text, add_special_tokens=False) if self._misread(text, encoding.ids) else encoding

    def _misread(self, text: str, ids: list[int]) -> bool:
        """Return whether the pipeline produced special tokens from a text that only spells their names.

        Unigram has special tokens in its vocabulary, and a WordPiece or WordLevel word may be spelt like one. BPE
        merges never produce one.
        """
        if self._spec["model"]["type"] == "BPE":
            return False
        specials = self._specials.keys() & ids
        return bool(specials) and (specials != {self._unk} or self._specials[min(specials)] in text)

    @cached_property
    def _wary(self) -> tokenizers.Tokenizer:
        """Pipeline for texts that spell the name of a special token."""
        return pipeline(_without_specials(self._spec, set(self._specials.values())))

    @cached_property
    def _with_blanks(self) -> tokenizers.Tokenizer:
        """Pipeline whose token offsets include blanks."""
        trims = any(step.get("trim_offsets") for step in steps(self._spec["post_processor"]))
        return pipeline({**self._spec, "post_processor": None}) if trims else self._rust


# --- growth of a text in a pipeline ---

MAX_GROWTH = 64
"""Maximum factor by which a normaliser may lengthen any text."""
_ONE_TOKEN = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
_SAME_LENGTH = ("Fuse", "Strip", "ByteFallback", "ByteLevel", "WordPiece", "Metaspace", "CTC", "BPEDecoder", "Nmt")


def growth(part: JsonObject | None) -> float:
    """Return an upper bound of the factor by which a normaliser or a decoder lengthens a text."""
    return math.prod(_factor(step) for step in steps(part))


def _factor(step: JsonObject) -> float:
    if step["type"] == "Replace":
        pattern = step["pattern"].get("String")
        return max(1.0, len(step["content"]) / len(pattern)) if pattern else 1.0 + len(step["content"])
    if step["type"] == "Prepend":
        return 1.0 + len(step["prepend"])
    if step["type"] == "Precompiled":
        folding = base64.b64decode(step["precompiled_charsmap"] or "")
        texts = folding[4 + int.from_bytes(folding[:4], "little") :]
        return max(1.0, max(map(len, texts.split(b"\0"))))
    if step["type"].startswith("NF"):
        return 18.0  # the longest Unicode decomposition of a character
    return 1.0 if step["type"] in _SAME_LENGTH else 4.0


def _length_after(step: JsonObject, text: str) -> float:
    """Return an upper bound of the text's length after a step."""
    if step["type"] == "Replace" and (pattern := step["pattern"].get("String")):
        return len(text) + text.count(pattern) * max(0, len(step["content"]) - len(pattern))
    return len(text) * _factor(step)


def _without_specials(spec: JsonObject, names: Collection[str]) -> JsonObject:
    """Return the pipeline with the same ids, in which no text can spell a special token."""
    hidden = copy.deepcopy(spec)
    model = hidden["model"]
    new_names = {name: hide(name) for name in names if name != model.get("unk_token")}
    if isinstance(model["vocab"], list):
        model["vocab"] = [[new_names.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {new_names.get(piece, piece): id for piece, id in model["vocab"].items()}
    for token in hidden["added_tokens"]:
        token["content"] = new_names.get(token["content"], token["content"])
    other = {"type": "Replace", "pattern": {"String": OPEN}, "content": OTHER}
    hidden["normalizer"] = {"type": "Sequence", "normalizers": [other, *steps(hidden["normalizer"])]}
    hidden["post_processor"] = None
    return hidden


def continuation(spec: JsonObject) -> JsonObject | None:
    """Return the pipeline for a part that does not begin a text; None if it is the same pipeline."""
    continued = copy.deepcopy(spec)
    first = [step for step in steps(continued["pre_tokenizer"]) if step.get("prepend_scheme") == "first"]
    for step in first:
        step["prepend_scheme"] = "never"
    return continued if first else None


def _byte_marks() -> dict[str, int]:
    """Return the byte for each character of byte-level BPE.

    A printable byte is its own character; other bytes are characters from 256 on.
    """
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + number): byte for number, byte in enumerate(hidden)}


BYTES = _byte_marks()
