"""The student's file, imported as `gf.use` imports it; other tests do not know of it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.config.views import OWN_VIEWS
from glassformer.inspection.views import registry

STUDENT = Path(__file__).parents[1] / "helpers" / "student_bricks.py"


@pytest.fixture(scope="module", autouse=True)
def student() -> Iterator[Path]:
    gf.use(STUDENT)
    yield STUDENT
    sys.modules.pop("student_bricks", None)
    registry._REGISTERED.pop("shortest", None)
    OWN_VIEWS.pop("shortest", None)
