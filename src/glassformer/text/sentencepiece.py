"""SentencePiece files with Unigram pieces and normalisation rules, as a pipeline with the ids of a vocabulary.

A file is a protocol buffer message: numbered fields, nested in fields.
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
"""Replacement for a blank in a piece."""
CODE = re.compile(r">>.+<<", re.DOTALL)
"""Language token at the beginning of a source text, such as `>>fra<<`."""

MAX_MISSING = 0.02
"""Maximum share of the file's pieces that the vocabulary may lack: pieces that its corpus did not need."""

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types of protocol buffers."""
MAX_VARINT_BYTES = 10
"""Maximum length of a varint."""
Value = int | memoryview
V = TypeVar("V", int, memoryview)
NO_BYTES = memoryview(b"")
PIECE, TRAINER, NORMALIZER = 1, 2, 3
"""Fields of a file."""
UNIGRAM = 1
KINDS = {1: "Unigram", 2: "BPE", 3: "words", 4: "characters"}
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True)
class Pieces:
    """Content of a SentencePiece file of Unigram kind."""

    name: str
    scores: Mapping[str, float]
    """Score of each piece that a text can be segmented into."""
    folding: bytes
    """Character normalisation rules in the library's binary form; empty if there are none."""
    starts_with_blank: bool
    """Whether a blank is put before every text."""
    few_blanks: bool
    """Whether surrounding blanks are removed and repeated blanks become one."""


def read_pieces(path: Path) -> Pieces:
    """Read a SentencePiece file; raise `DataError` for a damaged file or one of another kind than Unigram."""
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
    if folding and not _is_valid_folding(folding):
        raise ValueError("its rules for characters lead nowhere")
    return Pieces(name, scores, folding, starts_with_blank, few_blanks)


def _piece(data: memoryview) -> tuple[str, float, int]:
    """Return a piece, its score and its type."""
    fields = dict(_fields(data))
    (score,) = struct.unpack("<f", _typed(fields.get(2, memoryview(bytes(4))), memoryview))
    piece = bytes(_typed(fields.get(1, NO_BYTES), memoryview)).decode()
    if not piece or not math.isfinite(score):
        raise ValueError(f"the piece {piece!r} has the score {score}")
    return piece, score, _typed(fields.get(3, NORMAL), int)


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the number and value (an integer or bytes) of each field of a message, without copying.

    Raise ValueError if a length exceeds the message.
    """
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind, field = key & 7, key >> 3
        if kind == VARINT:
            value, position = _varint(data, position)
            yield field, value
            continue
        if kind == LENGTH_DELIMITED:
            size, position = _varint(data, position)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if size > len(data) - position:
            raise ValueError(f"a field of {size} bytes ends outside it")
        yield field, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return a varint and the position after it."""
    value = 0
    for step, byte in enumerate(data[position : position + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            return value, position + step + 1
    raise ValueError("a number does not end")


def _typed(value: Value, kind: type[V]) -> V:
    """Return the value of a field; raise ValueError unless it has this type."""
    if not isinstance(value, kind):
        raise ValueError("a number where bytes belong, or bytes where a number belongs")
    return value


def _is_valid_folding(folding: bytes) -> bool:
    """Return whether the normalisation rules are consistent, because Rust follows them unchecked.

    The rules are the size of a trie, the trie, and the texts that its leaves point to, each with a final zero byte. A
    node has four bytes. With the highest bit set it is a leaf. Otherwise it holds the offset of its 256 children and
    whether the first child is a leaf.
    """
    size = int.from_bytes(folding[:4], "little")
    if len(folding) < 4 or size % 4 or not 0 < size <= len(folding) - 4:
        return False
    nodes, texts = np.frombuffer(folding, "<u4", size // 4, 4), np.frombuffer(folding, np.uint8, -1, 4 + size)
    inner = nodes >> 31 == 0
    inner[0] = True  # the root, whatever its bits
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
    """Return a pipeline that segments texts into the file's pieces, with the ids of the vocabulary.

    Other tokens of the vocabulary keep their ids. A run of characters outside all pieces is looked up as a whole, as it
    was in training: the normaliser surrounds it with marks that no text contains. The names of these tokens get the
    same marks, so that known characters never produce them. A language code (`>>fra<<`) at the beginning of a text is a
    token; a code outside the vocabulary is unknown. `specials` keep their names.
    """
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise DataError(f"{vocabulary_name} does not number its {len(vocabulary)} tokens from 0 on")
    if unknown not in vocabulary:
        raise DataError(f"{vocabulary_name} lacks {unknown}, the token of what is unknown")
    lacking = [piece for piece in pieces.scores if piece not in vocabulary]
    if len(lacking) > MAX_MISSING * len(pieces.scores):
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
    """Return a pattern for the start of a normalised text with a code: the marked code, or only a mark if unknown."""
    return rf"\A{OPEN}(?:>>(?:{'|'.join(codes)})<<{CLOSE})?+" if codes else rf"\A{OPEN}"


def _normalizer(pieces: Pieces, codes: list[str]) -> normalizers.Normalizer:
    """Return the steps: mark codes, fold characters, replace blanks, mark runs of unknown characters.

    The library can put something before the first character only with `Prepend`.
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
        except BaseException:  # PanicException derives from BaseException
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
    outside = f"(?![^{CLOSE}]{{0,{longest}}}{CLOSE})"  # outside a code: the text has no other marks yet
    steps += [
        normalizers.Replace(" ", BLANK),
        normalizers.Replace(Regex(rf"(?<!{strange})(?={strange}){outside}"), OPEN),
        normalizers.Replace(Regex(rf"(?<={strange})(?!{strange}){outside}"), CLOSE),
    ]
    if not pieces.starts_with_blank:
        steps.append(normalizers.Replace(Regex(rf"\A{BLANK}"), ""))
    return normalizers.Sequence(steps)
