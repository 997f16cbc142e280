"""The tokens of a Hugging Face folder: pipeline, roles of special tokens, and chat template."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer.config.errors import DataError, read_failure
from glassformer.config.json_types import JsonObject
from glassformer.config.limits import parse_json, read_text
from glassformer.exchange.external_model import ExternalTokens
from glassformer.exchange.huggingface.architecture import read_tables
from glassformer.text.external_pipeline import steps
from glassformer.text.sentencepiece import pipeline, read_pieces
from glassformer.text.tokenizer import Roles, Tokenizer

PARTS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""Prefixes of the keys `…_token` for special tokens."""

ID = re.compile("[0-9]{1,9}")
PROBE = "a"
OTHER_FORMATS = ("tokenizer.model", "sentencepiece.bpe.model", "spiece.model", "tekken.json")
ORIGINALS: list[str] = read_tables()["originals"]
"""Files that an export returns unchanged."""


class TokenFiles:
    """The files of a folder by name. Links that lead out of the folder are ignored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root = folder.resolve()
        self._roots = [root]
        if root.parent.name == "snapshots":  # the hub's cache links files to a neighbouring folder
            self._roots.append(root.parents[1] / "blobs")

    def path(self, name: str) -> Path | None:
        """Return the path of a regular file; None if there is none."""
        path = self.folder / name
        try:
            if not path.is_file():
                return None
            real = path.resolve()
        except (OSError, ValueError):  # an invalid file name
            return None
        return path if any(real.is_relative_to(root) for root in self._roots) else None

    def originals(self) -> tuple[Path, ...]:
        """Return the files that an export writes back unchanged."""
        return tuple(path for name in ORIGINALS if (path := self.path(name)) is not None)

    def text(self, name: str) -> str | None:
        path = self.path(name)
        if path is None:
            return None
        try:
            return read_text(path)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise DataError(f"{path} is damaged: it is not text") from None

    def json(self, name: str) -> JsonObject | None:
        """Return the JSON object of a file; None if there is no such file."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = parse_json(text, str(self.folder / name))
            if "\\u" in text:  # an escape can be a lone surrogate
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise DataError(f"{self.folder / name} is damaged: it holds half a character") from None
        except ValueError as error:
            raise DataError(read_failure(self.folder / name, error, remedy="download it again")) from None
        if not isinstance(value, dict):
            raise DataError(f"{self.folder / name} is damaged: it holds no JSON object")
        return value

    def vocabulary(self, name: str) -> dict[str, int]:
        """Return the tokens and ids of a JSON object; empty if there is no such file."""
        value = self.json(name)
        if value is None:
            return {}
        ids = list(value.values())
        if not ids or any(type(id) is not int for id in ids) or sorted(ids) != list(range(len(ids))):
            raise DataError(f"{self.folder / name} is damaged: it does not number its {len(ids)} tokens from 0")
        return value

    def added(self) -> dict[str, int]:
        """Return the additional tokens of `added_tokens.json`."""
        value = self.json("added_tokens.json") or {}
        for token, id in value.items():
            if type(id) is not int or id < 0:
                raise DataError(f"{self.folder / 'added_tokens.json'} is damaged: {token!r} has the id {id!r}")
        return value

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file. Only a newline ends a line, because tokens may contain other separators."""
        return (self.text(name) or "").removesuffix("\n").replace("\r\n", "\n").split("\n")


def read_tokens(folder: Path, config: JsonObject) -> ExternalTokens:
    """Return the tokens of a folder with this config.json."""
    files = TokenFiles(folder)
    settings = files.json("tokenizer_config.json") or {}
    kind = str(config.get("model_type"))
    names = _names(settings, files.json("special_tokens_map.json") or {}, read_tables()["tokens"].get(kind, {}))
    generation = files.json("generation_config.json") or {}
    complete = [_complete(rust, files, settings, names) for rust in _pipelines(files, kind, settings, names)]
    ids = [
        {part: id for part, name in names.items() if (id := rust.token_to_id(name)) is not None} for rust in complete
    ]
    pairs = zip(complete, ids, strict=True)
    sides = [Tokenizer(rust, _roles(rust, known, config, generation, str(folder))) for rust, known in pairs]
    specials = {f"{part}_token": names[part] for part in ids[0]}
    target = sides[1] if len(sides) > 1 else None
    return ExternalTokens(sides[0], target, _chat_template(files, settings), specials, files.originals())


def _names(settings: JsonObject, older: JsonObject, usual: Mapping[str, str]) -> dict[str, str]:
    """Return the special tokens by part."""
    names = {}
    for part in PARTS:
        key = f"{part}_token"
        both = settings.get(key), older.get(key)
        values = [value.get("content") if isinstance(value, dict) else value for value in both]
        default = usual.get(part) if key not in settings else None
        name = next((value for value in values if isinstance(value, str) and value), default)
        if name is not None:
            names[part] = name
    return names


def _pipelines(
    files: TokenFiles, kind: str, settings: JsonObject, names: Mapping[str, str]
) -> list[tokenizers.Tokenizer]:
    """Return the pipeline, or those of source and target if they differ."""
    if kind == "marian" and (files.path("source.spm") is not None or files.path("tokenizer.json") is None):
        return marian_pieces(files, settings, names)
    if files.path("tokenizer.json") is not None:
        return [_fast(files, settings)]
    if kind in ("bert", "distilbert") and files.path("vocab.txt") is not None:
        return [word_pieces(files, settings, names)]
    if kind in ("gpt2", "bart", "roberta") and files.path("vocab.json") and files.path("merges.txt"):
        return [byte_pairs(files, settings, names, framed=kind != "gpt2")]
    for name in OTHER_FORMATS:
        if files.path(name) is not None:
            raise DataError(f"{files.folder} has its tokens in {name}, which cannot be read: write a tokenizer.json")
    raise DataError(f"{files.folder} has no tokenizer.json, and no other files with the tokens of a {kind} model")


def _fast(files: TokenFiles, settings: JsonObject) -> tokenizers.Tokenizer:
    """Return the pipeline of `tokenizer.json`, with the settings that tokenizer_config.json overrides."""
    text = json.dumps(files.json("tokenizer.json"))
    spec = json.loads(Tokenizer.from_json(text, str(files.folder / "tokenizer.json")).to_json())  # checks it
    for step in steps(spec["normalizer"]):
        if step["type"] == "BertNormalizer":
            names = read_tables()["normalizer"].items()
            step.update({name: settings[key] for key, name in names if isinstance(settings.get(key), bool)})
    if spec["model"].get("dropout") is not None:
        spec["model"]["dropout"] = None  # BPE dropout would make encoding random
    return tokenizers.Tokenizer.from_str(json.dumps(spec))


def _complete(
    rust: tokenizers.Tokenizer, files: TokenFiles, settings: JsonObject, names: Mapping[str, str]
) -> tokenizers.Tokenizer:
    """Return a pipeline with the added tokens of other files, and with all special tokens marked as special."""
    added = dict(files.added())
    special = set(names.values())
    decoder = settings.get("added_tokens_decoder")
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


def _chat_template(files: TokenFiles, settings: JsonObject) -> str | None:
    """Return the chat template from its file or key; of several templates, the one named "default"."""
    text = files.text("chat_template.jinja")
    if text is not None:
        return text
    value = settings.get("chat_template") or (files.json("chat_template.json") or {}).get("chat_template")
    if isinstance(value, list):
        defaults = [each for each in value if isinstance(each, dict) and each.get("name") == "default"]
        value = defaults[0].get("template") if defaults else None
    return value if isinstance(value, str) else None


def _roles(
    rust: tokenizers.Tokenizer, known: Mapping[str, int], config: JsonObject, generation: JsonObject, name: str
) -> Roles:
    """Return the roles of tokens by these files.

    `known` has ids by part (`bos`, `cls` …); `config` and `generation` are the contents of the files.
    """
    rows, ids = config.get("vocab_size"), max(rust.get_vocab().values()) + 1
    size = min(ids, rows) if type(rows) is int else ids

    def named(key: str) -> list[int]:
        """Return the valid ids under a key, those of the generation config first."""
        values: list[object] = [file.get(key) for file in (generation, config)]
        lists = [value if isinstance(value, list) else [value] for value in values]
        return list(dict.fromkeys(id for ids in lists for id in ids if type(id) is int and 0 <= id < size))

    known = {part: id for part, id in known.items() if id < size}
    before, after = _around(rust, name)
    ends = named("eos_token_id")
    end = known.get("eos", next(iter([*ends, *after[-1:]]), None))
    bos = known.get("bos", known.get("cls"))
    every_byte = isinstance(rust.model, models.BPE) and isinstance(rust.decoder, decoders.ByteLevel)
    roles: JsonObject = {
        "pad": known.get("pad", next(iter(named("pad_token_id")), None)),
        "start": bos if before == (bos,) else None,
        "end": end,
        "unk": None if every_byte else known.get("unk"),  # byte-level BPE never needs an unknown token
        "mask": known.get("mask"),
        "opening": before,
        "closing": after,
        "stops": tuple(id for id in ends if id != end),
    }
    if config.get("is_encoder_decoder") is True or config.get("model_type") in ("bart", "marian"):
        first = named("decoder_start_token_id")
        if not first or end is None:
            raise DataError(f"{name}: its config.json names no decoder_start_token_id or no eos_token_id")
        opening = (*first[:1], *named("forced_bos_token_id")[:1])
        roles |= {"source": before, "opening": opening, "closing": (end,)}
    return Roles(**roles)


def _around(rust: tokenizers.Tokenizer, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the pipeline puts before and after a text."""
    try:
        framed, plain = rust.encode(PROBE).ids, rust.encode(PROBE, add_special_tokens=False).ids
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # PanicException derives from BaseException
        raise DataError(read_failure(name, error, "tokenizer that can cut a text", "download it again")) from None
    for place in range(len(framed) - len(plain) + 1):
        if framed[place : place + len(plain)] == plain:
            return tuple(framed[:place]), tuple(framed[place + len(plain) :])
    return (), ()


# --- pipelines from formats older than tokenizer.json ---


def frame(
    rust: tokenizers.Tokenizer, before: Sequence[str], after: Sequence[str], pair: Sequence[str] | None = None
) -> None:
    """Add a post-processor that puts these tokens around every text; `pair` is the template for two texts."""
    if tokens := dict.fromkeys([*before, *after]):
        rust.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=pair,
            special_tokens=[(token, rust.token_to_id(token)) for token in tokens],
        )


def word_pieces(files: TokenFiles, settings: JsonObject, names: Mapping[str, str]) -> tokenizers.Tokenizer:
    """Return the pipeline of BERT's `vocab.txt`, which has one token per line."""
    vocabulary = {line: number for number, line in enumerate(files.lines("vocab.txt"))}
    unknown, opens, closes = (names.get(role, "") for role in ("unk", "cls", "sep"))
    for token in (unknown, opens, closes):
        if token not in vocabulary:
            raise DataError(f"{files.folder / 'vocab.txt'} lacks {token}: it is damaged, or no vocabulary of BERT's")
    rust = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100))
    accents = settings.get("strip_accents")
    rust.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=settings.get("do_lower_case") is not False,
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    frame(rust, [opens], [closes], pair=[opens, "$A", closes, "$B", closes])
    return rust


def byte_pairs(
    files: TokenFiles, settings: JsonObject, names: Mapping[str, str], *, framed: bool
) -> tokenizers.Tokenizer:
    """Return the pipeline of GPT-2's `vocab.json` and `merges.txt`; BART's texts are `framed` by tokens."""
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


def marian_pieces(files: TokenFiles, settings: JsonObject, names: Mapping[str, str]) -> list[tokenizers.Tokenizer]:
    """Return Marian's pipelines for source and target.

    Each has a SentencePiece file. They share a vocabulary unless `separate_vocabs` is set.
    """
    targets = "target_vocab.json" if settings.get("separate_vocabs") is True else "vocab.json"
    sides = []
    for side, ids in (("source", "vocab.json"), ("target", targets)):
        vocabulary, spm = files.vocabulary(ids), files.path(f"{side}.spm")
        if not vocabulary or spm is None:
            lacking = f"{side}.spm" if vocabulary else ids
            raise DataError(f"{files.folder} is not whole: Marian's {lacking} is missing")
        unknown, specials, name = names.get("unk", ""), frozenset(names.values()), str(files.folder / ids)
        sides.append(pipeline(read_pieces(spm), vocabulary, unknown=unknown, specials=specials, vocabulary_name=name))
    return sides
