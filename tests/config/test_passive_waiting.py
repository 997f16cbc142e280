"""How CPU threads wait, and who chose their number."""

import os
import subprocess
import sys

import pytest
import torch

from glassformer.config.loggers import WAITING_VARIABLES, wait_passively
from glassformer.training import threads
from glassformer.training.threads import NUMBER_VARIABLES, default_tuner

PRINT_POLICY = "import glassformer, os, sys; print(os.environ.get('OMP_WAIT_POLICY'), 'torch' in sys.modules)"


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NUMBER_VARIABLES, *WAITING_VARIABLES):
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


@pytest.mark.usefixtures("nothing_set")
def test_a_number_that_a_user_or_a_program_chose_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "DEFAULT_THREADS", 4)
    chosen = []
    for number in (1, 2, 4):
        monkeypatch.setattr(torch, "get_num_threads", lambda number=number: number)
        chosen.append(default_tuner() is None)
    assert chosen == [True, True, False]
    for name in NUMBER_VARIABLES:
        with monkeypatch.context() as patch:
            patch.setenv(name, "4")
            assert default_tuner() is None
