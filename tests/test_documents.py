"""Every command in the documents runs, with few updates; every link in them leads somewhere."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from glassformer.config.views import VIEWS
from glassformer.data.datasets.embedded import DATASETS
from helpers.warm_commands import warm_commands

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "generate"))
NAMES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
DOCUMENTS = [*(ROOT / name for name in NAMES), *sorted((ROOT / "docs").rglob("*.md"))]
SHORT_TRAINING = ROOT / "tests" / "helpers" / "short_training.py"


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of each fenced block that can be run."""
    found = re.finditer(r"^(`{3,})(sh|python)\n(.*?)^\1$", text, re.M | re.S)
    return [(match[2], match[3]) for match in found]


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


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


CHAINS = [
    pytest.param(code, id=f"{name_of(path)}-{number}")
    for path in DOCUMENTS
    for number, code in enumerate(chains(path), 1)
]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_commands(tmp_path_factory.mktemp("programs")) as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("code_blocks", CHAINS)
def test_commands_run_as_written(code_blocks: list[tuple[str, str]], tmp_path: Path, programs: Path) -> None:
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        **os.environ,
        "PATH": path,
        "GLASSFORMER_CACHE": str(tmp_path / "cache"),
        "GLASSFORMER_PLUGINS": str(SHORT_TRAINING),
        "OMP_NUM_THREADS": "1",
    }
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    for language, code in code_blocks:
        command = ["bash", "-euc", code] if language == "sh" else [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
        assert done.returncode == 0, f"{code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr
        assert done.stdout.strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    """On GitHub too: a page that only the site has is linked by the source that it is made of."""
    for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
        assert (document.parent / target).resolve().exists(), target


LOOK = re.compile(r"^```look\nglassformer look (.*)\n```(?:\n\n!\[[^\]]*\]\((.*?)-(\w+)\.png\))?", re.M)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_each_panel_has_a_picture_of_its_present_command(document: Path) -> None:
    text = document.read_text()
    panels = LOOK.findall(text)
    assert len(panels) == text.count("```look\n")
    for command, picture, digest in panels:
        renew = f"run docs/generate/pictures.py: no picture of {command}"
        assert digest == hashlib.sha256(command.encode()).hexdigest()[:6], renew
        assert (document.parent / f"{picture}-{digest}.png").is_file(), renew


def test_every_embedded_data_set_is_in_the_catalogue() -> None:
    catalogue = (ROOT / "docs" / "reference" / "data-sets.md").read_text()
    assert [name for name in DATASETS if f"`{name}`" not in catalogue] == []


def test_every_script_named_exists() -> None:
    for document in DOCUMENTS:
        for script in re.findall(r"`(benchmarks/\w+\.py)`", document.read_text()):
            assert (ROOT / script).is_file(), script


def test_the_tests_that_hold_a_promise_are_there() -> None:
    promised = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())
    assert len(promised) > 10
    for file, name in promised:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_is_in_the_gallery(name: str) -> None:
    sections = re.split(r"^## ", (ROOT / "docs" / "views.md").read_text(), flags=re.M)
    assert f"[{name}](#{name})" in sections[0]
    (section,) = [section for section in sections if section.startswith(f"{name}\n")]
    assert "**How to read it**" in section
    assert "**What not to conclude**" in section
    assert name == "report" or "```look\n" in section


CONCEPTS = re.findall(r"- (concepts/[\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)


@pytest.mark.parametrize("page", CONCEPTS)
def test_a_concept_has_its_formula_its_panel_and_what_is_not_so(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert "```math\n" in text or "<!-- source: " in text
    for part in ("```look\n", "\n## Try it\n", "\n## Not so\n"):
        assert part in text, part


def test_every_concept_is_in_the_navigation() -> None:
    assert sorted(CONCEPTS) == sorted(f"concepts/{path.name}" for path in (ROOT / "docs" / "concepts").glob("*.md"))


def test_quoted_source_code_is_up_to_date() -> None:
    """After a change of quoted code, `make format` renews the quotations."""
    from sources import with_quotations

    for document in DOCUMENTS:
        text = document.read_text()
        assert with_quotations(text) == text, document.name
    assert "<!-- source: " in (ROOT / "docs/concepts/norm.md").read_text()
    assert "return" in with_quotations("<!-- source: glassformer.bricks.norm.rms_norm -->\n")


def test_wording_check_names_the_line_and_the_replacement(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("Fine.\n\nThe run goes on with `goes on`.\n")
    (tmp_path / "module.py").write_text('"""Whatever."""\n\nERROR = """one\ncannot be told from"""\n')
    command = [sys.executable, str(ROOT / "docs/prose.py"), str(tmp_path / "page.md"), str(tmp_path / "module.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        f"{tmp_path}/page.md:3: replace 'goes on' by: continues",
        f"{tmp_path}/module.py:4: replace 'cannot be told from' by: not significantly different from",
    ]
