"""Settings shared by all tests: shapes checked at run time, one thread, the same random numbers in every run."""

import os
import zlib
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import jaxtyping
from jaxtyping import install_import_hook

CHECKED_PACKAGES = [
    "glassformer.bricks",
    "glassformer.encoders",
    "glassformer.models",
    "glassformer.decoding",
    "glassformer.training.update_rules",
]
"""Packages whose shape annotations are checked at run time; a new package of tensors is added here."""

ALWAYS_CHECKED = ("tests/bricks/", "tests/encoders/", "tests/models/")
"""Test folders in which every case is checked. Elsewhere checking would double the time of the tests, so only the first
case of each test function is checked; `--check-shapes` checks every case.
"""

if find_spec("triton") is not None:
    import glassformer.bricks.kernels.triton_training  # noqa: F401  before the hook, since Triton reads functions as they stand
install_import_hook(CHECKED_PACKAGES, "beartype.beartype")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes that tests start neither wait for threads nor choose a number
os.environ.setdefault("GLASSFORMER_STRICT", "1")  # a report that cannot be made is an error here

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from xdist.remote import Producer  # noqa: E402
from xdist.scheduler import LoadScopeScheduling  # noqa: E402

from glassformer.config import plugins  # noqa: E402
from glassformer.config.limits import VARIABLE as LIMITS  # noqa: E402
from glassformer.config.plugins import VARIABLE  # noqa: E402
from glassformer.rendering.view import View  # noqa: E402
from helpers.browser import Open, opened, started  # noqa: E402
from helpers.tables import amounts, opinions, write_table  # noqa: E402

torch.set_num_threads(1)

settings.register_profile("new examples", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same examples", settings.get_profile("new examples"), derandomize=True, database=None)
settings.load_profile("same examples")  # what fails here fails everywhere; pytest --hypothesis-profile 'new examples'

LONGEST = ("test_documents.py", "test_lessons.py")
"""Their tests begin first, so that no process waits at the end for one that has just begun."""


class FilesTogether(LoadScopeScheduling):
    """The tests of a file share what they trained, so one process runs them; the longest share nothing."""

    def _split_scope(self, nodeid: str) -> str:
        return _together(nodeid)


def _together(nodeid: str) -> str:
    """What the tests that stay together have in common."""
    file, _, _ = nodeid.partition("::")
    return nodeid if file.endswith(LONGEST) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesTogether:
    return FilesTogether(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", help="I/N: the tests that are the I-th of every N, those of a file together")
    parser.addoption("--check-shapes", action="store_true", help="check shapes in every case of every test")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _mark_cases_beyond_sample_as_slow(items)
    items.sort(key=lambda item: item.path.name not in LONGEST)
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        kept = [item for item in items if zlib.crc32(_together(item.nodeid).encode()) % parts == number - 1]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def _mark_cases_beyond_sample_as_slow(items: list[pytest.Item]) -> None:
    """Keep every n-th case of a test function marked `sample(n)` in the default run; the slow tests run the others."""
    cases_seen = Counter[str]()
    for item in items:
        if sample := item.get_closest_marker("sample"):
            function, _, _ = item.nodeid.partition("[")
            if cases_seen[function] % sample.args[0]:
                item.add_marker(pytest.mark.slow)
            cases_seen[function] += 1


functions_checked = set[str]()
"""Test functions of this process whose first case has run."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes where the test asks for it, also in the fixtures that this test is the first to need."""
    function, _, _ = item.nodeid.partition("[")
    first = function not in functions_checked
    functions_checked.add(function)
    check = first or item.nodeid.startswith(ALWAYS_CHECKED) or item.config.getoption("--check-shapes")
    jaxtyping.config.update("jaxtyping_disable", not check)


@pytest.fixture(autouse=True)
def same_random_numbers_every_time() -> None:
    """A test may draw without a generator of its own: it then draws the same alone and among others."""
    torch.manual_seed(0)


def _forget_plugins() -> Iterator[None]:
    """What a test registers, and limits that it raises, are known to the processes that it starts, and to no other
    test's.
    """
    before = {name: os.environ.get(name) for name in (VARIABLE, LIMITS)}
    kept = plugins._parts.copy(), plugins._digests.copy(), plugins._warned.copy()
    yield
    plugins._parts, plugins._digests, plugins._warned = kept
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


no_plugins_of_others = pytest.fixture(autouse=True)(_forget_plugins)
no_plugins_of_other_files = pytest.fixture(autouse=True, scope="module")(_forget_plugins)


def pytest_collection_finish() -> None:
    os.environ.pop(VARIABLE, None)  # of test files that register something when they are imported


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Packed tokens go where the tests go; processes that a test starts inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


PICTURES = ("cli", "runs", "trials", "exchange", "tests")
"""Folders whose tests see the pictures that end a training; elsewhere, where they train by the dozen, none is drawn."""


@pytest.fixture(autouse=True)
def no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.parent.name not in PICTURES:
        for draw in ("draw_curves", "draw_confusion", "leave_report"):
            monkeypatch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)
        monkeypatch.setattr("glassformer.pipeline.resolve.PAPERS", ("README.md",))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """60 texts of three classes."""
    return write_table(tmp_path / "opinions.csv", opinions(60, classes=3))


@pytest.fixture
def numbers_table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "amounts.csv", amounts(60), ("text", "rating"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with started() as one:
        yield one


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Open:
    """One view of these panels, opened."""
    return lambda *panels, **size: opened(browser, View("A view", panels).page(), tmp_path, **size)
