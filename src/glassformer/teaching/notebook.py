"""A lesson's Markdown as cells, and cells as a notebook. The Markdown is jupytext's: fences of python and sh are code
cells, all else is Markdown cells, which two empty lines part.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.M | re.S)
SOLUTION = re.compile(r"^[ \t]*### BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*### END SOLUTION[ \t]*(?:\n|\Z)", re.M | re.S)
STAND_IN = re.compile(r"^([ \t]*)# ?- (.*(?:\n|\Z))", re.M)
"""A line that a student has instead of the solution."""
SHELL = "%%sh\n"


@dataclass(frozen=True)
class Cell:
    """A piece of a notebook; of code, with the solution and its marks."""

    kind: Literal["code", "markdown"]
    source: str

    def text(self, *, solution: bool = False) -> str:
        """Its text, for students or with the solution."""
        if self.kind == "markdown":
            return self.source
        write = partial(STAND_IN.sub, "") if solution else _blank
        return SOLUTION.sub(lambda match: write(match[1]), self.source).rstrip()


def _blank(inside: str) -> str:
    """What a student has: the lines marked so; without any, an error that says whose turn it is."""
    stand_in = "".join(f"{indent}{line}" for indent, line in STAND_IN.findall(inside))
    first = next((line for line in inside.splitlines() if line.strip()), "")
    return stand_in or f'{first[: len(first) - len(first.lstrip())]}raise NotImplementedError("your turn")\n'


def cells_of(markdown: str) -> list[Cell]:
    """The cells of a lesson."""
    cells, read = list[Cell](), 0
    for fence in FENCE.finditer(markdown):
        if fence[1] in ("python", "sh"):
            cells += _words(markdown[read : fence.start()])
            shell = SHELL if fence[1] == "sh" else ""
            cells.append(Cell("code", shell + fence[2].rstrip("\n")))
            read = fence.end()
    return [*cells, *_words(markdown[read:])]


def _words(markdown: str) -> Iterator[Cell]:
    for part in re.split(r"\n\n\n+", markdown):
        if part.strip():
            yield Cell("markdown", part.strip("\n"))


def page_of(cells: Sequence[Cell]) -> str:
    """Markdown again, for students."""
    return "\n\n".join(_fenced(cell) if cell.kind == "code" else cell.source for cell in cells) + "\n"


def _fenced(cell: Cell) -> str:
    text = cell.text()
    language = "sh" if text.startswith(SHELL) else "python"
    return f"```{language}\n{text.removeprefix(SHELL)}\n```"


def notebook_of(cells: Sequence[Cell], *, name: str, solution: bool = False) -> dict[str, Any]:
    """A notebook as Jupyter's format 4.5 has it, without outputs."""
    return {
        "cells": [_cell(cell, f"{name}-{place}", solution) for place, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(cell: Cell, id: str, solution: bool) -> dict[str, Any]:
    text = cell.text(solution=solution)
    source = (as_in_notebooks(text) if cell.kind == "markdown" else text).splitlines(keepends=True)
    code: dict[str, Any] = {"execution_count": None, "outputs": []} if cell.kind == "code" else {}
    return {"cell_type": cell.kind, "id": id, "metadata": {}, "source": source, **code}


def as_in_notebooks(markdown: str) -> str:
    """Formulas as a notebook reads them, $$…$$ and $…$; pages of the documentation, which are not there, by name."""
    blocks = FENCE.sub(lambda match: _block(match[2]) if match[1] == "math" else match[0], markdown)
    named = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"*\1*", blocks)
    return re.sub(r"\$`(.+?)`\$", r"$\1$", named)


def _block(formula: str) -> str:
    return f"$$\n{textwrap.dedent(formula).rstrip()}\n$$"
