"""Tokenizers for characters, words and byte pairs, and third-party pipelines, in one class."""

import hashlib
import itertools
import json
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np
import tokenizers
from numpy.typing import NDArray

from glassformer.config.errors import DataError, read_failure, with_article
from glassformer.config.json_types import JsonObject
from glassformer.config.limits import read_text
from glassformer.config.messages import Say, say, takes_listener
from glassformer.config.parts import part_of
from glassformer.config.sections import TokenizerSettings
from glassformer.text import external_pipeline, pipelines
from glassformer.text.pieces import DISTINCT, MEGABYTE, batches, few_distinct, pieces, sampled, utf8

MAX_GROWTH = 1000
"""Maximum factor by which a decoder may lengthen a token. Known decoders replace single characters."""
MAX_GAPS = 1_000_000
"""Maximum number of ids without a token. They cost memory, and only a damaged file has more."""


Texts = list[str] | tuple[str, ...]


class Piece(NamedTuple):
    """A token and the characters [start, end) of the text that it covers."""

    id: int
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Roles:
    """Token ids by purpose; None if a tokenizer has no such token.

    Tokenizers trained here have these tokens by name. The files of a third-party tokenizer declare them, and a run
    stores them in its card.
    """

    pad: int | None = None
    start: int | None = None
    """Token before every document and nowhere else. No model has to predict it."""
    end: int | None = None
    unk: int | None = None
    mask: int | None = None
    """Token that replaces a token to predict."""
    opening: tuple[int, ...] = ()
    """Tokens before a text to label or to generate."""
    closing: tuple[int, ...] = ()
    """Tokens after a text."""
    source: tuple[int, ...] = ()
    """Tokens before a text to translate."""
    stops: tuple[int, ...] = ()
    """Further tokens, besides `end`, that end a generated text."""

    @classmethod
    def from_ids(cls, **ids: int | None) -> Self:
        """Return the roles of a tokenizer trained here: START before each text, END after it, if they exist."""
        around = {"opening": ids.get("start"), "closing": ids.get("end")}
        return cls(**ids, **{place: () if id is None else (id,) for place, id in around.items()})  # type: ignore[arg-type]

    @property
    def ends(self) -> tuple[int, ...]:
        """All ids that end a generated text."""
        return self.stops if self.end is None else (self.end, *self.stops)

    @property
    def marks(self) -> frozenset[int]:
        """All ids before and after texts."""
        return frozenset({*self.opening, *self.closing, *self.source, self.start, self.end} - {None})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, object]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the roles that `to_json` wrote; raise TypeError or ValueError for anything else."""
        values: JsonObject = {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
        roles = cls(**values)
        for role in fields(cls):
            item, several = getattr(roles, role.name), role.default == ()
            ids = (item,) if isinstance(item, int) else item or ()
            if isinstance(item, tuple) != several or not all(type(id) is int and id >= 0 for id in ids):
                wanted = "a list of token ids" if several else "a token id or null"
                raise ValueError(f"{role.name} is {item!r:.80}, but must be {wanted}")
        return roles


class Tokenizer:
    """A text tokenizer: a pipeline of the `tokenizers` library with the roles of its special tokens.

    It never produces special tokens from a text: "<pad>" in a text is plain text.
    """

    def __init__(self, rust: tokenizers.Tokenizer, roles: Roles | None = None) -> None:
        """Create a tokenizer; without `roles`, the special tokens are found by their names."""
        rust.encode_special_tokens = True  # not stored in tokenizer.json
        rust.no_truncation()  # a third-party file may truncate and pad
        rust.no_padding()
        self._rust = rust
        self._spec: JsonObject = json.loads(rust.to_str())
        self.kind = pipelines.kind_of(self._spec)
        """"char", "word", "bpe", or "other" for a pipeline made elsewhere."""
        self.vocab_size = max(rust.get_vocab().values()) + 1
        """Largest id plus one: the number of rows of an embedding."""
        self.roles = roles or Roles.from_ids(**{role: rust.token_to_id(name) for role, name in pipelines.NAMES.items()})
        self.pad, self.start, self.end = self.roles.pad, self.roles.start, self.roles.end
        self.unk, self.mask = self.roles.unk, self.roles.mask
        self.special_tokens = {id: token for id, token in rust.get_added_tokens_decoder().items() if token.special}
        self.specials = frozenset(self.special_tokens)
        """Ids that stand for no text; decoding omits them."""
        self._encoder = external_pipeline.SafeEncoder(rust, self._spec, self.special_tokens, self.roles.unk)
        self.spelling = external_pipeline.Spelling.of(self._spec)
        """How the names of tokens spell text."""
        self.space: int | None = rust.token_to_id(" ") if self.kind == "char" else None
        """Id of the blank that separates words, if tokens are characters."""

    def never(self, rows: int) -> list[int]:
        """Return the ids that a model must not generate: ids without text that do not end a text, and gaps.

        `rows` is the number of rows of the model's table, which may exceed the vocabulary.
        """
        beyond = range(self.vocab_size, rows)
        return sorted((self.specials | self._gaps).difference(self.roles.ends).union(beyond))

    @cached_property
    def _gaps(self) -> frozenset[int]:
        """Ids below the largest one that have no token."""
        return frozenset(range(self.vocab_size)) - frozenset(self._rust.get_vocab().values())

    @cached_property
    def texts(self) -> list[int]:
        """Ids of tokens that stand for known text."""
        others = self.specials | self._gaps | {self.pad, self.start, self.end, self.unk, self.mask}
        return [id for id in range(self.vocab_size) if id not in others]

    @classmethod
    @takes_listener
    def train(
        cls,
        texts: Iterable[str],
        settings: TokenizerSettings,
        *,
        total_bytes: int | None = None,
        mask: bool = False,
        say: Say = say,
    ) -> Self:
        """Learn the tokens of texts, which are read once and not stored; or load `settings.file`.

        With `total_bytes`, a corpus larger than `settings.sample_mb` is sampled evenly. `mask` adds a special token for
        tokens to predict.
        """
        if settings.file is not None:
            return cls.load(settings.file)
        sample = sampled(texts, settings.sample_mb * MEGABYTE, total_bytes)
        if settings.kind == "bpe":
            sample = few_distinct(sample, DISTINCT)
        first = next(sample, None)
        if first is None:
            raise DataError("the text yields no tokens: it is empty")
        return cls(pipelines.train(itertools.chain([first], sample), settings, mask=mask))

    @classmethod
    def load(cls, path: str | os.PathLike[str], roles: Roles | None = None) -> Self:
        """Load a tokenizer.json, written by glassformer or by another library."""
        try:
            text = read_text(path)
        except OSError as error:
            raise DataError(f"cannot read the tokenizer {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise DataError(f"{path} is no tokenizer.json: it is not text") from None
        return cls.from_json(text, str(path), roles)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a tokenizer.json atomically."""
        with part_of(Path(path)) as temporary:
            temporary.write_text(self.to_json(), encoding="utf-8")
            os.replace(temporary, path)

    @classmethod
    def from_json(cls, text: str, name: str = "this text", roles: Roles | None = None) -> Self:
        """Return the tokenizer of a tokenizer.json. Errors refer to it as `name`."""
        try:
            rust = tokenizers.Tokenizer.from_str(text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library raises plain exceptions and panics
            raise DataError(read_failure(name, error, "tokenizer.json", "restore it from a copy")) from None
        ids = rust.get_vocab().values()
        if not ids:
            raise DataError(f"{name} is a tokenizer without tokens")
        if max(ids) > len(ids) + MAX_GAPS:
            raise DataError(f"{name} is damaged: it has {len(ids):,} tokens, and one of them has the id {max(ids):,}")
        tokenizer = cls(rust, roles)
        if external_pipeline.growth(tokenizer._spec["decoder"]) > MAX_GROWTH:
            raise DataError(f"{name} is damaged: its decoder makes far more text of each token than it is")
        return tokenizer

    def to_json(self) -> str:
        return str(self._rust.to_str(pretty=True))

    @cached_property
    def hash(self) -> str:
        """Digest of the pipeline; equal for tokenizers that behave the same."""
        canonical = json.dumps(self._spec, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, vocabulary of {self.vocab_size:,})"

    def __len__(self) -> int:
        return self.vocab_size

    @overload
    def __call__(self, text: str) -> list[int]: ...

    @overload
    def __call__(self, text: Texts) -> list[list[int]]: ...

    def __call__(self, text: str | Texts) -> list[int] | list[list[int]]:
        """Return the ids of a whole text, with START and END if the tokenizer has them; for several texts, of each.

        An exported language model's tokenizer adds no END, because there a text is a prompt to continue.
        """
        before, after = self.roles.opening, self.roles.closing
        if isinstance(text, str):
            return [*before, *self.encode(text), *after]
        return [[*before, *ids, *after] for ids in self.encode(text)]

    @overload
    def encode(self, text: str) -> list[int]: ...

    @overload
    def encode(self, text: Texts) -> list[list[int]]: ...

    def encode(self, text: str | Texts) -> list[int] | list[list[int]]:
        """Return the ids of a text without START and END; for several texts, a list for each."""
        if isinstance(text, str):
            return self.encode([text])[0]
        for one in text if isinstance(text, list | tuple) else [text]:
            if not isinstance(one, str):
                raise DataError(f"a text or a list of texts can be encoded, not {with_article(one)}")
        return [ids.tolist() for ids in self.encode_batch(text)]

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Return the ids of each text. A long text needs little more memory than its ids."""
        encode = self._encoder.ids if self._word_ids is None else self._word_ids.look_up
        parts: list[list[NDArray[np.int32]]] = [[np.empty(0, np.int32)] for _ in texts]
        for batch in batches(texts, self._pieces):
            for (number, _), ids in zip(batch, encode([piece for _, piece in batch]), strict=True):
                parts[number].append(np.asarray(ids, np.int32))
        return [np.concatenate(part) for part in parts]

    def encode_around(self, stretches: Iterable[str | int]) -> list[int]:
        """Return the ids of a text in parts, with the ids of special tokens between the parts."""
        ids: list[int] = []
        for number, stretch in enumerate(stretches):
            if isinstance(stretch, int):
                ids.append(stretch)
            elif number and self._continuation is not None:
                ids += self._continuation.encode(stretch)
            else:
                ids += self.encode(stretch)
        return ids

    @cached_property
    def _continuation(self) -> "Tokenizer | None":
        """Tokenizer for parts that do not begin a text; None if they are encoded the same way."""
        spec = external_pipeline.continuation(self._spec)
        return None if spec is None else Tokenizer(external_pipeline.pipeline(spec), self.roles)

    @cached_property
    def _word_ids(self) -> pipelines.WordIds | None:
        """Cached lookup of word ids; None if tokens are not words."""
        unknown = self.unk
        if self.kind != "word" or unknown is None:
            return None
        vocabulary: dict[str, int] = self._rust.get_vocab()
        return pipelines.WordIds(self._rust, lambda word: vocabulary.get(word, unknown))

    def _pieces(self, text: str) -> Iterable[str]:
        if self.kind == "other":
            return [text]  # that pipeline may join characters across a cut
        return pieces(text, slack=0 if self.kind == "char" else len(text))

    def encode_with_offsets(self, text: str, *, framed: bool = False) -> list[Piece]:
        """Return the tokens with their character offsets. The bytes of one character share its offsets.

        `framed` adds START and END, which cover no characters.
        """
        utf8(text)
        encoding = self._encoder.with_offsets(text)
        places = list(zip(encoding.ids, encoding.offsets, strict=True))
        if framed:
            before = [(id, (0, 0)) for id in self.roles.opening]
            places = [*before, *places, *((id, (len(text), len(text))) for id in self.roles.closing)]
        return [Piece(id, self.token(id), start, end) for id, (start, end) in places]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids, without special tokens."""
        wanted = f"decode takes the ids of one text, from 0 to {self.vocab_size - 1:,} (decode_batch: of several texts)"
        try:
            listed = list(ids)
        except TypeError:  # also a 0-d array, which has an `__iter__`
            raise DataError(f"{wanted}, not {with_article(ids)}: put a single id into a list") from None
        for one in listed:
            if not _is_id(one, self.vocab_size):
                raise DataError(f"{wanted}, not {one!r:.80}")
        return str(self._rust.decode(listed))

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """Return the texts of several lists of ids, without special tokens."""
        return [self.decode(ids) for ids in batch]

    def token(self, id: int) -> str:
        r"""Return the readable form of a token: its text, or `\xe2` for bytes that are part of a character.

        A token that continues a word keeps its mark ("##ing"), which distinguishes it from a word.
        """
        if self.spelling.inside is not None:
            return self._name(id)
        return self.token_bytes(id).decode(errors="backslashreplace")

    def shown(self, id: int) -> str:
        """Return a token as text, or `<id>` for an id without a token, which an embedding table may include."""
        return f"<{id}>" if self._rust.id_to_token(id) is None else self.token(id)

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of a token; with BPE they need not be whole characters."""
        name = self._name(id)
        return name.encode() if id in self.specials else self.spelling.bytes_of(name)

    def one_byte(self, id: int) -> bool:
        """Return whether a token is a single byte of a character outside the vocabulary."""
        return self.spelling.is_byte(self._name(id))

    def _name(self, id: int) -> str:
        name = self._rust.id_to_token(id)
        if name is None:
            raise IndexError(f"there is no token {id}: the tokenizer has {self.vocab_size}")
        return str(name)


def _is_id(value: Any, size: int) -> bool:
    """Return whether a value is an integer, of Python or of an array, from 0 to `size` - 1."""
    try:
        return not isinstance(value, bool) and 0 <= operator.index(value) < size
    except TypeError:
        return False
