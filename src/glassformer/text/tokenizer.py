"""From text to token ids and back: characters, words or byte pairs, one class for all three."""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import TokenizerSettings
from glassformer.text import pipelines
from glassformer.text.pieces import DISTINCT, MEGABYTE, few_distinct, pieces, sampled, utf8
from glassformer.text.words import Numberer, Remembered

BATCH = 1 << 20
"""Characters that Rust encodes in one call: enough to keep every core busy, few enough for little memory."""


class Piece(NamedTuple):
    """A token and the characters [start, end) of the text it stands for."""

    id: int
    text: str
    start: int
    end: int


def _silent(line: str) -> None:
    pass


class Tokenizer:
    """A pipeline of the Rust library, and what this house asks of it.

    Special tokens are never read out of a text: one that says "<pad>" is text that says "<pad>".
    """

    def __init__(self, rust: tokenizers.Tokenizer) -> None:
        rust.encode_special_tokens = True  # not kept in the file, so set for every tokenizer
        rust.no_truncation()  # a file made elsewhere may cut and pad
        rust.no_padding()
        self._rust = rust
        self._spec: dict[str, Any] = json.loads(rust.to_str())
        self.kind = pipelines.kind_of(self._spec)
        """"char", "word", "bpe", or "other" for a pipeline made elsewhere."""
        self.vocab_size = max(rust.get_vocab().values()) + 1
        """One more than the largest id: the rows that an embedding needs."""
        self.pad: int | None = rust.token_to_id(pipelines.PAD)
        self.start: int | None = rust.token_to_id(pipelines.START)
        self.end: int | None = rust.token_to_id(pipelines.END)
        self.unk: int | None = rust.token_to_id(pipelines.UNKNOWN)
        self.specials = frozenset(id for id, token in rust.get_added_tokens_decoder().items() if token.special)
        """Ids that stand for no text; decoding leaves them out."""
        self.space: int | None = rust.token_to_id(" ") if self.kind == "char" else None
        """Of characters, the one that parts words."""

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        settings: TokenizerSettings,
        say: Callable[[str], None] = _silent,
        total_bytes: int | None = None,
        encoded_next: bool = False,
    ) -> Self:
        """Learn the tokens of these texts, which are read once and not kept; or load `settings.file`.

        `total_bytes`, where known, lets a corpus beyond `settings.sample_mb` be sampled evenly. `encoded_next`: the
        texts are held anyway and are the next to be encoded, so that how words were cut is remembered until then.
        """
        if settings.file is not None:
            return cls.load(settings.file)
        sample = sampled(texts, settings.sample_mb * MEGABYTE, total_bytes, say)
        if settings.kind == "bpe":
            sample = few_distinct(sample, DISTINCT, say)
        first = next(sample, None)
        if first is None:
            raise DataError("the text yields no tokens: it is empty")
        sample = itertools.chain([first], sample)
        if settings.kind != "word" or not encoded_next:
            return cls(pipelines.train(sample, settings))
        remembered = Remembered(sample)
        tokenizer = cls(pipelines.train(remembered, settings))
        assert tokenizer.unk is not None
        tokenizer._numberer = Numberer(tokenizer._rust, tokenizer.unk, remembered)
        return tokenizer

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The tokenizer of a tokenizer.json, ours or one made elsewhere."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot read the tokenizer {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise DataError(f"{path} is no tokenizer.json: it is not text") from None
        return cls.from_json(text, str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one tokenizer.json: whole, or not at all."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            temporary.write_text(self.to_json(), encoding="utf-8")
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def from_json(cls, text: str, name: str = "this text") -> Self:
        """The tokenizer that `to_json` wrote. `name` is what an error calls it."""
        try:
            rust = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises nothing more exact
            raise DataError(f"{name} is no tokenizer.json, or a damaged one: {error}") from None
        if not rust.get_vocab_size():
            raise DataError(f"{name} is a tokenizer without tokens")
        return cls(rust)

    def to_json(self) -> str:
        return str(self._rust.to_str(pretty=True))

    @cached_property
    def hash(self) -> str:
        """Equal for tokenizers that do the same."""
        canonical = json.dumps(self._spec, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, vocabulary of {self.vocab_size:,})"

    def __len__(self) -> int:
        return self.vocab_size

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.encode_batch([text])[0].tolist()
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text. A long text costs little more memory than its ids."""
        if self.kind == "word" and self.unk is not None:
            for text in texts:
                utf8(text)
            return self._numberer.ids(texts)
        parts: list[list[NDArray[np.int32]]] = [[np.empty(0, np.int32)] for _ in texts]
        for batch in self._batches(texts):
            encodings = self._rust.encode_batch_fast([piece for _, piece in batch], add_special_tokens=False)
            for (number, _), encoding in zip(batch, encodings, strict=True):
                parts[number].append(np.array(encoding.ids, np.int32))
        return [np.concatenate(part) for part in parts]

    @cached_property
    def _numberer(self) -> Numberer:
        assert self.unk is not None
        return Numberer(self._rust, self.unk)

    def _batches(self, texts: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
        """The texts in pieces, each with the number of its text, `BATCH` characters together."""
        batch: list[tuple[int, str]] = []
        size = 0
        for number, text in enumerate(texts):
            for piece in self._pieces(text):
                utf8(piece)
                batch.append((number, piece))
                size += len(piece)
                if size >= BATCH:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def _pieces(self, text: str) -> Iterable[str]:
        if self.kind == "other":
            return [text]  # nobody knows what that pipeline looks across
        return pieces(text, slack=0 if self.kind == "char" else len(text))

    def encode_with_offsets(self, text: str) -> list[Piece]:
        """The tokens with their places in the text, for pictures. Bytes of one character share its place."""
        utf8(text)
        encoding = self._rust.encode(text, add_special_tokens=False)
        places = zip(encoding.ids, encoding.offsets, strict=True)
        return [Piece(id, self.token(id), start, end) for id, (start, end) in places]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; special tokens are left out."""
        return str(self._rust.decode(list(ids)))

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return list(self._rust.decode_batch([list(ids) for ids in batch]))

    def token(self, id: int) -> str:
        r"""A token as a person reads it: the text it stands for; bytes that are part of a character as `\xe2`."""
        return self.token_bytes(id).decode(errors="backslashreplace")

    def shown(self, id: int) -> str:
        """A token as text; special ones by name."""
        names = {self.pad: "<pad>", self.start: "<start>", self.end: "<end>", self.unk: "<unk>"}
        return names[id] if id in names else self.token(id)

    def token_bytes(self, id: int) -> bytes:
        """The bytes a token stands for: with BPE they need not be whole characters."""
        token = self._rust.id_to_token(id)
        if token is None:
            raise IndexError(f"there is no token {id}: the tokenizer has {self.vocab_size}")
        if self.kind == "bpe" and all(mark in BYTES for mark in token):
            return bytes(BYTES[mark] for mark in token)
        return str(token).encode()

    @cached_property
    def merge_table(self) -> dict[tuple[int, int], tuple[int, int]]:
        """BPE's merges, first learned first: the ids of a pair → (rank, id of the two as one)."""
        if self.kind != "bpe":
            return {}
        vocabulary: dict[str, int] = self._spec["model"]["vocab"]
        merges = enumerate(self._spec["model"]["merges"])
        return {(vocabulary[a], vocabulary[b]): (rank, vocabulary[a + b]) for rank, (a, b) in merges}

    @property
    def merges(self) -> list[tuple[str, str]]:
        """BPE's merges as a person reads them, first learned first."""
        return [(self.token(left), self.token(right)) for left, right in self.merge_table]

    def single_bytes(self, text: str) -> list[list[int]]:
        """Where BPE starts: the ids of the text's bytes, one list for each stretch that merges stay within."""
        utf8(text)
        vocabulary = self._spec["model"]["vocab"]
        stretches = self._rust.pre_tokenizer.pre_tokenize_str(text)
        return [[vocabulary[mark] for mark in stretch] for stretch, _ in stretches]


def _byte_marks() -> dict[str, int]:
    """Byte-level BPE writes each byte as one visible character: itself if it has a shape, else one from 256 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + number): byte for number, byte in enumerate(hidden)}


BYTES = _byte_marks()
