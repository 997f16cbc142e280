"""How CPU threads wait."""

import os
import subprocess
import sys

import pytest

from glassformer.config.loggers import WAITING_VARIABLES, wait_passively

PRINT_POLICY = "import glassformer, os, sys; print(os.environ.get('OMP_WAIT_POLICY'), 'torch' in sys.modules)"


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WAITING_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nothing_set")
@pytest.mark.parametrize("variable", [None, "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_threads_wait_passively_unless_the_user_chose_otherwise(
    variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, "7")
    wait_passively()
    expected = {None: "PASSIVE", "GOMP_SPINCOUNT": None, "OMP_WAIT_POLICY": "7"}[variable]
    assert os.environ.get("OMP_WAIT_POLICY") == expected
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)


def test_importing_the_package_sets_it_before_torch() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in WAITING_VARIABLES}
    done = subprocess.run([sys.executable, "-c", PRINT_POLICY], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["PASSIVE", "False"]
