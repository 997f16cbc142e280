"""What SOURCE may be: a Hugging Face folder, a GGUF file or a folder with one, or a name on the hub."""

from pathlib import Path

from glassformer.config.errors import Misuse
from glassformer.config.say import Say, silent
from glassformer.exchange.external_model import Found
from glassformer.exchange.gguf.reader import read_gguf
from glassformer.exchange.huggingface.folder import CONFIG, read_folder
from glassformer.exchange.huggingface.hub import fetch, is_hub_name
from glassformer.runs.run import CARD

GGUF = ".gguf"


def find(source: str, say: Say = silent) -> Found:
    """A model elsewhere, none of its weights read yet."""
    if not source:
        raise Misuse("a model is named by its folder, its file or its name on the hub, and this name is empty")
    path = Path(source)
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        if path.suffix != GGUF:
            raise Misuse(f"{path} is no model: name a .gguf file, or the folder with {CONFIG} and the weights")
        return read_gguf(path)
    if (path.suffix == GGUF and source.count("/") != 2) or not is_hub_name(source):  # a file there: OWNER/MODEL/FILE
        raise Misuse(f"no file or folder {source}")
    fetched = fetch(source, say)
    if fetched.is_file():
        return read_gguf(fetched)
    if not (fetched / CONFIG).is_file():
        raise Misuse(
            f"{source} has no {CONFIG} on the hub: of its {GGUF} files, if it has some, name one: {source}/FILE"
        )
    return read_folder(fetched, source)


def _in_folder(folder: Path) -> Found:
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
