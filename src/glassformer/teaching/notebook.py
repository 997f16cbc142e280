"""Conversion of a lesson's Markdown to cells, and of cells to a notebook or a page.

The Markdown has the format of jupytext: python and sh fences are code cells. All other text is Markdown cells, which
two empty lines separate.
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
"""Line that replaces the solution in the student's version."""
SHELL = "%%sh\n"


@dataclass(frozen=True)
class Cell:
    """Cell of a notebook; a code cell includes the solution and its markers."""

    kind: Literal["code", "markdown"]
    source: str

    def text(self, *, solution: bool = False) -> str:
        """Return the text for students or with the solution."""
        if self.kind == "markdown":
            return self.source
        write = partial(STAND_IN.sub, "") if solution else _blank
        return SOLUTION.sub(lambda match: write(match[1]), self.source).rstrip()


def _blank(inside: str) -> str:
    """Return the student's replacement of a solution: the marked lines, or a NotImplementedError if there are none."""
    stand_in = "".join(f"{indent}{line}" for indent, line in STAND_IN.findall(inside))
    first = next((line for line in inside.splitlines() if line.strip()), "")
    return stand_in or f'{first[: len(first) - len(first.lstrip())]}raise NotImplementedError("your turn")\n'


def cells_of(markdown: str) -> list[Cell]:
    """Split a lesson's Markdown into cells."""
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
    """Return the student's version as Markdown."""
    return "\n\n".join(_fenced(cell) if cell.kind == "code" else cell.source for cell in cells) + "\n"


def _fenced(cell: Cell) -> str:
    text = cell.text()
    language = "sh" if text.startswith(SHELL) else "python"
    return f"```{language}\n{text.removeprefix(SHELL)}\n```"


def notebook_of(cells: Sequence[Cell], *, name: str, solution: bool = False) -> dict[str, Any]:
    """Return a notebook in Jupyter's format 4.5, without outputs."""
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
    """Convert formulas to $$…$$ and $…$, and relative links, which lead nowhere in a notebook, to emphasised text."""
    blocks = FENCE.sub(lambda match: _block(match[2]) if match[1] == "math" else match[0], markdown)
    named = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"*\1*", blocks)
    return re.sub(r"\$`(.+?)`\$", r"$\1$", named)


def _block(formula: str) -> str:
    return f"$$\n{textwrap.dedent(formula).rstrip()}\n$$"
