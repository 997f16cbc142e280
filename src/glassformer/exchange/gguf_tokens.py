"""The tokenizer inside a GGUF file: byte pairs as GPT-2 has them, or SentencePiece's pairs by their scores."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from glassformer.config.errors import DataError
from glassformer.exchange.external_model import ExternalTokens
from glassformer.exchange.gguf_header import Header, damaged
from glassformer.exchange.huggingface.architecture import read_tables
from glassformer.exchange.token_reader import frame
from glassformer.text.tokenizer import Roles, Tokenizer

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4
"""What a token is, by its number in the file."""

LONGEST = 1024
"""Characters of a token: more are no token, and every place within one is tried as the seam of a merge."""

ROLES = ("bos", "eos", "padding", "unknown", "eot", "eom")
NAMED = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
"""What a chat template calls those that it knows."""


def read_tokens(header: Header, rows: int) -> ExternalTokens:
    """The file's tokens, for a model whose table of them has so many rows."""
    template = header.values.get("tokenizer.chat_template")
    if not isinstance(template, str | None):
        damaged(header.path, "tokenizer.chat_template is no text")
    tokens = _TokenValues(header, rows)
    kind = tokens.get("model", str)
    if kind == "gpt2":
        rust, add_bos = _byte_pairs(tokens)
    elif kind == "llama":
        rust, add_bos = _pieces(tokens), True
    else:
        raise DataError(f"{header.path} holds a tokenizer of kind {str(kind)[:40]!r}; gpt2 and llama can be read")
    specials = {name: tokens.texts[id] for name, role in NAMED.items() if (id := tokens.roles[role]) is not None}
    return ExternalTokens(_tokenizer(rust, tokens, add_bos), chat_template=template, specials=specials)


class _TokenValues:
    """What a file says of its tokens; each value is checked when it is asked for."""

    def __init__(self, header: Header, rows: int) -> None:
        self.path, self.values = header.path, header.values
        self.texts = self.strings("tokens")
        if not 0 < len(self.texts) <= rows:
            damaged(self.path, f"it has {len(self.texts):,} tokens and a table of {rows:,} rows for them")
        self.ids = {text: id for id, text in enumerate(self.texts)}
        if len(self.ids) != len(self.texts):
            twice = next(text for id, text in enumerate(self.texts) if self.ids[text] != id)
            damaged(self.path, f"two tokens are both {twice[:40]!r}")
        for text, id in self.ids.items():
            if not 0 < len(text) <= LONGEST:
                damaged(self.path, f"token {id} is {len(text):,} characters long")
        self.kinds = self.numbers("token_type", NORMAL)
        self.roles = {role: self.id(role) for role in ROLES}

    def get(self, key: str, type_: type, default: Any = None) -> Any:
        value = self.values.get(f"tokenizer.ggml.{key}", default)
        if value is not None and type(value) is not type_:
            damaged(self.path, f"tokenizer.ggml.{key} is of the wrong type")
        return value

    def strings(self, key: str) -> list[str]:
        value = self.values.get(f"tokenizer.ggml.{key}")
        if not isinstance(value, list):
            damaged(self.path, f"it has no list of texts tokenizer.ggml.{key}")
        return value

    def numbers(self, key: str, default: float | None = None) -> list[Any]:
        """The numbers under a key, one a token."""
        value = self.values.get(f"tokenizer.ggml.{key}")
        if value is None and default is not None:
            return [default] * len(self.texts)
        if not isinstance(value, np.ndarray) or len(value) != len(self.texts) or not np.isfinite(value).all():
            damaged(self.path, f"tokenizer.ggml.{key} is not one number for each of {len(self.texts):,} tokens")
        numbers: list[Any] = value.tolist()
        return numbers

    def id(self, role: str) -> int | None:
        value = self.values.get(f"tokenizer.ggml.{role}_token_id")
        if value is not None and (type(value) is not int or not 0 <= value < len(self.texts)):
            damaged(self.path, f"tokenizer.ggml.{role}_token_id is {str(value)[:40]!r}, the id of no token")
        return value

    def of_kind(self, *kinds: int) -> list[int]:
        return [id for id, kind in enumerate(self.kinds) if kind in kinds]

    @cached_property
    def specials(self) -> set[int]:
        """Ids that stand for no text."""
        return {*self.of_kind(CONTROL, UNKNOWN), *(id for id in self.roles.values() if id is not None)}


def _byte_pairs(tokens: _TokenValues) -> tuple[tokenizers.Tokenizer, bool]:
    name, tables = tokens.get("pre", str, "default"), read_tables()["gguf"]
    if name not in tables["pre_tokenizers"]:
        known = ", ".join(tables["pre_tokenizers"])
        raise DataError(f"{tokens.path} cuts its texts as {name[:40]!r} (tokenizer.ggml.pre); {known} are known here")
    cut = tables["pre_tokenizers"][name]
    pattern = tables["patterns"].get(cut["pattern"])
    merges = [tuple(merge.split(" ")) for merge in tokens.strings("merges")]
    rust = _build(tokens, merges, ignore_merges=cut.get("ignore_merges", False))
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=pattern is None)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if cut.get("digits") else []
    matches = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
    rust.pre_tokenizer = pre_tokenizers.Sequence([*digits, *matches, last]) if digits or matches else last
    if cut.get("nfc"):
        rust.normalizer = normalizers.NFC()
    rust.decoder = decoders.ByteLevel()
    return rust, cut.get("add_bos", False)


def _pieces(tokens: _TokenValues) -> tokenizers.Tokenizer:
    """Characters merged by the scores of what comes of it; a character that is no token falls to its bytes."""
    unknown = next(iter(tokens.of_kind(UNKNOWN)), tokens.roles["unknown"])
    name = None if unknown is None else tokens.texts[unknown]
    rust = _build(tokens, _merges(tokens), unk_token=name, fuse_unk=True, byte_fallback=True)
    prefix = tokens.get("add_space_prefix", bool, True)
    blanks = normalizers.Replace(" ", "▁")
    rust.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), blanks]) if prefix else blanks
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    rust.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)] if prefix else back)
    return rust


def _merges(tokens: _TokenValues) -> list[tuple[str, ...]]:
    """Every pair of pieces that makes a piece: those of the highest score first."""
    scores = tokens.numbers("scores")
    pieces = {tokens.texts[id]: scores[id] for id in tokens.of_kind(NORMAL) if id not in tokens.specials}
    pairs = [
        (-score, -pieces[piece[:at]], -pieces[piece[at:]], piece[:at], piece[at:])
        for piece, score in pieces.items()
        for at in range(1, len(piece))
        if piece[:at] in pieces and piece[at:] in pieces
    ]
    pairs.sort(key=lambda pair: pair[:3])
    return [pair[3:] for pair in pairs]


def _build(tokens: _TokenValues, merges: Sequence[tuple[str, ...]], **how: Any) -> tokenizers.Tokenizer:
    for merge in merges:
        if len(merge) != 2 or not {*merge, "".join(merge)} <= tokens.ids.keys():
            damaged(tokens.path, f"the merge {' '.join(merge)[:40]!r} is not of two tokens that make a third")
    return tokenizers.Tokenizer(models.BPE(tokens.ids, [(merge[0], merge[1]) for merge in merges], **how))


def _tokenizer(rust: tokenizers.Tokenizer, tokens: _TokenValues, add_bos: bool) -> Tokenizer:
    """A pipeline with its special tokens, which of them is for what, and what stands before and after a text."""
    added = {True: sorted(tokens.specials), False: [id for id in tokens.of_kind(USER) if id not in tokens.specials]}
    for special, ids in added.items():
        rust.add_tokens([AddedToken(tokens.texts[id], normalized=False, special=special) for id in ids])
    unknown: str | None = rust.model.unk_token  # byte pairs have none: every byte is a token
    by_role = tokens.roles
    start = by_role["bos"] if tokens.get("add_bos_token", bool, add_bos) else None
    closing = by_role["eos"] if tokens.get("add_eos_token", bool, False) else None
    stops = dict.fromkeys(id for role in ("eot", "eom") if (id := by_role[role]) is not None and id != by_role["eos"])
    roles = Roles(
        pad=by_role["padding"],
        start=start,
        end=by_role["eos"],
        unk=None if unknown is None else tokens.ids[unknown],
        opening=() if start is None else (start,),
        closing=() if closing is None else (closing,),
        stops=tuple(stops),
    )
    frame(rust, [tokens.texts[id] for id in roles.opening], [tokens.texts[id] for id in roles.closing])
    return Tokenizer(rust, roles)
