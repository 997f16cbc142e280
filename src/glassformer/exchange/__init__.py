"""Third-party formats: import of Hugging Face folders and GGUF files, export to Hugging Face folders and ONNX."""

import re
from importlib.util import find_spec
from pathlib import Path

from glassformer.config.errors import Misuse

CONFIG, GGUF = "config.json", ".gguf"
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*(/[\w-][\w.-]*\.gguf)?)?")
"""OWNER/MODEL, or OWNER/MODEL/FILE.gguf for one of a model's GGUF files."""


def check_source(source: str) -> None:
    """Raise `Misuse` unless `source` is a folder, a .gguf file, or a possible name on the hub; imports no torch."""
    if not source:
        raise Misuse("a model is named by its folder, its file or its name on the hub, and this name is empty")
    path = Path(source)
    if path.is_file() and path.suffix != GGUF:
        raise Misuse(f"{path} is no model: name a .gguf file, or the folder with {CONFIG} and the weights")
    if path.exists():
        return
    if not HUB_NAME.fullmatch(source) or (path.suffix == GGUF and source.count("/") != 2):
        raise Misuse(f"no file or folder {source}")
    if find_spec("huggingface_hub") is None:
        raise Misuse(f"no file or folder {source}; to fetch it from the hub: pip install 'glassformer[hub]'")
