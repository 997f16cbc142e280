"""locks/: every dependency has one version and hashes, except PyTorch and the packages that it depends on."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSTRAINTS = {
    canonicalize_name(constraint.name): constraint
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
    for constraint in [Requirement(line)]
}


def locked(name: str) -> dict[str, list[Requirement]]:
    """Requirements by package name; an AssertionError if one of them has no hash."""
    text = (ROOT / "locks" / f"{name}.txt").read_text().replace("\\\n", "")
    requirements = dict[str, list[Requirement]]()
    for line in text.splitlines():
        requirement, *hashes = line.split("--hash=")
        assert hashes, line
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64} *", digest) for digest in hashes), line
        one = Requirement(requirement.strip())
        requirements.setdefault(one.name, []).append(one)
    return requirements


def dependencies(extra: str) -> set[str]:
    """Names of the packages that an extra needs, including those of the extras that it names."""
    names = set[str]()
    for text in PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            names |= {name for other in requirement.extras for name in dependencies(other)}
        else:
            names.add(canonicalize_name(requirement.name))
    return names - {"torch"}


@pytest.mark.parametrize(("name", "extras"), [("core", [""]), ("all", ["", "all", "dev"])])
def test_every_dependency_is_locked_at_its_constraint(name: str, extras: list[str]) -> None:
    requirements = locked(name)
    assert set().union(*map(dependencies, extras)) <= set(requirements)
    for package, versions in requirements.items():
        if package in CONSTRAINTS:
            assert [one.specifier for one in versions] == [CONSTRAINTS[package].specifier], package


@pytest.mark.parametrize("name", ["core", "all"])
def test_a_lock_names_neither_an_index_nor_a_build_of_pytorch(name: str) -> None:
    assert "://" not in (ROOT / "locks" / f"{name}.txt").read_text()
    assert not [package for package in locked(name) if package.startswith(("torch", "nvidia-", "cuda-", "triton"))]


def test_core_is_part_of_all() -> None:
    everything = locked("all")
    assert all(everything[package] == versions for package, versions in locked("core").items())


COVERED = (
    "sys.version_info = (3, 11, 7); sys.platform = 'linux'; platform.machine = lambda: 'x86_64';"
    "platform.libc_ver = lambda: ('glibc', '2.36'); sys.implementation.name = 'cpython';"
)


@pytest.mark.parametrize(
    ("change", "covered"),
    [("", True), ("sys.version_info = (3, 99, 0);", False), ("sys.platform = 'win32';", False),
     ("platform.machine = str;", False), ("platform.libc_ver = lambda: ('musl', '');", False)],
)  # fmt: skip
def test_a_python_without_a_lock_is_printed(change: str, covered: bool) -> None:
    code = f"import platform, runpy, sys; {COVERED} {change} runpy.run_path('locks/covered.py')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == (0 if covered else 1)
    assert done.stderr.startswith("locks/ does not cover") == (not covered)
