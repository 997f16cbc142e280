"""Which special token is for what, by the files of a Hugging Face folder."""

from collections.abc import Mapping
from typing import Any

import tokenizers

from glassformer.config.errors import DataError
from glassformer.text.roles import Roles

PROBE = "a"


def roles_of(
    rust: tokenizers.Tokenizer,
    known: Mapping[str, int],
    config: Mapping[str, Any],
    generation: Mapping[str, Any],
    name: str,
) -> Roles:
    """The roles that files give to tokens.

    `known`: ids by the names of files (`bos`, `cls` …); `config` and `generation`: what the files of these say.
    """
    rows, ids = config.get("vocab_size"), max(rust.get_vocab().values()) + 1
    in_files = _FileIds(config, generation, min(ids, rows) if type(rows) is int else ids)
    known = {part: id for part, id in known.items() if id in in_files}
    before, after = _around(rust, name)
    ends = in_files.all("eos_token_id")
    end = known.get("eos", ends[0] if ends else after[-1] if after else None)
    pad = known.get("pad", in_files.first("pad_token_id"))
    bos = known.get("bos", known.get("cls"))
    roles: dict[str, Any] = {
        "pad": pad,
        "start": bos if before == (bos,) else None,
        "end": end,
        "unk": None if _every_byte(rust) else known.get("unk"),
        "mask": known.get("mask"),
        "opening": before,
        "closing": after,
        "stops": tuple(id for id in ends if id != end),
    }
    if config.get("is_encoder_decoder") is True or config.get("model_type") in ("bart", "marian"):
        first = in_files.first("decoder_start_token_id")
        if first is None or end is None:
            lacking = "decoder_start_token_id" if first is None else "eos_token_id"
            raise DataError(f"{name}: its config.json names no {lacking}, with which what is written begins or ends")
        forced = in_files.first("forced_bos_token_id")
        roles |= {"source": before, "opening": (first, *([] if forced is None else [forced])), "closing": (end,)}
    return Roles(**roles)


class _FileIds:
    """Ids in two files; one that no token has (such as -1) is none."""

    def __init__(self, config: Mapping[str, Any], generation: Mapping[str, Any], size: int) -> None:
        self.files = (generation, config)
        self.size = size

    def __contains__(self, id: object) -> bool:
        return type(id) is int and 0 <= id < self.size

    def all(self, key: str) -> list[int]:
        """The ids under a key, in the order in which they are named first."""
        values: list[Any] = [file.get(key) for file in self.files]
        lists = [value if isinstance(value, list) else [value] for value in values]
        return list(dict.fromkeys(id for ids in lists for id in ids if id in self))

    def first(self, key: str) -> int | None:
        return next(iter(self.all(key)), None)


def _around(rust: tokenizers.Tokenizer, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the pipeline puts before a text and after it."""
    try:
        framed, plain = rust.encode(PROBE).ids, rust.encode(PROBE, add_special_tokens=False).ids
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # what Rust gave up on is no Exception
        raise DataError(f"{name}: its tokenizer cannot cut a text, the file is damaged: {error}") from None
    for place in range(len(framed) - len(plain) + 1):
        if framed[place : place + len(plain)] == plain:
            return tuple(framed[:place]), tuple(framed[place + len(plain) :])
    return (), ()


def _every_byte(rust: tokenizers.Tokenizer) -> bool:
    """Whether no text is unknown, whatever token the files name for that."""
    return isinstance(rust.model, tokenizers.models.BPE) and isinstance(rust.decoder, tokenizers.decoders.ByteLevel)
