"""A Hugging Face folder: config.json, safetensors files and tokenizer files. No pickle is ever opened.

Folders of sentence-transformers have more files beside config.json, which define how token vectors are pooled.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.config.errors import DataError, Misuse, read_failure
from glassformer.config.json_types import JsonObject
from glassformer.config.model_section import SequenceSettings
from glassformer.config.presets import VECTORS
from glassformer.exchange import CONFIG
from glassformer.exchange.external_model import ExternalModel, Weights
from glassformer.exchange.huggingface.architecture import Unsupported, short
from glassformer.exchange.huggingface.importing import architecture_of
from glassformer.exchange.token_reader import TokenFiles, read_tokens
from glassformer.runs.weight_files import INDEX, WHOLE, weight_map

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".pkl")
"""Suffixes of weights that are not read. Some of these formats can run code when opened."""
FLOATS = ("F64", "F32", "F16", "BF16")


class FolderWeights(Weights):
    """Tensors of one safetensors file, or of several listed in an index. Only headers are read at first."""

    def __init__(self, paths: list[Path], owners: Mapping[str, str] | None = None) -> None:
        """Read the headers; `owners` maps each tensor to its file according to the index."""
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, tuple[Any, Path]] = {}
        for path in paths:
            try:
                file: Any = safe_open(path, framework="pt")
                for name in list(file.keys()):
                    if name in self._files:
                        raise DataError(f"{path} holds {name}, and so does {self._files[name][1]}")
                    self.shapes[name] = tuple(file.get_slice(name).get_shape())
                    self._files[name] = file, path
            except (OSError, SafetensorError) as error:
                raise DataError(read_failure(path, error, "safetensors file", "download it again")) from None
        for name, owner in (owners or {}).items():
            if name not in self._files or self._files[name][1].name != owner:
                raise DataError(f"{paths[0].parent / INDEX} says that {name} is in {owner}, but it is not")

    def read(self, name: str) -> Tensor:
        kind = self.kind_of(name)
        file, path = self._files[name]
        if kind not in FLOATS:
            raise Unsupported(f"{path}: {name} is of {kind}, and only plain numbers are read: F32, F16, BF16")
        try:
            weight: Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise DataError(read_failure(f"{path} ({name})", error, remedy="download it again")) from None
        return weight.to(torch.float32)

    def kind_of(self, name: str) -> str:
        return str(self._files[name][0].get_slice(name).get_dtype())


def read_folder(folder: Path, name: str | None = None) -> ExternalModel:
    """Return the model in a folder. Errors and cards refer to it as `name`."""
    files = TokenFiles(folder)
    config = files.json(CONFIG)
    if config is None:
        raise Misuse(f"{folder} holds no {CONFIG}: it is no Hugging Face model")
    if "auto_map" in config:
        raise Unsupported(f"{folder} brings program code of its own (auto_map), and none is ever run from a model")
    architecture, kind = architecture_of(config, name or str(folder))
    settings = sentence_settings(folder) if architecture.tasks[kind] == VECTORS else {}
    weights, tokens = _weights(folder, files), read_tokens(folder, config)
    return ExternalModel(name or str(folder), "huggingface", config, weights, tokens, settings)


def _weights(folder: Path, files: TokenFiles) -> FolderWeights:
    if (whole := files.path(WHOLE)) is not None:
        return FolderWeights([whole])
    if (index := files.json(INDEX)) is not None:
        try:
            owners = weight_map(index)
        except ValueError as error:
            raise DataError(f"{folder / INDEX} is damaged: {error}") from None
        paths = {name: files.path(name) for name in sorted(set(owners.values()))}
        if missing := [name for name, path in paths.items() if path is None]:
            raise DataError(f"{folder / INDEX} names {missing[0]}, which is not there")
        return FolderWeights([path for path in paths.values() if path is not None], owners)
    others = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if others:
        why = "a format that is never opened here (it may run a program)"
        raise Unsupported(f"{folder} has its weights in {others[0]}, {why}: save_pretrained writes safetensors")
    if (folder / WHOLE).is_symlink():
        raise DataError(f"{folder / WHOLE} is a link that leads nowhere, or out of its folder: copy the file there")
    raise DataError(f"{folder} holds no weights: neither {WHOLE} nor {INDEX}")


# --- folders of sentence-transformers ---

POOLS = {"cls": "first", "mean": "mean", "max": "max", "lasttoken": "last"}
"""Pooling modes: their name → ours."""
KINDS = ["Transformer", "Pooling", "Normalize"]
"""The supported modules, in this order; the last one is optional."""
MODULES = "modules.json"


def sentence_settings(folder: Path) -> JsonObject:
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


def _pool(pooling: JsonObject, source: Path) -> str:
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


def sentence_files(model: SequenceSettings) -> JsonObject:
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
