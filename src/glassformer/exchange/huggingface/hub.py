"""Models by their name on the Hugging Face hub: fetched once, and only files of kinds that are read."""

import re
from pathlib import Path

from glassformer.config.errors import DataError, Misuse
from glassformer.config.say import Say, silent
from glassformer.data.datasets.hub_refusals import quiet_hub, refusal

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
    model, _, file = name.rpartition("/") if name.endswith(".gguf") else (name, "", "")
    try:
        with quiet_hub():
            if file:
                return Path(huggingface_hub.hf_hub_download(model, file))
            return Path(huggingface_hub.snapshot_download(model, allow_patterns=PATTERNS, ignore_patterns=OTHERS))
    except Exception as error:  # no network, no space, no such name: of several libraries
        words = next(iter(str(error).splitlines()), type(error).__name__)
        why = refusal(error, model, "and the path") or f"the hub did not give it: {words}"
        raise DataError(f"{name} (no file or folder here): {why}") from None
