"""Progress messages reach the listener of the caller, and no other."""

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from glassformer.config.messages import Say, keep_listener, listening, say, say_or_warn, silent, takes_listener


@takes_listener
def work(*, say: Say = say) -> None:
    say("from the function")
    inner()


def inner() -> None:
    say("from a function that it calls")


BOTH = ["from the function", "from a function that it calls"]


def test_the_keyword_of_a_function_is_the_listener_of_what_it_calls() -> None:
    outer: list[str] = []
    lines: list[str] = []
    with listening(outer.append):
        work(say=lines.append)
        say("after it")
    assert (lines, outer) == (BOTH, ["after it"])


def test_without_the_keyword_the_listener_stays() -> None:
    lines: list[str] = []
    with listening(lines.append):
        work()
        work(say=say)
        with listening(silent):
            work()
    work()
    assert lines == BOTH * 2


def test_a_listener_ends_with_an_error() -> None:
    lines: list[str] = []
    with pytest.raises(ValueError, match="x"), listening(lines.append):
        raise ValueError("x")
    say("nobody listens")
    assert lines == []


def test_what_must_not_get_lost_is_a_warning_without_a_listener() -> None:
    lines: list[str] = []
    with warnings.catch_warnings(), listening(lines.append):
        warnings.simplefilter("error")
        say_or_warn("a line")
    assert lines == ["a line"]
    with pytest.warns(UserWarning, match="a line") as caught:
        say_or_warn("a line")
    assert caught[0].filename == __file__


def test_a_thread_starts_without_a_listener() -> None:
    lines: list[str] = []
    with listening(lines.append):
        thread = threading.Thread(target=say, args=("from a thread",))
        thread.start()
        thread.join()
    assert lines == []


def test_a_thread_that_iterates_keeps_the_listener() -> None:
    def items() -> Iterator[int]:
        for number in range(2):
            say(f"item {number}")
            yield number

    lines: list[str] = []
    with listening(lines.append):
        kept = keep_listener(items())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(list, kept).result() == [0, 1]
    assert lines == ["item 0", "item 1"]
