"""SentencePiece files: Unigram pieces and rules that fold characters, as a pipeline with the ids of a vocabulary.

A file is a message of protocol buffers: numbered fields, nested in fields.
"""

import math
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from glassformer.config.errors import DataError
from glassformer.config.limits import read_bytes
from glassformer.text.external_pipeline import CLOSE, OPEN, OTHER, hide

BLANK = "▁"
"""What a blank is written as in a piece."""
CODE = re.compile(r">>.+<<", re.DOTALL)
"""The token of a language, before a text that is to be translated into it."""

FEW = 0.02
"""The share of a file's pieces that a vocabulary may lack: those that no text it was counted on was cut into."""

VARINT, EIGHT, BLOCK, FOUR = 0, 1, 2, 5
"""The kinds of values in a message: a number of any length, eight bytes, a counted block, four bytes."""
LONGEST = 10
"""Bytes of the longest number."""
Value = int | memoryview
V = TypeVar("V", int, memoryview)
NO_BYTES = memoryview(b"")
PIECE, TRAINER, NORMALIZER = 1, 2, 3
"""The fields of a file."""
UNIGRAM = 1
KINDS = {1: "Unigram", 2: "BPE", 3: "words", 4: "characters"}
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True)
class Pieces:
    """What a SentencePiece file of Unigram kind holds."""

    name: str
    scores: Mapping[str, float]
    """The score of each piece that a text can be cut into."""
    folding: bytes
    """Rules from characters to characters, in the library's own form; empty where there are none."""
    starts_with_blank: bool
    """A blank is put before every text."""
    few_blanks: bool
    """Blanks at the ends go, and several together become one."""


def read_pieces(path: Path) -> Pieces:
    """Read a SentencePiece file; raise `DataError` for a damaged one, or for one of another kind than Unigram."""
    try:
        return _read_pieces(str(path), memoryview(read_bytes(path)))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, struct.error) as error:
        raise DataError(f"{path} is damaged, or no SentencePiece file: {error}") from None


def _read_pieces(name: str, data: memoryview) -> Pieces:
    scores: dict[str, float] = {}
    settings: dict[int, dict[int, Value]] = {TRAINER: {}, NORMALIZER: {}}
    for field, value in _fields(data):
        if field == PIECE:
            piece, score, use = _piece(_typed(value, memoryview))
            if use in (USER, BYTE):
                what = "pieces chosen by hand" if use == USER else "single bytes"
                raise DataError(f"{name} holds {what} ({piece!r}), which cannot be read: only Unigram pieces can")
            if use == NORMAL:
                scores[piece] = score
        elif field in settings:
            settings[field].update(_fields(_typed(value, memoryview)))
    trainer, normalizer = settings.values()
    kind, suffix = _typed(trainer.get(3, UNIGRAM), int), _typed(trainer.get(24, 0), int)
    folding = bytes(_typed(normalizer.get(2, NO_BYTES), memoryview))
    starts_with_blank, few_blanks, escaped = (bool(_typed(normalizer.get(at, 1), int)) for at in (3, 4, 5))
    if kind != UNIGRAM:
        raise DataError(f"{name} is a SentencePiece file of kind {KINDS.get(kind, kind)}: only Unigram can be read")
    if suffix or not escaped:
        raise DataError(f"{name} writes blanks in another way than before a word as {BLANK}: it cannot be read")
    if not scores:
        raise ValueError("it holds no pieces")
    if folding and not _whole(folding):
        raise ValueError("its rules for characters lead nowhere")
    return Pieces(name, scores, folding, starts_with_blank, few_blanks)


def _piece(data: memoryview) -> tuple[str, float, int]:
    """Return a piece, its score and its use."""
    fields = dict(_fields(data))
    (score,) = struct.unpack("<f", _typed(fields.get(2, memoryview(bytes(4))), memoryview))
    piece = bytes(_typed(fields.get(1, NO_BYTES), memoryview)).decode()
    if not piece or not math.isfinite(score):
        raise ValueError(f"the piece {piece!r} has the score {score}")
    return piece, score, _typed(fields.get(3, NORMAL), int)


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message: the number of each, and its value, a number or bytes.

    Nothing is copied. Raise ValueError for a length that leads out of the message.
    """
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind, field = key & 7, key >> 3
        if kind == VARINT:
            value, place = _varint(data, place)
            yield field, value
            continue
        if kind == BLOCK:
            size, place = _varint(data, place)
        elif kind in (EIGHT, FOUR):
            size = 8 if kind == EIGHT else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if size > len(data) - place:
            raise ValueError(f"a field of {size} bytes ends outside it")
        yield field, data[place : place + size]
        place += size


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """Return a number of any length, and the place after it."""
    value = 0
    for step, byte in enumerate(data[place : place + LONGEST]):
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            return value, place + step + 1
    raise ValueError("a number does not end")


def _typed(value: Value, kind: type[V]) -> V:
    """Return a field's value, which must be a number or bytes."""
    if not isinstance(value, kind):
        raise ValueError("a number where bytes belong, or bytes where a number belongs")
    return value


def _whole(folding: bytes) -> bool:
    """Whether the rules hold together: Rust follows them unchecked.

    They are the size of a trie, the trie, and the texts that its leaves point into, each ended by a zero. A node is
    four bytes: with the highest bit set a leaf, else the way to its 256 children, and whether the first is a leaf.
    """
    size = int.from_bytes(folding[:4], "little")
    if len(folding) < 4 or size % 4 or not 0 < size <= len(folding) - 4:
        return False
    nodes, texts = np.frombuffer(folding, "<u4", size // 4, 4), np.frombuffer(folding, np.uint8, -1, 4 + size)
    inner = nodes >> 31 == 0
    inner[0] = True  # the root, whatever it says
    children = np.arange(len(nodes)) ^ (nodes.astype(np.int64) >> 10 << (nodes >> 6 & 8))
    if not len(texts) or texts[-1] or ((children | 0xFF)[inner] >= len(nodes)).any():
        return False
    places = nodes[children[inner & (nodes >> 8 & 1 == 1)]] & 0x7FFFFFFF
    if (places >= len(texts)).any() or (texts[places] >> 6 == 2).any():
        return False
    try:
        texts.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def pipeline(
    pieces: Pieces, vocabulary: Mapping[str, int], *, unknown: str, specials: Collection[str], vocabulary_name: str
) -> tokenizers.Tokenizer:
    """Texts are cut into the file's pieces, and these have the ids of the vocabulary.

    What else the vocabulary holds keeps its id. A stretch of characters that stand in no piece is looked up there as a
    whole, as it was when the model was trained: the normaliser puts marks that no text holds on both sides of it, and
    the names of these tokens have them too. So no known character is ever cut into them. A language's code
    (`>>fra<<`) is the token it is, at the start of a text; a code that the vocabulary lacks is unknown. `specials` keep
    their names, by which they are known.
    """
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise DataError(f"{vocabulary_name} does not number its {len(vocabulary)} tokens from 0 on")
    if unknown not in vocabulary:
        raise DataError(f"{vocabulary_name} lacks {unknown}, the token of what is unknown")
    lacking = [piece for piece in pieces.scores if piece not in vocabulary]
    if len(lacking) > FEW * len(pieces.scores):
        raise DataError(
            f"{vocabulary_name} lacks {lacking[0]!r} and {len(lacking) - 1} more pieces of {pieces.name}: "
            "the two do not belong together"
        )
    codes = [re.escape(token[2:-2]) for token in vocabulary if CODE.fullmatch(token)]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    names = [token if token in pieces.scores or token in specials else hide(token) for token in tokens]
    scored = [(name, pieces.scores.get(name, 0.0)) for name in names]
    rust = tokenizers.Tokenizer(models.Unigram(scored, unk_id=vocabulary[unknown], byte_fallback=False))
    rust.normalizer = _normalizer(pieces, codes)
    rust.pre_tokenizer = pre_tokenizers.Split(Regex(_marked(codes)), "isolated")
    rust.add_special_tokens([token for token in tokens if token in specials])
    rust.decoder = decoders.Sequence(
        [decoders.Replace(OPEN, ""), decoders.Replace(CLOSE, ""), decoders.Metaspace(BLANK, "always")]
    )
    return rust


def _marked(codes: list[str]) -> str:
    """The start of a text that begins with a code, as the normaliser leaves it: marked, or only a mark if unknown."""
    return rf"\A{OPEN}(?:>>(?:{'|'.join(codes)})<<{CLOSE})?+" if codes else rf"\A{OPEN}"


def _normalizer(pieces: Pieces, codes: list[str]) -> normalizers.Normalizer:
    """Codes marked; characters folded; blanks as they are in pieces; stretches of strange characters marked.

    The library cannot put something before the first character in any other way than by `Prepend`.
    """
    known = rf">(?:{'|'.join(codes)})<" if codes else "(?!)"
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace(Regex(f"[{OPEN}{CLOSE}]"), OTHER),
        normalizers.Replace(Regex(rf"\A(?!>{known}<)>>(?m:.*?)<<"), OPEN),
        normalizers.Replace(Regex(rf"\A>(?={known}<)"), f"{OPEN}>"),
        normalizers.Replace(Regex(rf"\A{OPEN}>{known}\K<"), f"<{CLOSE}"),
    ]
    if pieces.folding:
        try:
            steps.append(normalizers.Precompiled(pieces.folding))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # what Rust gave up on is no Exception
            raise DataError(f"{pieces.name} is damaged: its rules for characters cannot be read") from None
    if pieces.few_blanks:
        steps += [
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex(r"\A +| +\z"), ""),
            normalizers.Replace(Regex(rf"{_marked(codes)}\K +"), ""),
        ]
    steps += [normalizers.Prepend(" "), normalizers.Replace(Regex(rf"\A (?={OPEN})"), "")]
    if pieces.starts_with_blank:
        steps.append(normalizers.Replace(Regex(rf"{_marked(codes)}\K(?=(?m:.))"), " "))
    familiar = {OPEN, CLOSE, BLANK, *"".join(pieces.scores)}
    strange = "[^" + "".join(rf"\x{{{ord(mark):x}}}" for mark in sorted(familiar)) + "]"
    longest = max((len(code) for code in codes), default=0) + 4
    outside = f"(?![^{CLOSE}]{{0,{longest}}}{CLOSE})"  # of a code: no other mark stands in the text yet
    steps += [
        normalizers.Replace(" ", BLANK),
        normalizers.Replace(Regex(rf"(?<!{strange})(?={strange}){outside}"), OPEN),
        normalizers.Replace(Regex(rf"(?<={strange})(?!{strange}){outside}"), CLOSE),
    ]
    if not pieces.starts_with_blank:
        steps.append(normalizers.Replace(Regex(rf"\A{BLANK}"), ""))
    return normalizers.Sequence(steps)
