"""A view in the terminal."""

import pytest

from glassformer.cli.terminal.view import show_view
from glassformer.rendering.view import View
from helpers.drawn import guesses


@pytest.mark.parametrize(("at", "head"), [(False, "after"), (True, "at")])
def test_guesses_are_at_a_token_or_after_it(at: bool, head: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_view(View("guesses", [guesses(at=at)], ""))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "expects" in line]
    assert line.split()[0] == head
