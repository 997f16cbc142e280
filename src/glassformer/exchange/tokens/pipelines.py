"""Pipelines out of files from before `tokenizer.json`: BERT's word pieces, GPT-2's byte pairs, Marian's pieces."""

from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer.config.errors import DataError
from glassformer.exchange.tokens.files import TokenFiles
from glassformer.text.sentencepiece import pipeline, read_pieces


def frame(
    rust: tokenizers.Tokenizer, before: Sequence[str], after: Sequence[str], pair: Sequence[str] | None = None
) -> None:
    """Give a pipeline a last step that puts these tokens around every text; `pair`: and around two."""
    if tokens := dict.fromkeys([*before, *after]):
        rust.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=pair,
            special_tokens=[(token, rust.token_to_id(token)) for token in tokens],
        )


def word_pieces(files: TokenFiles, settings: Mapping[str, Any], names: Mapping[str, str]) -> tokenizers.Tokenizer:
    """BERT's `vocab.txt`: one token a line."""
    vocabulary = {line: number for number, line in enumerate(files.lines("vocab.txt"))}
    unknown, opens, closes = (names.get(role, "") for role in ("unk", "cls", "sep"))
    for token in (unknown, opens, closes):
        if token not in vocabulary:
            raise DataError(f"{files.folder / 'vocab.txt'} lacks {token}: it is damaged, or no vocabulary of BERT's")
    rust = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100))
    rust.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
        strip_accents=settings.get("strip_accents") if isinstance(settings.get("strip_accents"), bool) else None,
        lowercase=settings.get("do_lower_case") is not False,
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    frame(rust, [opens], [closes], pair=[opens, "$A", closes, "$B", closes])
    return rust


def byte_pairs(
    files: TokenFiles, settings: Mapping[str, Any], names: Mapping[str, str], *, framed: bool
) -> tokenizers.Tokenizer:
    """GPT-2's `vocab.json` and `merges.txt`; BART's, whose texts are `framed` by tokens."""
    vocabulary, merges = files.vocabulary("vocab.json"), []
    for number, line in enumerate(files.lines("merges.txt"), 1):
        if line.startswith("#version") or not line:
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise DataError(f"{files.folder / 'merges.txt'}, line {number}: {line[:60]!r} joins no two known tokens")
        merges.append((pair[0], pair[1]))
    rust = tokenizers.Tokenizer(models.BPE(vocabulary, merges, fuse_unk=False))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=settings.get("add_prefix_space") is True)
    rust.decoder = decoders.ByteLevel()
    opens, closes = (
        [names[part]] if part in names and (framed or settings.get(f"add_{part}_token") is True) else []
        for part in ("bos", "eos")
    )
    for token in (*opens, *closes):
        if token not in vocabulary:
            raise DataError(f"{files.folder / 'vocab.json'} lacks {token}, which stands round every text")
    frame(rust, opens, closes)
    return rust


def marian_pieces(
    files: TokenFiles, settings: Mapping[str, Any], names: Mapping[str, str]
) -> list[tokenizers.Tokenizer]:
    """Marian's pipelines of the source and of the target: cut by a file each, with the ids of one vocabulary.

    Or of two, where `separate_vocabs` says so.
    """
    targets = "target_vocab.json" if settings.get("separate_vocabs") is True else "vocab.json"
    sides = []
    for side, ids in (("source", "vocab.json"), ("target", targets)):
        vocabulary, spm = files.vocabulary(ids), files.path(f"{side}.spm")
        if not vocabulary or spm is None:
            lacking = f"{side}.spm" if vocabulary else ids
            raise DataError(f"{files.folder} is not whole: Marian's {lacking} is missing")
        unknown, specials = names.get("unk", ""), frozenset(names.values())
        name = str(files.folder / ids)
        sides.append(pipeline(read_pieces(spm), vocabulary, unknown=unknown, specials=specials, vocabulary_name=name))
    return sides
