"""What the Hugging Face hub may answer instead of a model or a data set, in one line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

PAGES = "https://huggingface.co/"
LIBRARY = "huggingface_hub"
GATED = {"GatedRepoError"}
UNREACHED = {"LocalEntryNotFoundError", "ConnectionError", "TransportError"}
NO_FILE = {"EntryNotFoundError"}
NOT_THERE = {"RepositoryNotFoundError", "DatasetNotFoundError", "RevisionNotFoundError"}
"""Its libraries' kinds of errors by name, so that none of them need be installed; of several alike, the base."""


@contextmanager
def quiet_hub() -> Iterator[None]:
    """While a library asks the hub, it does not talk of its retries."""
    logger = logging.getLogger(LIBRARY)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def refusal(error: Exception, page: str, instead: str) -> str | None:
    """Why the hub did not give what was asked for, and what to do; None: another error.

    `page`: where it is on the hub; `instead`: what else to do without a network.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & GATED or (kinds & NOT_THERE and "gated" in str(error)):
        return f"its owner asks who wants it: ask for access at {PAGES}{page}, then log in with `hf auth login`"
    if kinds & UNREACHED:
        return f"the hub cannot be reached, and nothing of it is kept here: check the network, {instead}"
    if kinds & NO_FILE:
        return f"the hub has no such file: those that there are stand at {PAGES}{page}/tree/main"
    if kinds & NOT_THERE:
        return "the hub has none of this name that you may read: check the name; for a private one, `hf auth login`"
    return None
