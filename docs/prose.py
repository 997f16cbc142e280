"""Refuse wording that has a plainer replacement, in documents, help texts and messages.

    python docs/prose.py [FILE…]

Without FILE, all documents, templates and Python sources are read. In Python files the strings and docstrings count,
in Markdown files the text outside of code. Exit code 1: at least one phrase must be replaced.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PLACES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md", "docs", "recipes")

REPLACEMENTS = {
    r"beyond chance": "significant",
    r"(cannot|can not|can't) be told (apart )?from": "not significantly different from",
    r"told apart": "significantly different, distinguished",
    r"what is held out": "the validation set, the test set",
    r"is held against": "is compared with",
    r"\banew\b": "again",
    r"\bonce more\b": "again",
    r"\b(whoever|nobody|whom)\b": "name the component",
    r"\bso[- ]many(ieth)?\b": "n, every n-th",
    r"is nothing to": "has no option",
    r"(says|said|say) (something|nothing) (else|on)": "disagrees with, prints",
    r"leave[sd]? away": "omit, remove",
    r"\bin vain\b": "without success",
    r"\bat its word\b": "literally",
    r"\b(came|comes|come) along\b": "is included, ships with",
    r"pieces of (words|characters)": "subwords, character n-grams",
    r"\bbegins? from\b": "is initialised from",
    r"there is to be had": "name the maximum",
    r"\bof one's own\b": "your own",
    r"for itself\b": "separately",
    r"\bgoes on\b": "continues",
    r"\b(is|are) no (?=[a-z]+ of\b)": "is not a",
    r"^(Who|Whose|What) (?!is\b|are\b|does\b|do\b|was\b|can\b|happens\b)(?!.*\?)": "start with the noun",
}
"""Pattern of a phrase, and the words to use in its place."""

PATTERNS = {re.compile(pattern, re.IGNORECASE | re.MULTILINE): words for pattern, words in REPLACEMENTS.items()}


class Passage(NamedTuple):
    """A piece of text and the line on which it begins."""

    line: int
    text: str


def python_passages(source: str) -> Iterator[Passage]:
    """Yield the strings and docstrings of a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield Passage(node.lineno, node.value)


def markdown_passages(source: str) -> Iterator[Passage]:
    """Yield the lines of a Markdown file that are not code."""
    in_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield Passage(number, re.sub(r"`[^`]*`", "", line))


def passages(file: Path) -> Iterator[Passage]:
    """Yield the passages of a file that people read."""
    source = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        yield from python_passages(source)
    elif file.suffix == ".md":
        yield from markdown_passages(source)
    else:
        yield from (Passage(number, line) for number, line in enumerate(source.splitlines(), 1))


def findings(file: Path) -> Iterator[str]:
    """Yield a line for each phrase to replace."""
    for line, text in passages(file):
        for pattern, words in PATTERNS.items():
            for match in pattern.finditer(text):
                number = line + text.count("\n", 0, match.start())
                yield f"{file}:{number}: replace {match.group()!r} by: {words}"


def files() -> list[Path]:
    """Return the files to check: documents, templates and sources under version control."""
    listed = subprocess.run(["git", "ls-files", *PLACES], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kinds = (".py", ".md", ".toml", ".jinja", ".yaml", ".html", ".js")
    return [ROOT / name for name in listed.split() if name.endswith(kinds) and name != "docs/prose.py"]


def main() -> int:
    found = [line for file in [Path(name) for name in sys.argv[1:]] or files() for line in findings(file)]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
