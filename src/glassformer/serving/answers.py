"""Pass requests to the worker of a run, and turn its errors into HTTP answers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request as HttpRequest

from glassformer.config.errors import GlassformerError, Misuse, out_of_memory
from glassformer.config.progress import may_stop
from glassformer.families.base import Loaded
from glassformer.serving.formats import Metrics
from glassformer.serving.guard import ClientGone, Refused
from glassformer.serving.runs import ServedRuns
from glassformer.serving.worker import Worker
from glassformer.text.tokenizer import Tokenizer

Answer = TypeVar("Answer")
Kind = TypeVar("Kind")
CHECK_SECONDS = 0.1
"""Interval at which work that waits for a second run checks whether it has been cancelled."""
LOG = logging.getLogger("uvicorn.error")


@dataclass(frozen=True)
class Server:
    """State shared by all requests: the served runs, the time limit and the metrics."""

    runs: ServedRuns
    timeout: float
    """Time limit of an answer in seconds."""
    metrics: Metrics = field(default_factory=Metrics)

    def name(self, model: str | None) -> str:
        return self.runs.find(model)

    async def use(self, name: str, use: Callable[[Worker], Answer]) -> Answer:
        """Call `use` with the worker of a run and return its result; may wait until the run fits into memory."""
        return await asyncio.to_thread(self.runs.use, name, use)

    async def call(
        self, http: HttpRequest, model: str | None, work: Callable[[Loaded], Answer], *, yields: bool = False
    ) -> Answer:
        """Return the result of work on a run. The work ends if the client disconnects or the time limit is reached.

        `yields`: the work may take long, and also ends if other requests wait for the model (`Worker.call`).
        """
        name = self.name(model)
        future = await self.use(name, lambda worker: worker.call(work, yields=yields))
        try:
            return await self.answered(http, asyncio.wrap_future(future))
        except (Refused, ClientGone):
            raise
        except Exception as error:
            failed = isinstance(error, GlassformerError) and not isinstance(error, Misuse)
            raise refusal((self.runs.deleted(name) if failed else None) or error) from error

    async def call_both(
        self, http: HttpRequest, model: str | None, other: str, work: Callable[[Loaded, Loaded], Answer]
    ) -> Answer:
        """Return the result of long work on two runs, which do no other work in the meantime."""
        names = self.name(model), self.name(other)
        if names[0] == names[1]:
            return await self.call(http, names[0], lambda loaded: work(loaded, loaded), yields=True)
        inner, outer = sorted(names)  # a fixed order prevents a deadlock of two requests

        def both(held: Loaded) -> Answer:
            def with_inner(mine: Loaded) -> Answer:
                return work(held, mine) if names[0] == outer else work(mine, held)

            future = self.runs.use(inner, lambda worker: worker.call(with_inner, yields=True))
            try:
                while not wait([future], CHECK_SECONDS).done:
                    may_stop()
                return future.result()
            finally:
                if not future.cancel():  # it runs already; it uses the outer run until it ends
                    wait([future])

        return await self.call(http, outer, both, yields=True)

    async def answered(self, http: HttpRequest, answer: Awaitable[Answer]) -> Answer:
        """Return an answer, unless it takes too long or the client disconnects first."""
        waiting, gone = asyncio.ensure_future(answer), asyncio.ensure_future(_gone(http))
        try:
            done, _ = await asyncio.wait({waiting, gone}, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
            if waiting in done:
                return waiting.result()
            if gone in done:
                raise ClientGone
            raise Refused(504, f"no answer within {self.timeout:g} s", "timeout")
        finally:
            waiting.cancel()
            gone.cancel()


async def _gone(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


def require(loaded: Loaded, kind: type[Kind], otherwise: str) -> Kind:
    """Return a run with this capability, or raise `Misuse`. `otherwise`: the end of its message, a verb phrase."""
    if (able := loaded.capability(kind)) is None:
        raise Misuse(f"{loaded.run.path.name} is a run of {loaded.config.task}: it {otherwise}")
    return able


def check_ids(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return the ids that a client sent, or raise `Misuse` if an id is not in the vocabulary."""
    if odd := next((id for id in ids if not 0 <= id < tokenizer.vocab_size), None):
        raise Misuse(f"there is no token {odd}: this run has {tokenizer.vocab_size:,}")
    return ids


def refusal(error: Exception) -> Refused:
    """Return the HTTP error for an exception."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Misuse):
        return Refused(400, str(error))
    if isinstance(error, GlassformerError):
        return Refused(500, str(error), "run_failed")
    if out_of_memory(error):
        return Refused(503, "there is not enough memory for this request", "out_of_memory")
    LOG.error("a request failed", exc_info=error)
    return Refused(500, "the server failed on this request: its log says why", "internal_error")
