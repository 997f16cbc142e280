"""The tokens of a Hugging Face folder: how texts are cut, which special token is for what, how a chat is written."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from glassformer.config.errors import DataError
from glassformer.exchange.tokens.files import TokenFiles
from glassformer.exchange.tokens.pipelines import byte_pairs, marian_pieces, word_pieces
from glassformer.exchange.tokens.roles import roles_of
from glassformer.text.outside import steps
from glassformer.text.tokenizer import Tokenizer

PARTS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""The names that files give special tokens by, before `_token`."""

_GPT2 = {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"}
_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_BART = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
_MARIAN = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
USUAL = {"gpt2": _GPT2, "bert": _BERT, "bart": _BART, "marian": _MARIAN}
"""By the kind of model: the names where the files say nothing."""

ID = re.compile("[0-9]{1,9}")
OTHER_FORMATS = ("tokenizer.model", "sentencepiece.bpe.model", "spiece.model", "tekken.json")


@dataclass(frozen=True)
class Tokens:
    """What a folder says of its tokens."""

    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None
    """Where targets are cut in another way than sources."""
    chat_template: str | None
    specials: dict[str, str]
    """Special tokens by the names a chat template has for them: `bos_token`, `eos_token` …"""
    files: tuple[Path, ...]
    """To be given back, as they came, by an export."""


def read_tokens(folder: Path, config: Mapping[str, Any]) -> Tokens:
    """`config`: what config.json says."""
    files = TokenFiles(folder)
    said = files.json("tokenizer_config.json") or {}
    kind = str(config.get("model_type"))
    names = _names(said, files.json("special_tokens_map.json") or {}, USUAL.get(kind, {}))
    source, target = _pipelines(files, kind, said, names)
    generation = files.json("generation_config.json") or {}
    whole = [_completed(rust, files, said, names) for rust in (source, target) if rust is not None]
    known = [{part: id for part, name in names.items() if (id := rust.token_to_id(name)) is not None} for rust in whole]
    made = [
        Tokenizer(rust, roles_of(rust, ids, config, generation, str(folder)))
        for rust, ids in zip(whole, known, strict=True)
    ]
    specials = {f"{part}_token": names[part] for part in known[0]}
    return Tokens(made[0], made[1] if target else None, _chat_template(files, said), specials, files.kept())


def _names(said: Mapping[str, Any], older: Mapping[str, Any], usual: Mapping[str, str]) -> dict[str, str]:
    """Special tokens by what they are for."""
    found = {}
    for part in PARTS:
        for where in (said, older):
            value = where.get(f"{part}_token")
            value = value.get("content") if isinstance(value, dict) else value
            if isinstance(value, str) and value:
                found[part] = value
                break
        else:
            if part in usual and f"{part}_token" not in said:
                found[part] = usual[part]
    return found


def _pipelines(
    files: TokenFiles, kind: str, said: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[tokenizers.Tokenizer, tokenizers.Tokenizer | None]:
    """That of the texts, or of the sources; and that of the targets, where they have one of their own."""
    if kind == "marian" and (files.path("source.spm") is not None or files.path("tokenizer.json") is None):
        return marian_pieces(files, said, names)
    if files.path("tokenizer.json") is not None:
        return _fast(files, said), None
    if kind == "bert" and files.path("vocab.txt") is not None:
        return word_pieces(files, said, names), None
    if kind in ("gpt2", "bart") and files.path("vocab.json") is not None and files.path("merges.txt") is not None:
        return byte_pairs(files, said, names, framed=kind == "bart"), None
    for name in OTHER_FORMATS:
        if files.path(name) is not None:
            raise DataError(
                f"{files.folder} has its tokens in {name}, which cannot be read: save_pretrained of transformers' "
                "AutoTokenizer writes the tokenizer.json that can"
            )
    raise DataError(f"{files.folder} has no tokenizer.json, and no other files with the tokens of a {kind} model")


def _fast(files: TokenFiles, said: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """`tokenizer.json`, and the few things in which the file beside it is right where the two differ."""
    spec = files.json("tokenizer.json")
    assert spec is not None
    path = files.folder / "tokenizer.json"
    plain = Tokenizer.from_json(json.dumps(spec), str(path))  # damage is said here
    spec = json.loads(plain.to_json())
    for step in steps(spec["normalizer"]):
        if step["type"] == "BertNormalizer":
            for key, name in (("do_lower_case", "lowercase"), ("tokenize_chinese_chars", "handle_chinese_chars")):
                step[name] = said[key] if isinstance(said.get(key), bool) else step[name]
            if isinstance(said.get("strip_accents"), bool):
                step["strip_accents"] = said["strip_accents"]
    if spec["model"].get("dropout") is not None:
        spec["model"]["dropout"] = None  # a text is cut in one way
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


def _completed(
    rust: tokenizers.Tokenizer, files: TokenFiles, said: Mapping[str, Any], names: Mapping[str, str]
) -> tokenizers.Tokenizer:
    """With the tokens that other files add, and with everything special marked as such."""
    added = dict(files.added())
    special = set(names.values())
    decoder = said.get("added_tokens_decoder")
    for id, token in decoder.items() if isinstance(decoder, dict) else ():
        if not isinstance(token, dict) or not isinstance(token.get("content"), str) or not ID.fullmatch(id):
            raise DataError(f"{files.folder / 'tokenizer_config.json'} is damaged: added_tokens_decoder, {id[:40]!r}")
        added[token["content"]] = int(id)
        if token.get("special") is True:
            special.add(token["content"])
    for token, id in sorted(added.items(), key=lambda item: item[1]):
        known = rust.token_to_id(token)
        if known is None:
            rust.add_tokens([tokenizers.AddedToken(token, normalized=False, special=token in special)])
            known = rust.token_to_id(token)
        if known != id:
            raise DataError(f"{files.folder}: its files give the token {token!r} the ids {known} and {id}")
    rust.add_special_tokens([token for token in sorted(special) if rust.token_to_id(token) is not None])
    spec = json.loads(rust.to_str())
    for token in spec["added_tokens"]:
        token["special"] = token["special"] or token["content"] in special
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


def _chat_template(files: TokenFiles, said: Mapping[str, Any]) -> str | None:
    """A file of its own, or a key; of several by name, the one called default."""
    text = files.text("chat_template.jinja")
    if text is not None:
        return text
    value = said.get("chat_template") or (files.json("chat_template.json") or {}).get("chat_template")
    if isinstance(value, list):
        named = [one for one in value if isinstance(one, dict) and one.get("name") == "default"]
        value = named[0].get("template") if named else None
    return value if isinstance(value, str) else None
