"""A family as a person's own would be: it does what one of ours does, and is a subclass of `Family` alone."""

import pytest

from glassformer.families.base import FAMILIES, Family


def use_bare_family(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the length of a test, in place of ours: of what rooms add to families it has only what all have."""
    ours = FAMILIES[task]
    does = {name: getattr(ours, name) for name in dir(ours) if not name.startswith("_")}
    bare: type[Family] = type("BareFamily", (Family,), does)
    monkeypatch.setitem(FAMILIES, task, bare())
