"""How CPU threads wait, and who chose their number."""

import os
import subprocess
import sys

import pytest

from glassformer.config.loggers import WAITING_VARIABLES, wait_passively
from glassformer.training import threads
from glassformer.training.threads import NUMBER_VARIABLES, is_default_number

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
def test_only_the_number_of_cores_is_a_number_that_torch_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(threads, "_core_of", lambda number: str(number // 2))
    assert [number for number in range(1, 6) if is_default_number(number)] == [2, 4]
    for name in NUMBER_VARIABLES:
        with monkeypatch.context() as patch:
            patch.setenv(name, "2")
            assert not is_default_number(2)


@pytest.mark.usefixtures("nothing_set")
def test_where_cores_cannot_be_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(threads.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 3)
    assert [number for number in range(1, 5) if is_default_number(number)] == [3]
