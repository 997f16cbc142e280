"""The files about tokens in a Hugging Face folder, each read with care: they may be damaged, or lead elsewhere."""

import json
from pathlib import Path
from typing import Any

from glassformer.config.errors import DataError, read_failure
from glassformer.config.limits import parse_json, read_text
from glassformer.exchange.huggingface.architecture import read_tables

ORIGINALS: list[str] = read_tables()["originals"]
"""Files that an export returns unchanged."""


class TokenFiles:
    """A folder's files by name. A link that leads out of the folder is not followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root = folder.resolve()
        self._roots = [root]
        if root.parent.name == "snapshots":  # the hub's cache: files are links into a folder beside
            self._roots.append(root.parents[1] / "blobs")

    def path(self, name: str) -> Path | None:
        """A plain file, or None."""
        path = self.folder / name
        try:
            if not path.is_file():
                return None
            real = path.resolve()
        except (OSError, ValueError):  # a name that no file can have
            return None
        return path if any(real.is_relative_to(root) for root in self._roots) else None

    def originals(self) -> tuple[Path, ...]:
        """The files that an export gives back as they came."""
        return tuple(path for name in ORIGINALS if (path := self.path(name)) is not None)

    def text(self, name: str) -> str | None:
        path = self.path(name)
        if path is None:
            return None
        try:
            return read_text(path)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise DataError(f"{path} is damaged: it is not text") from None

    def json(self, name: str) -> dict[str, Any] | None:
        """A JSON object."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = parse_json(text, str(self.folder / name))
            if "\\u" in text:  # which can smuggle in half a surrogate pair
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise DataError(f"{self.folder / name} is damaged: it holds half a character") from None
        except ValueError as error:
            raise DataError(read_failure(self.folder / name, error, remedy="download it again")) from None
        if not isinstance(value, dict):
            raise DataError(f"{self.folder / name} is damaged: it holds no JSON object")
        return value

    def vocabulary(self, name: str) -> dict[str, int]:
        """Tokens and their ids, of a JSON object; none where there is no such file."""
        value = self.json(name)
        if value is None:
            return {}
        ids = list(value.values())
        if not ids or any(type(id) is not int for id in ids) or sorted(ids) != list(range(len(ids))):
            raise DataError(f"{self.folder / name} is damaged: it does not number its {len(ids)} tokens from 0")
        return value

    def added(self) -> dict[str, int]:
        """`added_tokens.json`: tokens beyond the vocabulary's own."""
        value = self.json("added_tokens.json") or {}
        for token, id in value.items():
            if type(id) is not int or id < 0:
                raise DataError(f"{self.folder / 'added_tokens.json'} is damaged: {token!r} has the id {id!r}")
        return value

    def lines(self, name: str) -> list[str]:
        """The lines without their ends. Only a newline ends one: tokens may hold other signs that part lines."""
        return (self.text(name) or "").removesuffix("\n").replace("\r\n", "\n").split("\n")
