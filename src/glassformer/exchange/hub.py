"""Models by their name on the Hugging Face hub: fetched once, and only files of kinds that are read."""

import re
from pathlib import Path

from glassformer.config.errors import DataError, Misuse
from glassformer.config.say import Say, silent

PATTERNS = ["*.json", "*.txt", "*.safetensors", "*.spm", "*.jinja"]
OTHERS = ["*/*.safetensors"]
"""Weights in folders within are other models', or the same in another precision."""
NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*(/[\w-][\w.-]*\.gguf)?)?")
"""OWNER/MODEL; of the many GGUF files that there often are, one: OWNER/MODEL/FILE.gguf."""


def is_hub_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


def fetch(name: str, say: Say = silent) -> Path:
    """The folder, or the one file, as the hub's own library keeps it; what is there already is not fetched again."""
    try:
        import huggingface_hub
    except ImportError:
        raise Misuse(
            f"no file or folder {name}; to fetch a model of that name from the hub: pip install 'glassformer[hub]'"
        ) from None
    say(f"{name}: asking the Hugging Face hub")
    try:
        if name.count("/") == 2:
            return Path(huggingface_hub.hf_hub_download(*name.rsplit("/", 1)))
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=PATTERNS, ignore_patterns=OTHERS))
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such model, no space: the library's own kinds
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"there is no {name} here, and the hub did not give it: {why}") from None
