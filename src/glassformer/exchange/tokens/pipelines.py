"""Pipelines out of files from before `tokenizer.json`: BERT's word pieces, GPT-2's byte pairs, Marian's pieces."""

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer.config.errors import DataError
from glassformer.exchange.tokens.files import TokenFiles
from glassformer.text.sentencepiece import pipeline, read_pieces


def word_pieces(files: TokenFiles, said: Mapping[str, Any], names: Mapping[str, str]) -> tokenizers.Tokenizer:
    """BERT's `vocab.txt`: one token a line."""
    lines = files.lines("vocab.txt")
    assert lines is not None
    vocabulary = {line: number for number, line in enumerate(lines)}
    unknown, opens, closes = (names.get(role, "") for role in ("unk", "cls", "sep"))
    for token in (unknown, opens, closes):
        if token not in vocabulary:
            raise DataError(f"{files.folder / 'vocab.txt'} lacks {token}: it is damaged, or no vocabulary of BERT's")
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=said.get("tokenize_chinese_chars") is not False,
        strip_accents=said.get("strip_accents") if isinstance(said.get("strip_accents"), bool) else None,
        lowercase=said.get("do_lower_case") is not False,
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##")
    around = [(opens, vocabulary[opens]), (closes, vocabulary[closes])]
    made.post_processor = processors.TemplateProcessing(
        single=[opens, "$A", closes], pair=[opens, "$A", closes, "$B", closes], special_tokens=around
    )
    return made


def byte_pairs(
    files: TokenFiles, said: Mapping[str, Any], names: Mapping[str, str], *, framed: bool
) -> tokenizers.Tokenizer:
    """GPT-2's `vocab.json` and `merges.txt`; BART's, whose texts are `framed` by tokens."""
    vocabulary, lines = files.vocabulary("vocab.json"), files.lines("merges.txt")
    assert vocabulary is not None
    assert lines is not None
    merges = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#version") or not line:
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise DataError(f"{files.folder / 'merges.txt'}, line {number}: {line[:60]!r} joins no two known tokens")
        merges.append((pair[0], pair[1]))
    made = tokenizers.Tokenizer(models.BPE(vocabulary, merges, fuse_unk=False))
    blank = said.get("add_prefix_space") is True
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=blank)
    made.decoder = decoders.ByteLevel()
    opens = names.get("bos") if framed or said.get("add_bos_token") is True else None
    closes = names.get("eos") if framed or said.get("add_eos_token") is True else None
    for token in (opens, closes):
        if token is not None and token not in vocabulary:
            raise DataError(f"{files.folder / 'vocab.json'} lacks {token}, which stands round every text")
    around = [token for token in (opens, closes) if token is not None]
    if around:
        single = [*([opens] if opens else []), "$A", *([closes] if closes else [])]
        made.post_processor = processors.TemplateProcessing(
            single=single, special_tokens=[(token, vocabulary[token]) for token in dict.fromkeys(around)]
        )
    return made


def marian_pieces(
    files: TokenFiles, said: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[tokenizers.Tokenizer, tokenizers.Tokenizer]:
    """Marian's pipelines of the source and of the target: cut by a file each, with the ids of one vocabulary.

    Or of two, where `separate_vocabs` says so.
    """
    made = []
    for side, ids in (
        ("source", "vocab.json"),
        ("target", "target_vocab.json" if said.get("separate_vocabs") is True else "vocab.json"),
    ):
        vocabulary, spm = files.vocabulary(ids), files.path(f"{side}.spm")
        if vocabulary is None or spm is None:
            lacking = ids if vocabulary is None else f"{side}.spm"
            raise DataError(f"{files.folder} is not whole: Marian's {lacking} is missing")
        unknown, specials = names.get("unk", ""), frozenset(names.values())
        name = str(files.folder / ids)
        pieces = read_pieces(spm)
        made.append(pipeline(pieces, vocabulary, unknown=unknown, specials=specials, vocabulary_name=name))
    return made[0], made[1]
