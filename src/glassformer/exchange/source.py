"""Models to import: a Hugging Face folder, a GGUF file or a folder with one, or a name on the hub."""

from pathlib import Path

from glassformer.config.errors import DataError, Misuse, first_line
from glassformer.config.messages import say
from glassformer.data.datasets.hub import quiet_hub, refusal
from glassformer.exchange import CONFIG, GGUF, check_source
from glassformer.exchange.external_model import ExternalModel
from glassformer.exchange.gguf_reader import read_gguf
from glassformer.exchange.huggingface.folder import read_folder
from glassformer.runs.run import CARD

HUB_FILES = ["*.json", "*.txt", "*.safetensors", "*.spm", "*.jinja"]
"""Files to download from the hub: only types that are read."""
OTHER_MODELS = ["*/*.safetensors"]
"""Weights in subfolders, which belong to other models or precisions."""


def find(source: str) -> ExternalModel:
    """Return the model at `source`, without reading its weights."""
    check_source(source)
    path = Path(source)
    if path.is_dir():
        return _in_folder(path)
    if not path.is_file():
        path = fetch(source)
    if path.is_file():
        return read_gguf(path)
    if not (path / CONFIG).is_file():
        raise Misuse(f"{source} has no {CONFIG} on the hub; if it has {GGUF} files, name one: {source}/FILE")
    return read_folder(path, source)


def _in_folder(folder: Path) -> ExternalModel:
    if (folder / CONFIG).is_file():
        return read_folder(folder)
    files = sorted(folder.glob(f"*{GGUF}"))
    if len(files) > 1:
        raise Misuse(f"{folder} holds {len(files)} {GGUF} files: name one of them, such as {files[0]}")
    if (folder / CARD).is_file():
        raise Misuse(f"{folder} is a run already: every verb takes it as it is, such as train DATA --from {folder}")
    if not files:
        raise Misuse(f"{folder} holds no model: neither {CONFIG} nor a {GGUF} file")
    return read_gguf(files[0])


def fetch(name: str) -> Path:
    """Return the folder or file in the hub library's cache; download only what is missing."""
    import huggingface_hub

    say(f"{name}: asking the Hugging Face hub")
    model, _, file = name.rpartition("/") if name.endswith(GGUF) else (name, "", "")
    try:
        with quiet_hub():
            if file:
                return Path(huggingface_hub.hf_hub_download(model, file))
            download = huggingface_hub.snapshot_download
            return Path(download(model, allow_patterns=HUB_FILES, ignore_patterns=OTHER_MODELS))
    except Exception as error:  # several libraries raise for network, disk space and names
        why = refusal(error, model, "and the path") or f"the hub did not give it: {first_line(error)}"
        raise DataError(f"{name} (no file or folder here): {why}") from None
