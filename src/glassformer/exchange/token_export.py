"""Tokenizer files of an export, with which transformers' AutoTokenizer splits texts as the run does."""

import json
import shutil
from pathlib import Path

import tokenizers

from glassformer.config.json_types import JsonObject
from glassformer.config.presets import LANGUAGE_MODEL, TRANSLATION
from glassformer.config.resolve import Config
from glassformer.exchange.exporting import ExportedRun
from glassformer.exchange.token_reader import frame
from glassformer.runs.files import write_json, write_text
from glassformer.text.external_pipeline import steps
from glassformer.text.tokenizer import Roles, Tokenizer

PROBE = "a"
MAX_SUPPRESSED = 1000
"""Maximum number of ids in `suppress_tokens`."""


def token_settings(tokenizer: Tokenizer, config: Config) -> JsonObject:
    """Return the entries of config.json about special tokens."""
    roles = tokenizer.roles
    end = list(roles.ends) if roles.stops else roles.end
    settings: JsonObject = {"bos_token_id": _first(roles), "eos_token_id": end, "pad_token_id": roles.pad}
    if config.task == TRANSLATION:
        first, second = (*roles.opening, None)[:2]
        settings |= {"decoder_start_token_id": first, "forced_bos_token_id": second}
    return settings


def _generation_settings(tokenizer: Tokenizer, config: Config) -> JsonObject:
    """Return generation_config.json: greedy generation that suppresses ids that are never generated."""
    if config.task not in (LANGUAGE_MODEL, TRANSLATION):
        return {}
    settings = {key: value for key, value in token_settings(tokenizer, config).items() if value is not None}
    forced: tuple[int, ...] = ()
    if config.task == TRANSLATION:
        settings["max_length"] = config.model.context
        forced = tokenizer.roles.opening[1:]  # forced tokens cannot be suppressed
    never = [id for id in tokenizer.never(config.model.vocab or tokenizer.vocab_size) if id not in forced]
    return {**settings, **({"suppress_tokens": never} if 0 < len(never) <= MAX_SUPPRESSED else {})}


def write_token_files(run: ExportedRun, tokenizer: Tokenizer, place: Path) -> None:
    """Write the original files of an imported model, otherwise tokenizer.json and its companions."""
    if run.original is None:
        _write_own(run, tokenizer, place)
    else:
        for file in sorted(run.original.iterdir()):
            shutil.copyfile(file, place / file.name)
        if not (place / "source.spm").exists():
            write_text(place / "tokenizer.json", tokenizer.to_json())
    generation = place / "generation_config.json"
    if not generation.exists() and (settings := _generation_settings(tokenizer, run.config)):
        write_json(generation, settings)


def _write_own(run: ExportedRun, tokenizer: Tokenizer, place: Path) -> None:
    config, roles = run.config, tokenizer.roles
    after = () if config.task == LANGUAGE_MODEL else roles.closing  # the model continues the text
    before = roles.source if config.task == TRANSLATION else roles.opening
    write_text(place / "tokenizer.json", _framing(tokenizer, before, after))
    ids = {"bos": _first(roles), "eos": roles.end, "unk": roles.unk, "pad": roles.pad, "mask": roles.mask}
    rust = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    write_json(
        place / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config.model.context,
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "padding_side": "left" if config.task == LANGUAGE_MODEL else "right",
            **{f"{name}_token": rust.id_to_token(id) for name, id in ids.items() if id is not None},
            **run.specials,
        },
    )
    if run.chat_template is not None:
        write_text(place / "chat_template.jinja", run.chat_template)


def _first(roles: Roles) -> int | None:
    return roles.start if roles.start is not None else next(iter(roles.opening), None)


def _framing(tokenizer: Tokenizer, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """Return tokenizer.json with a post-processor that puts these ids around every text."""
    spec = json.loads(tokenizer.to_json())
    rust = tokenizers.Tokenizer.from_str(json.dumps(spec))
    plain = rust.encode(PROBE, add_special_tokens=False).ids
    if rust.encode(PROBE).ids == [*before, *plain, *after]:
        return str(rust.to_str(pretty=True))
    last = [step for step in steps(spec["post_processor"]) if step["type"] == "ByteLevel"]
    if before or after:
        opens, closes = ([str(rust.id_to_token(id)) for id in ids] for ids in (before, after))
        frame(rust, opens, closes, pair=[*opens, "$A", *closes, *opens, "$B:0", *closes])
        last.append(json.loads(rust.to_str())["post_processor"])
    spec["post_processor"] = {"type": "Sequence", "processors": last} if last else None
    return str(tokenizers.Tokenizer.from_str(json.dumps(spec)).to_str(pretty=True))
