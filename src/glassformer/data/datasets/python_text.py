"""Text that is wherever Python is: its standard library, read as files and never imported."""

import ast
import functools
import inspect
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassformer.config.errors import DataError

LEFT_OUT = {"encodings", "pydoc_data", "test", "tests", "idle_test", "site-packages", "dist-packages"}
"""Folders of tables, of other people's packages, and of tests (lib2to3's hold files that are not Python)."""

BETWEEN_PARAGRAPHS = re.compile(r"\n(?:[ \t]*\n)+")


@functools.cache
def docstrings() -> tuple[str, ...]:
    """What modules, classes and functions say of themselves, a document a module."""
    return tuple(without_repeats("\n\n".join(_docstrings_of(source)) for source in _modules()))


@functools.cache
def sources() -> tuple[str, ...]:
    """The modules themselves."""
    return tuple(without_repeats(_modules()))


def without_repeats(documents: Iterable[str]) -> Iterator[str]:
    """Drop each paragraph that stood anywhere before, and documents of which nothing is left.

    A kept paragraph keeps the blank lines above it, two at most, as Python code is written.
    """
    seen: set[str] = set()
    for document in documents:
        kept = ""
        gap = ""
        for part in re.split(f"({BETWEEN_PARAGRAPHS.pattern})", document.strip("\n")):
            if BETWEEN_PARAGRAPHS.fullmatch(part):
                gap = "\n" * min(part.count("\n"), 3)
            elif part.strip() and part.strip() not in seen:
                seen.add(part.strip())
                kept += (gap if kept else "") + part.rstrip()
        if kept:
            yield kept + "\n"


def _modules() -> Iterator[str]:
    """The source of each module, sorted by path; what this machine's build wrote is left out."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = False
    for file in sorted(folder.rglob("*.py")):
        inside = file.relative_to(folder)
        if LEFT_OUT.isdisjoint(inside.parts) and not inside.parts[0].startswith(("config-", "_sysconfigdata")):
            found = True
            yield _read(file)
    if not found:
        raise DataError(f"no Python source in {folder}: this Python came without its standard library's files")


def _read(file: Path) -> str:
    try:
        with tokenize.open(file) as source:  # minds the encoding that the file declares
            return source.read()
    except (SyntaxError, UnicodeDecodeError, OSError):
        return ""  # someone else's file: the library's own can all be read


def _docstrings_of(source: str) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in old modules are not our business
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # not Python, or not this one
        return
    yield from _docstrings_below(tree)


def _docstrings_below(node: ast.AST) -> Iterator[str]:
    """Docstrings in the file's order (ast.walk goes level by level); expressions, which hold none, are passed over."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        text = ast.get_docstring(node, clean=False)
        if text and text.strip():
            yield inspect.cleandoc(text)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _docstrings_below(child)
