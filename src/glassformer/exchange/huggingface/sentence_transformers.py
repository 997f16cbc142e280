"""Folders of sentence-transformers: files beside config.json that define how token vectors are pooled."""

import json
from pathlib import Path
from typing import Any

from glassformer.config.errors import DataError
from glassformer.config.sections import ModelSettings
from glassformer.exchange.huggingface.architecture import Unsupported, short
from glassformer.exchange.token_files import TokenFiles

POOLS = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}
"""Pooling modes: their name → ours."""
KINDS = ["Transformer", "Pooling", "Normalize"]
"""The supported modules, in this order; the last one is optional."""
MODULES = "modules.json"


def sentence_settings(folder: Path) -> dict[str, Any]:
    """Return settings, by dotted key, from `modules.json` and the files it lists; none without `modules.json`."""
    files = TokenFiles(folder)
    text = files.text(MODULES)
    if text is None:
        return {}
    try:
        modules = json.loads(text)
        kinds, paths = ([str(module[key]) for module in modules] for key in ("type", "path"))
    except (ValueError, RecursionError, TypeError, KeyError):
        raise DataError(f"{folder / MODULES} is damaged: it holds no list of modules with type and path") from None
    names = [kind.split(".")[-1] for kind in kinds]
    if names not in (KINDS, KINDS[:2]):
        odd = next((name for name in names if name not in KINDS), ", ".join(names))
        raise Unsupported(f"{folder / MODULES}: {short(odd)} is not supported: only {', '.join(KINDS)}, in this order")
    pooling = files.json(f"{paths[1]}/config.json")
    if pooling is None:
        raise DataError(f"{folder / MODULES} names a Pooling module, but {short(paths[1])} holds no config.json")
    return {"model.pool": _pool(pooling, folder / paths[1] / "config.json"), "model.unit": len(names) == len(KINDS)}


def _pool(pooling: dict[str, Any], source: Path) -> str:
    """Return the pooling mode, which files store as a name or as the only true flag."""
    chosen = [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, value in pooling.items()
        if value is True and key.startswith("pooling_mode_")
    ]
    if isinstance(pooling.get("pooling_mode"), str):
        chosen = [pooling["pooling_mode"]]
    if len(chosen) != 1 or chosen[0] not in POOLS:
        what = " and ".join(map(short, chosen)) or "nothing"
        raise Unsupported(f"{source}: pooling by {what} is not supported: only by one of {', '.join(POOLS)}")
    return POOLS[chosen[0]]


def sentence_files(model: ModelSettings) -> dict[str, Any]:
    """Return the files that describe the pooling of a run: JSON contents by file name."""
    theirs = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "lasttoken": "lasttoken"}
    kinds = KINDS if model.unit else KINDS[:2]
    paths = ["" if number == 0 else f"{number}_{kind}" for number, kind in enumerate(kinds)]
    return {
        MODULES: [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
        ],
        "sentence_bert_config.json": {"max_seq_length": model.context, "do_lower_case": False},
        f"{paths[1]}/config.json": {
            "word_embedding_dimension": model.width,
            **{f"pooling_mode_{theirs[name]}": ours == model.pool for name, ours in POOLS.items()},
        },
    }
