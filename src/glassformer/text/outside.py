"""Pipelines made elsewhere: what a tokenizer.json says of how its tokens spell a text."""

import copy
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Self

import tokenizers

OPEN, CLOSE, OTHER = "\ufdd0", "\ufdd1", "\uffff"
"""Code points that are no characters: round the name of a token that no text must be cut into, and what stands for one
of them in a text that holds one nevertheless."""

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_INNER = ("normalizers", "pretokenizers", "decoders", "processors")


def hidden(name: str) -> str:
    """The name of a token that no text is cut into."""
    return f"{OPEN}{name}{CLOSE}"


def pipeline(spec: dict[str, Any]) -> tokenizers.Tokenizer:
    """Special tokens are not read out of a text there either."""
    made = tokenizers.Tokenizer.from_str(json.dumps(spec))
    made.encode_special_tokens = True
    return made


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
        """By the decoder of a tokenizer.json: it turns names into text."""
        found = list(steps(spec["decoder"]))
        types = [step["type"] for step in found]
        blank = [step["replacement"] for step in found if step["type"] == "Metaspace"]
        replaced = [step for step in found if step["type"] == "Replace" and step["content"] == " "]
        blank += [step["pattern"]["String"] for step in replaced if "String" in step["pattern"]]
        inside = [step["prefix"] for step in found if step["type"] == "WordPiece"]
        return cls(
            types == ["ByteLevel"], blank[0] if blank else None, "ByteFallback" in types, inside[0] if inside else None
        )

    def is_byte(self, name: str) -> bool:
        """Whether it stands for one byte, which may be part of a character."""
        return self.fallback and _BYTE.fullmatch(name) is not None

    def spelt(self, name: str) -> bytes:
        """The bytes that a token of this name stands for."""
        if self.byte_marks and all(mark in BYTES for mark in name):
            return bytes(BYTES[mark] for mark in name)
        if self.fallback and (byte := _BYTE.fullmatch(name)):
            return bytes([int(byte[1], 16)])
        if self.blank is not None:
            return name.strip(OPEN + CLOSE).replace(self.blank, " ").encode()
        if self.inside is not None:
            return name.removeprefix(self.inside).encode()
        return name.encode()


def misreads(spec: dict[str, Any]) -> bool:
    """Whether a text can be cut into a special token by its name alone.

    Unigram holds them among its pieces; a word of WordPiece or WordLevel may be spelt like one. BPE merges none.
    """
    return str(spec["model"]["type"]) != "BPE"


def without_specials(spec: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The same pipeline, with the same ids, in which special tokens have names that stand in no text."""
    made = copy.deepcopy(spec)
    model = made["model"]
    renamed = {name: hidden(name) for name in names if name != model.get("unk_token")}
    if isinstance(model["vocab"], list):
        model["vocab"] = [[renamed.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {renamed.get(piece, piece): id for piece, id in model["vocab"].items()}
    for token in made["added_tokens"]:
        token["content"] = renamed.get(token["content"], token["content"])
    other = {"type": "Replace", "pattern": {"String": OPEN}, "content": OTHER}
    made["normalizer"] = {"type": "Sequence", "normalizers": [other, *steps(made["normalizer"])]}
    made["post_processor"] = None
    return made


def going_on(spec: dict[str, Any]) -> dict[str, Any] | None:
    """The pipeline for a stretch that does not begin a text; None where that makes no difference."""
    made = copy.deepcopy(spec)
    first = [step for step in steps(made["pre_tokenizer"]) if step.get("prepend_scheme") == "first"]
    for step in first:
        step["prepend_scheme"] = "never"
    return made if first else None


def trims(spec: dict[str, Any]) -> bool:
    """Whether the places of tokens leave out the blanks that the tokens hold."""
    return any(step.get("trim_offsets") for step in steps(spec["post_processor"]))


def _byte_marks() -> dict[str, int]:
    """Byte-level BPE writes each byte as one visible character: itself if it has a shape, else one from 256 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + number): byte for number, byte in enumerate(hidden)}


BYTES = _byte_marks()
