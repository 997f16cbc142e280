"""Files of weights: the one file of a run, and the shards of a Hugging Face folder."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from glassformer.runs.files import digest, save_tensors, write_json

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARDS = "model-*-of-*.safetensors"
NAMES = (WHOLE, INDEX, SHARDS)
"""Patterns of all files of a Hugging Face folder that hold weights or list shards."""
SHARD_BYTES = 5 * 10**9
"""Maximum size of a shard, as in Hugging Face's libraries; a larger tensor gets a shard of its own."""
METADATA = {"format": "pt"}
"""Metadata that transformers expects in a safetensors file."""


def digest_of(folder: Path) -> str:
    """Return the digest of a run's weights file."""
    return digest(folder / WHOLE)


def save(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write weights as Hugging Face does: one file, or shards with an index.

    The files are not written atomically: `folder` is to be renamed as a whole.
    """
    shards = _divide(weights)
    if len(shards) == 1:
        save_tensors(folder / WHOLE, weights, METADATA)
        return
    owners: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_tensors(folder / name, shard, METADATA)
        owners |= dict.fromkeys(shard, name)
    size = sum(weight.nbytes for weight in weights.values())
    write_json(folder / INDEX, {"metadata": {"total_size": size, **METADATA}, "weight_map": owners})


def _divide(weights: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Divide weights into as few shards as their order allows."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, weight in weights.items():
        if shards[-1] and size + weight.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = weight
        size += weight.nbytes
    return shards


def weight_map(index: Mapping[str, object]) -> dict[str, str]:
    """Return the file of each tensor from an index; raise `ValueError` unless all are plain names in its folder."""
    owners = index.get("weight_map")
    if not isinstance(owners, dict) or not owners:
        raise ValueError("it has no weight_map")
    for file in owners.values():
        plain = isinstance(file, str) and file.isprintable() and Path(file).name == file
        if not plain or not file.endswith(".safetensors"):
            text = repr(file) if len(repr(file)) <= 40 else f"{repr(file)[:37]}…"
            raise ValueError(f"{text} is not the name of a safetensors file beside it")
    return owners
