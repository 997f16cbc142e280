"""Files of users and the parts they register: bricks, models, encoders, families, views. Imports no torch.

`gf.use("mine.py")`, and `--brick mine.py` of every verb, import a file. An environment variable passes it on to the
processes of `compare`, `tune`, `check` and torchrun. No other code imports such a file; a run only stores its name.
"""

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer.config.errors import (
    GlassformerError,
    Misuse,
    SettingError,
    error_line,
    read_failure,
    unknown,
    with_article,
)

VARIABLE = "GLASSFORMER_PLUGINS"

BRICKS = {"attention": "model.scores", "norm": "model.norm", "positions": "model.positions", "pooling": "model.pool"}
"""Kinds of bricks, and the setting that selects one."""
CHOSEN_BY = {**BRICKS, "encoder": "model.encoder", "model": "model.encoder"}
"""Kinds of bricks and whole models, and the setting that selects one."""
FAMILY = "task"
"""Kind of a family of tasks."""


@dataclass(frozen=True)
class OwnPart:
    """A part registered by a user."""

    kind: str
    name: str
    make: Any
    """The registered class or function."""
    file: Path | None
    """Its file; None for a notebook or the main program."""
    digest: str | None
    """SHA-256 of the file."""

    def __str__(self) -> str:
        return _in_words(self.kind, self.name, None if self.file is None else self.file.name)

    def takes(self, word: str) -> bool:
        """Return whether its `forward` has a parameter with this name."""
        forward = getattr(self.make, "forward", None)
        return forward is not None and word in inspect.signature(forward).parameters

    def card(self) -> dict[str, Any]:
        """Return the entry of a run's card, which never contains code."""
        file = None if self.file is None else self.file.name
        return {"kind": self.kind, "name": self.name, "file": file, "sha256": self.digest}

    def failure(self, error: BaseException) -> SettingError:
        """Return an exception in its code as a one-line error."""
        return SettingError(f"{self} fails: {_place(error, self.file)}{error_line(error)}")


_parts: dict[tuple[str, str], OwnPart] = {}
_digests: dict[Path, str] = {}
"""Digests of the imported files at the time of their import."""
_noted = 0
"""Number of registrations."""
_warned: set[tuple[Path | None, str | None]] = set()
"""Files with a warning about a changed digest."""


def _in_words(kind: str, name: str, file: str | None) -> str:
    return f'{kind} "{name}"' + (f" of {file}" if file else "")


def _place(error: BaseException, file: Path | None) -> str:
    """Return `line 12: `, the last line of the file in the traceback."""
    trace, line = error.__traceback__, None
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(file) else line
        trace = trace.tb_next
    return "" if line is None else f"line {line}: "


# --- registered parts ---


def note_part(kind: str, name: str, make: Any, module: str | None = None) -> None:
    """Record a registered part and pass its file on to child processes; ignore glassformer's own parts.

    The file of the main program is not passed on.
    """
    global _noted
    module = module or make.__module__
    if module.startswith("glassformer."):
        return
    file = getattr(sys.modules.get(module), "__file__", None)
    path = None if file is None or module == "__main__" else Path(file).resolve()
    known = _parts.get((kind, name))
    if known is not None and None not in (known.file, path) and known.file != path:
        raise Misuse(f"there is {known} already: choose another name")
    digest = None if path is None else _digests.get(path) or _digest(path.read_bytes())
    _parts[kind, name] = OwnPart(kind, name, make, path, digest)
    _noted += 1
    if path is not None:
        _tell_processes(path)


def own_part(kind: str, name: str) -> OwnPart | None:
    return _parts.get((kind, name))


def kind_of_part(make: Any) -> str | None:
    """Return the kind that a class or function was registered as; None if it was not."""
    return next((part.kind for part in _parts.values() if part.make is make), None)


def parts_in(module: ModuleType) -> list[Any]:
    """Return the classes and functions that a file registers."""
    return [part.make for part in _parts.values() if part.make.__module__ == module.__name__]


def own_names(setting: str) -> list[str]:
    """Return the registered names for a setting, by its dotted key."""
    return [name for kind, name in _parts if CHOSEN_BY.get(kind) == setting]


def own_files() -> dict[str, str]:
    """Return the files with registered parts of models, and prefixes of their digests."""
    parts = [part for part in _parts.values() if part.kind in CHOSEN_BY or part.kind == FAMILY]
    return {part.file.name: part.digest[:12] for part in parts if part.file is not None and part.digest is not None}


def parts_of(config: Any) -> list[OwnPart]:
    """Return the registered parts that a configuration uses."""
    return [part for part in _parts.values() if _uses(config, part)]


def _uses(config: Any, part: OwnPart) -> bool:
    if part.kind == FAMILY:
        return bool(config.task == part.name)
    key = CHOSEN_BY.get(part.kind)
    return key is not None and config.get(key) == part.name and config.idle(key) is None


# --- registered parts of a trained run ---


def cards_of(card: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield kind, name, file and digest of the parts in a run's card; skip invalid entries."""
    for entry in card.get("bricks") or ():
        match entry:
            case {"kind": str(kind), "name": str(name)}:
                texts = [value if isinstance(value := entry.get(key), str) else None for key in ("file", "sha256")]
                yield kind, name, texts[0], texts[1]


def missing_part(run: object, card: Mapping[str, Any]) -> str | None:
    """Return a message about the first part of a run that is not registered; None if all are."""
    for kind, name, file, _ in cards_of(card):
        if own_part(kind, name) is None:
            trained = f"{run} was trained with {_in_words(kind, name, file)}"
            if file is None:
                return f"{trained}, which is not known here: register it first, or keep it in a file for gf.use(…)"
            return f'{trained}: say --brick {file} (from Python: gf.use("{file}"))'
    return None


def changed_parts(run: object, card: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each file that differs from the one the run was trained with, once per file."""
    for kind, name, file, digest in cards_of(card):
        part = own_part(kind, name)
        if part is None or part.digest == digest or (part.file, digest) in _warned:
            continue
        _warned.add((part.file, digest))
        here = None if part.file is None else part.file.name
        if here == file:
            yield f"{file} has changed since {run} was trained"
        else:
            trained = _in_words(kind, name, file or "a notebook")
            yield f"{run} was trained with {trained}; here it is of {here or 'this program'}"


# --- files ---


def use(*files: str | os.PathLike[str]) -> None:
    """Import files that register bricks, models, encoders, families or views.

    A changed file is imported again. `FILE.py:Name` must define that name, and need not register anything.
    """
    for word in files:
        if not isinstance(word, str | os.PathLike):
            raise Misuse(f"gf.use takes names of files, not {with_article(word)}")
        file, name = split_name(os.fspath(word))
        path, before = Path(file).expanduser().resolve(), _noted
        known = path in _digests
        module = import_file(file)
        if name is not None:
            named_in(module, file, name)
        elif not known and _noted == before and all(part.file != path for part in _parts.values()):
            raise Misuse(f"{file} registers nothing: use gf.register_brick, or name a class, as in {file}:Attention")


def split_name(word: str) -> tuple[str, str | None]:
    """Split `FILE.py:Name` into the file and the name; None without a name."""
    file, _, name = word.rpartition(":")
    return (file, name) if file.endswith(".py") and name.isidentifier() else (word, None)


def named_in(module: ModuleType, file: str, name: str) -> Any:
    """Return the object with this name in a file."""
    if not hasattr(module, name):
        own = [one for one, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        raise Misuse(f"{file}: {unknown('name', name, own)}")
    return getattr(module, name)


def load_plugins() -> None:
    """Import the files listed in the environment variable."""
    for entry in _entries():
        import_file(entry)


def import_file(file: str) -> ModuleType:
    """Import a Python file once, and again if it has changed."""
    path = Path(file).expanduser().resolve()
    if path.suffix != ".py" or path.is_dir():
        raise Misuse(f"{file} is no Python file: name one that ends in .py")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise Misuse(read_failure(file, error)) from None
    digest = _digest(source)
    module = next((one for one in list(sys.modules.values()) if getattr(one, "__file__", None) == str(path)), None)
    if module is None or _digests.get(path, digest) != digest:
        module = _execute(file, path, source, digest)
    _digests[path] = digest
    _tell_processes(path)
    return module


def _execute(file: str, path: Path, source: bytes, digest: str) -> ModuleType:
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module, before, known = importlib.util.module_from_spec(spec), sys.modules.get(name), _digests.get(path)
    sys.modules[name], _digests[path] = module, digest
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except BaseException as error:
        sys.modules.pop(name) if before is None else sys.modules.update({name: before})
        _digests.pop(path) if known is None else _digests.update({path: known})
        if not isinstance(error, Exception | SystemExit):
            raise
        where, what = _place(error, path), error_line(error)
        if isinstance(error, SyntaxError):
            where, what = f"line {error.lineno}: ", f"{type(error).__name__}: {error.msg}"
        elif isinstance(error, GlassformerError):
            what = str(error)
        raise Misuse(f"{file} cannot be imported: {where}{what}") from error
    return module


def _module_name(path: Path) -> str:
    """Return the name of the file, or a longer one if another module is imported by that name."""
    stem = path.stem
    try:
        spec = sys.modules[stem].__spec__ if stem in sys.modules else importlib.util.find_spec(stem)
        free = stem not in sys.modules and spec is None
    except (ImportError, ValueError):
        spec, free = None, False
    is_own = spec is not None and spec.origin == str(path)
    return stem if free or is_own else f"{stem}_{_digest(os.fsencode(path))[:8]}"


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def _entries() -> list[str]:
    return [entry for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]


def _tell_processes(path: Path) -> None:
    if str(path) not in (entries := _entries()):
        os.environ[VARIABLE] = os.pathsep.join([*entries, str(path)])
