"""Every command in the documents is run as written; every link in them leads somewhere."""

import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
DOCUMENTS = [*(ROOT / name for name in NAMES), *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of each fenced block that can be run."""
    return re.findall(r"^```(sh|python)\n(.*?)^```", text, re.M | re.S)


def chains(document: Path) -> list[list[tuple[str, str]]]:
    """The blocks section by section; sections that name the same run are one chain, in their order."""
    found: list[tuple[set[str], list[tuple[str, str]]]] = []
    for section in re.split(r"^## ", document.read_text(), flags=re.M):
        code = blocks(section)
        runs = {name for _, block in code for name in re.findall(r"runs/[\w-]+", block)}
        related = [one for one in found if one[0] & runs]
        found = [one for one in found if not one[0] & runs]
        found.append(
            (runs.union(*(names for names, _ in related)), [*chain.from_iterable(old for _, old in related), *code])
        )
    return [code for _, code in found if code]


def marks(path: Path, number: int) -> list[pytest.MarkDecorator]:
    """They train for minutes: only the first of the README is among the tests of every day."""
    return [] if (path.name, number) == ("README.md", 1) else [pytest.mark.slow]


CHAINS = [
    pytest.param(code, id=f"{path.name}-{number}", marks=marks(path, number))
    for path in DOCUMENTS
    for number, code in enumerate(chains(path), 1)
]


@pytest.mark.parametrize("code_blocks", CHAINS)
def test_commands_run_as_written(code_blocks: list[tuple[str, str]], tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GLASSFORMER_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    for language, code in code_blocks:
        command = ["bash", "-euc", code] if language == "sh" else [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
        assert done.returncode == 0, f"{code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr
        assert done.stdout.strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_every_script_named_exists() -> None:
    for document in DOCUMENTS:
        for script in re.findall(r"`(benchmarks/\w+\.py)`", document.read_text()):
            assert (ROOT / script).is_file(), script


def test_the_tests_that_hold_a_promise_are_there() -> None:
    promised = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())
    assert len(promised) > 10
    for file, name in promised:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"
