"""Reading of submissions: split a notebook or Python file into the parts that are run."""

import ast
import codecs
import contextlib
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePath
from typing import Any

from glassformer.config.errors import Misuse
from glassformer.config.limits import parse_json
from glassformer.teaching.notebook import SHELL, Cell

MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"),
)  # fmt: skip
"""Byte-order marks, and the encodings that they stand for."""
MAX_PARTS = 5000

MARK = re.compile(r"^# ?%%.*$", re.M)
"""Comment that begins a cell in a Python file."""
MAGIC = re.compile(r"^([ \t]*)(?:(?:\w+[ \t]*=[ \t]*)?[%!](?:.*\\\n)*.*|\?.*|[\w.]+\?{1,2}[ \t]*)$", re.M)
"""IPython command, with the lines that continue it after a backslash."""
TIMED = re.compile(r"^([ \t]*(?:\w+[ \t]*=[ \t]*)?)%time[ \t]+(?=\S)", re.M)
"""%time before a statement, which IPython runs in the notebook's namespace."""
WRITTEN = re.compile(r"^(?:(?:def|class)[ \t]+)?(\w+)[ \t]*[=(:]", re.M)
"""Name that text seems to define, for text that is not valid Python."""
OTHER_LANGUAGE = re.compile(r"%%(?!time|capture|prun)\w+")
MOST_LINES = 10**7
"""Maximum number of lines of all parts together, including the empty lines above each part."""
HARMLESS = ("lesson", "use")
"""Functions of glassformer that the lesson's own cells may call during grading. They train and evaluate nothing."""


@dataclass(frozen=True)
class Part:
    """Part of a submission that is run at once."""

    label: str
    """Location, such as `cell 3`."""
    source: str
    is_ours: bool = False
    """Whether the part belongs to the lesson itself, so that its errors are not the student's."""

    @cached_property
    def names(self) -> set[str]:
        """Return the names that the part defines, as far as its text shows."""
        tree = _parsed(self.source)
        if tree is None:
            return set(WRITTEN.findall(self.source))
        return {name for node in ast.walk(tree) for name in _defined(node)}

    @cached_property
    def uses(self) -> set[str]:
        """Return the names that the part may read: all identifiers in its text."""
        return set(re.findall(r"[^\W\d]\w*", self.source))


def _defined(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


@lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_submission(content: bytes, name: str, cells: Collection[str], asked: set[str]) -> list[Part]:
    """Return the parts of a file in the order in which they run; raise `Misuse` if it is not a submission.

    `name`: file name. `cells`: the lesson's own cells, which run only if they are needed.
    `asked`: names that the exercises use.
    """
    text = decode(content)
    if not text.strip():
        raise Misuse(f"{name} is empty")
    if is_notebook(name):
        parts = _of_notebook(_code_cells(text, name), cells, asked)
    else:
        parts = list(_of_python(_repaired(text), PurePath(name).name))
    if len(parts) > MAX_PARTS:
        raise Misuse(f"{name} has {len(parts):,} cells, more than {MAX_PARTS:,}")
    return parts


def is_notebook(file: str | PurePath) -> bool:
    return str(file).lower().endswith(".ipynb")


def decode(content: bytes) -> str:
    """Return text in any encoding that editors write, without a byte-order mark and with LF as line end."""
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "")
    if not encoding and b"\0" in content[:100]:  # UTF-16 without a mark: every other byte of ASCII is 0
        encoding = "utf-16-le" if content[1:2] == b"\0" else "utf-16-be"
    if not encoding:
        encoding = "utf-8"
        try:
            content.decode()
        except UnicodeDecodeError:
            with contextlib.suppress(SyntaxError):
                encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
            encoding = "cp1252" if encoding.startswith("utf-8") else encoding
    return _clean(content.decode(encoding, errors="replace"))


def _clean(text: str) -> str:
    return text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")


def _repaired(source: str) -> str:
    """Return Python source with repaired indentation; text that cannot be repaired is unchanged.

    A cell may be indented as a whole, which Jupyter accepts, or mix tabs and spaces.
    """
    if _parsed(source) is not None:
        return source
    variants = [
        text for tabs in (source, source.expandtabs(4), source.expandtabs(8)) for text in (tabs, _dedented(tabs))
    ]
    return next((text for text in variants[1:] if _parsed(text) is not None), source)


def _dedented(source: str) -> str:
    """Return a cell without the indentation of its first line."""
    indent = re.match(r"(?:[ \t]*\n)*([ \t]*)", source)
    return re.sub(rf"^{indent[1]}", "", source, flags=re.M) if indent else source


# --- notebooks ---


def _code_cells(text: str, name: str) -> list[str]:
    """Return the code cells of a notebook of format 3 or 4."""
    try:
        notebook = parse_json(text, name)
        cells = notebook["cells"] if "cells" in notebook else [
            cell for sheet in notebook["worksheets"] for cell in sheet["cells"]
        ]  # fmt: skip
        sources = [cell.get("source", cell.get("input", "")) for cell in cells if cell.get("cell_type") == "code"]
        if cells:
            return [_clean(_joined(source)) for source in sources]
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise Misuse(f"{name} is not a notebook that can be read: save it again, or download it again")


def _joined(source: Any) -> str:
    """Return the text of a cell, given as a string or as lines with or without line ends."""
    if isinstance(source, str):
        return source
    lines = [*source]
    bare = len(lines) > 1 and not any(line.endswith("\n") for line in lines[:-1])
    return ("\n" if bare else "").join(lines)


def own_cells(cells: Sequence[Cell]) -> list[str]:
    """Return the code cells of a lesson in the form in which `read_submission` compares them."""
    return [_bare(without_magics(cell.text())) for cell in cells if cell.kind == "code"]


def _of_notebook(cells: Sequence[str], own: Collection[str], asked: set[str]) -> list[Part]:
    """Return the student's cells, and the lesson's cells that they may build on."""
    ours, parts = set(own), list[Part]()
    for number, source in enumerate(cells, 1):
        source = _repaired(without_magics(source))
        is_ours = _bare(source) in ours
        source = _definitions(source) if is_ours else source
        if source.strip():
            parts.append(Part(f"cell {number}", source, is_ours))
    return _needed(parts, asked)


def _needed(parts: Sequence[Part], asked: set[str]) -> list[Part]:
    """Return the student's parts, and the lesson's parts that they or the exercises depend on."""
    kept = {place for place, part in enumerate(parts) if not part.is_ours}
    used = asked.union(*(parts[place].uses for place in kept))
    while more := {place for place, part in enumerate(parts) if place not in kept and part.names & used}:
        kept |= more
        used = used.union(*(parts[place].uses for place in more))
    return [parts[place] for place in sorted(kept)]


def _bare(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def without_magics(source: str) -> str:
    """Replace IPython commands by `pass`; keep the number of lines and the statements that %time runs.

    Return an empty string for a cell in another language.
    """
    if source.startswith(SHELL) or OTHER_LANGUAGE.match(source.lstrip()):
        return ""
    if _parsed(source) is not None:
        return source
    return MAGIC.sub(lambda match: f"{match[1]}pass" + "\n" * match[0].count("\n"), TIMED.sub(r"\1", source))


def _definitions(source: str) -> str:
    """Return the imports, functions, classes and assignments of a cell, without calls that may take long."""
    tree = _parsed(source)
    if tree is None:
        return ""
    kept = [node for node in tree.body if _is_definition(node)]
    return ast.unparse(ast.Module(kept, []))


def _is_definition(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
        return True
    return isinstance(node, ast.Assign | ast.AnnAssign) and not any(map(_works, ast.walk(node)))


def _works(node: ast.AST) -> bool:
    """Return whether a node is a function of glassformer that may train or evaluate a model."""
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gf"
    return named and isinstance(node, ast.Attribute) and node.attr not in HARMLESS


# --- Python ---


def _of_python(text: str, name: str) -> Iterator[Part]:
    """Split a Python file at its cell marks or, if it has none, into statements.

    The parts keep their line numbers. A file with too many lines and parts is one part.
    """
    starts = [match.start() for match in MARK.finditer(text)]
    if not starts:
        starts = _statements(text)
    if len(starts) * text.count("\n") > MOST_LINES:
        starts = []
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        if text[start:end].strip():
            above = "\n" * text.count("\n", 0, start)
            yield Part(name, without_magics(above + text[start:end]))


def _statements(text: str) -> list[int]:
    """Return the offsets at which statements begin; a statement on the last line of another belongs to it.

    If the text is not valid Python, return the offsets at which a line without indentation follows an empty line.
    """
    tree = _parsed(text)
    if tree is None:
        return [match.start(1) for match in re.finditer(r"\n[ \t]*\n(?=(\S))", text)]
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    starts, last = list[int](), 0
    for node in tree.body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        if first > last:
            starts.append(lines[first - 1])
        last = node.end_lineno or first
    return starts
