"""Pipelines made elsewhere: how their tokens spell a text, and texts read without their special tokens."""

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
from typing import Any, Self

import tokenizers

from glassformer.config.errors import DataError, first_line
from glassformer.config.limits import most_of, refuse_beyond

OPEN, CLOSE, OTHER = "\ufdd0", "\ufdd1", "\uffff"
"""Code points that are no characters: round the name of a token that no text must be cut into, and what stands for one
of them in a text that holds one nevertheless."""

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_INNER = ("normalizers", "pretokenizers", "decoders", "processors")


def hide(name: str) -> str:
    """The name of a token that no text is cut into."""
    return f"{OPEN}{name}{CLOSE}"


def pipeline(spec: dict[str, Any]) -> tokenizers.Tokenizer:
    """The pipeline of a tokenizer.json, which reads no special token out of a text."""
    rust = tokenizers.Tokenizer.from_str(json.dumps(spec))
    rust.encode_special_tokens = True
    return rust


def steps(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The steps of a part of a pipeline: itself, or those of a sequence, however deep."""
    if part is None:
        return
    if part["type"] != "Sequence":
        yield part
    for name in _INNER:
        for inner in part.get(name, ()):
            yield from steps(inner)


@dataclass(frozen=True)
class Spelling:
    """How the names of tokens spell the text they stand for."""

    byte_marks: bool
    """Each letter of a name is a byte, and a text is its tokens' bytes, joined."""
    blank: str | None
    """What a name has for a blank."""
    fallback: bool
    """`<0xE4>` is a byte of a character that is no token."""
    inside: str | None
    """What the name of a piece begins with that goes on with a word."""

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Self:
        """The spelling that the decoder of a tokenizer.json undoes: it turns names into text."""
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
        """Whether it stands for one byte, which may be part of a character."""
        return self.fallback and _BYTE.fullmatch(name) is not None

    def bytes_of(self, name: str) -> bytes:
        """The bytes that a token of this name stands for."""
        if self.byte_marks and all(mark in BYTES for mark in name):
            return bytes(BYTES[mark] for mark in name)
        if self.fallback and (byte := _BYTE.fullmatch(name)):
            return bytes([int(byte[1], 16)])
        if self.blank is not None:
            return name.strip(OPEN + CLOSE).replace(self.blank, " ").encode()
        return name.removeprefix(self.inside or "").encode()


_STDERR = threading.Lock()
"""Held by the thread that has put stderr aside: it is the whole process's."""


@contextlib.contextmanager
def patterns_at_work() -> Iterator[None]:
    """While open, a pattern of somebody else's that gives up on a text is one error of ours: Rust would panic, with a
    page of its own on stderr.
    """
    with _STDERR:
        try:
            kept = os.dup(2)
        except OSError:  # there is no stderr
            kept = None
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            if kept is not None:
                os.dup2(nowhere, 2)
            yield
        except BaseException as error:  # a panic is no Exception
            if type(error).__name__ != "PanicException":
                raise
            raise DataError(f"the tokenizer's pattern gives up on this text: {first_line(error)}") from None
        finally:
            if kept is not None:
                os.dup2(kept, 2)
                os.close(kept)
            os.close(nowhere)


class SafeEncoder:
    """Texts in, ids out. Where a pipeline would take a text for a special token, another reads it that does not."""

    def __init__(
        self,
        rust: tokenizers.Tokenizer,
        spec: dict[str, Any],
        specials: Mapping[int, tokenizers.AddedToken],
        unk: int | None,
    ) -> None:
        """`spec`: what the pipeline's tokenizer.json says."""
        self._rust = rust
        self._spec = spec
        self._specials = {id: token.content for id, token in specials.items()}
        self._unk = unk
        self._growth = growth(spec["normalizer"])
        has_patterns = '"Regex"' in json.dumps([spec.get("normalizer"), spec.get("pre_tokenizer")])
        self._guard = patterns_at_work if has_patterns else contextlib.nullcontext

    def ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The ids of one text after the other: as Python's numbers they take much more memory than Rust's."""
        with self._guard():
            self._refuse_growth(texts)
            encodings = self._rust.encode_batch_fast(texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            yield self._checked(text, encoding).ids

    def with_offsets(self, text: str) -> tokenizers.Encoding:
        """The tokens with their places in the text, where their blanks stand too."""
        with self._guard():
            self._refuse_growth([text])
            encoding = self._with_blanks.encode(text, add_special_tokens=False)
        return self._checked(text, encoding)

    def _refuse_growth(self, texts: Sequence[str]) -> None:
        """Refuse what a chain of replacements would make of a text, where it could be very much: step by step."""
        for text in texts:
            if len(text) * self._growth <= most_of("field_bytes"):
                continue
            most, original = GROWS * len(text), len(text)
            for step in steps(self._spec["normalizer"]):
                longer = _length_after(step, text)
                if longer > most:
                    what = f"the tokenizer makes {{}} and more of a text of {original:,} characters"
                    refuse_beyond("field_bytes", longer, what)
                text = pipeline({**_ONE_TOKEN, "normalizer": step}).normalizer.normalize_str(text)

    def _checked(self, text: str, encoding: tokenizers.Encoding) -> tokenizers.Encoding:
        return self._wary.encode(text, add_special_tokens=False) if self._misread(text, encoding.ids) else encoding

    def _misread(self, text: str, ids: list[int]) -> bool:
        """Whether special tokens were read out of a text that only spells their names.

        Unigram holds them among its pieces; a word of WordPiece or WordLevel may be spelt like one. BPE merges none.
        """
        if self._spec["model"]["type"] == "BPE":
            return False
        specials = self._specials.keys() & ids
        return bool(specials) and (specials != {self._unk} or self._specials[min(specials)] in text)

    @cached_property
    def _wary(self) -> tokenizers.Tokenizer:
        """The pipeline for a text that spells the name of a special token."""
        return pipeline(_without_specials(self._spec, set(self._specials.values())))

    @cached_property
    def _with_blanks(self) -> tokenizers.Tokenizer:
        """The pipeline whose tokens stand where their blanks stand too."""
        trims = any(step.get("trim_offsets") for step in steps(self._spec["post_processor"]))
        return pipeline({**self._spec, "post_processor": None}) if trims else self._rust


# --- how much longer a pipeline makes a text ---

GROWS = 64
"""Times that a text may grow, however long it is."""
_ONE_TOKEN = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
_SAME_LENGTH = ("Fuse", "Strip", "ByteFallback", "ByteLevel", "WordPiece", "Metaspace", "CTC", "BPEDecoder", "Nmt")


def growth(part: dict[str, Any] | None) -> float:
    """Times that a normalizer or a decoder makes a text longer, at most."""
    return math.prod(_factor(step) for step in steps(part))


def _factor(step: dict[str, Any]) -> float:
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
        return 18.0  # the longest that a character is taken apart to
    return 1.0 if step["type"] in _SAME_LENGTH else 4.0


def _length_after(step: dict[str, Any], text: str) -> float:
    """How long a text can be after a step."""
    if step["type"] == "Replace" and (pattern := step["pattern"].get("String")):
        return len(text) + text.count(pattern) * max(0, len(step["content"]) - len(pattern))
    return len(text) * _factor(step)


def _without_specials(spec: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The same pipeline, with the same ids, in which special tokens have names that stand in no text."""
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


def continuation(spec: dict[str, Any]) -> dict[str, Any] | None:
    """The pipeline for a stretch that does not begin a text; None where that makes no difference."""
    going_on = copy.deepcopy(spec)
    first = [step for step in steps(going_on["pre_tokenizer"]) if step.get("prepend_scheme") == "first"]
    for step in first:
        step["prepend_scheme"] = "never"
    return going_on if first else None


def _byte_marks() -> dict[str, int]:
    """Byte-level BPE writes each byte as one visible character: itself if it has a shape, else one from 256 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + number): byte for number, byte in enumerate(hidden)}


BYTES = _byte_marks()
