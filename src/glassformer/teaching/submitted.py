"""What a student hands in, a notebook or a file of Python, as the parts of it that are run."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.config.errors import Misuse, read_failure
from glassformer.config.limits import parse_json, read_text
from glassformer.teaching.lesson import Lesson
from glassformer.teaching.notebook import SHELL

MARK = re.compile(r"^# ?%%.*$", re.M)
"""Where a cell begins in a file of Python."""
MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|(?:\w+[ \t]*=[ \t]*)[%!].*|[\w.]+\?{1,2}[ \t]*)$", re.M)
"""A line for IPython."""
WRITTEN = re.compile(r"^(?:(?:def|class)[ \t]+)?(\w+)[ \t]*[=(:]", re.M)
"""What text that is no Python seems to define."""
OTHER_LANGUAGE = re.compile(r"%%(?!time|capture|prun)\w+")
MOST_LINES = 10**7
"""Of all parts together, with the empty ones above them."""
HARMLESS = ("lesson", "use")
"""What our own cells may call of glassformer's while they are graded: no training, no look."""


@dataclass(frozen=True)
class Part:
    """What is run at once."""

    label: str
    """Where it stands, such as `cell 3`."""
    source: str
    is_ours: bool = False
    """Whether it is of the lesson itself: what goes wrong in it is not the student's."""

    @property
    def names(self) -> set[str]:
        """What it defines, as far as can be told."""
        tree = _parsed(self.source)
        if tree is None:
            return set(WRITTEN.findall(self.source))
        return {name for node in ast.walk(tree) for name in _defined(node)}

    @property
    def uses(self) -> set[str]:
        """The names that it reads."""
        return set(re.findall(r"[^\W\d]\w*", self.source))


def _defined(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_submission(file: str | Path, lesson: Lesson) -> list[Part]:
    """The parts that are run, in order; what cannot be read is a `Misuse`, and so is a link: to a solution, say."""
    if Path(file).is_symlink():
        raise Misuse(f"{file} is a link to another file: hand in the file itself")
    try:
        text = read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(read_failure(file, error, "text")) from None
    if not text.strip():
        raise Misuse(f"{file} is empty")
    if is_notebook(file):
        return _of_notebook(_code_cells(text, file), lesson)
    if str(file).endswith(".py"):
        return list(_of_python(text, Path(file).name))
    raise Misuse(f"{file} is neither a notebook (.ipynb) nor Python (.py)")


def is_notebook(file: str | Path) -> bool:
    return str(file).endswith(".ipynb")


# --- notebooks ---


def _code_cells(text: str, file: str | Path) -> list[str]:
    try:
        notebook = parse_json(text, str(file))
        return [_joined(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    except (ValueError, TypeError, KeyError):
        raise Misuse(f"{file} is no notebook that can be read: save it again, or download it again") from None


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _of_notebook(cells: Sequence[str], lesson: Lesson) -> list[Part]:
    """What the student wrote, and of our own cells what they may build on."""
    ours = {_bare(without_magics(cell.text())) for cell in lesson.cells if cell.kind == "code"}
    parts = list[Part]()
    for number, source in enumerate(cells, 1):
        source = without_magics(source)
        is_ours = _bare(source) in ours
        source = _definitions(source) if is_ours else source
        if source.strip():
            parts.append(Part(f"cell {number}", source, is_ours))
    return _needed(parts, {exercise.name for exercise in lesson.exercises})


def _needed(parts: Sequence[Part], asked: set[str]) -> list[Part]:
    """What the student wrote, and our own that it, or what is asked for, is built on."""
    kept = {place for place, part in enumerate(parts) if not part.is_ours}
    used = asked.union(*(parts[place].uses for place in kept))
    while more := {place for place, part in enumerate(parts) if place not in kept and part.names & used}:
        kept |= more
        used = used.union(*(parts[place].uses for place in more))
    return [parts[place] for place in sorted(kept)]


def _bare(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def without_magics(source: str) -> str:
    """A cell without lines for IPython; of another language, nothing."""
    if source.startswith(SHELL) or OTHER_LANGUAGE.match(source.lstrip()):
        return ""
    return source if _parsed(source) is not None else MAGIC.sub(r"\1pass", source)


def _definitions(source: str) -> str:
    """Imports, functions, classes and values; no training, no look, nothing that takes long."""
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
    """A call of glassformer's that trains or looks."""
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gf"
    return named and isinstance(node, ast.Attribute) and node.attr not in HARMLESS


# --- Python ---


def _of_python(text: str, name: str) -> Iterator[Part]:
    """By cells where it has marks, else by statements, of which lines keep their numbers; of too many, all at once."""
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
    """Where each begins; of text that is no Python, where a line begins without a blank after an empty one."""
    tree = _parsed(text)
    if tree is None:
        return [match.start(1) for match in re.finditer(r"\n[ \t]*\n(?=(\S))", text)]
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    first = [min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))]) for node in tree.body]
    return [lines[line - 1] for line in dict.fromkeys(first)]
