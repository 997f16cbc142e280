"""Texts in OpenAI's shape: /v1/completions and /v1/chat/completions, whole or as a stream of events."""

import asyncio
import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from glassformer.config.errors import Misuse
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import Written
from glassformer.families.base import Loaded
from glassformer.families.generate import Draft, Writer
from glassformer.serving.answers import Server, refusal
from glassformer.serving.guard import Refused
from glassformer.serving.schema import BIGGEST_SEED, ChatBody, CompletionBody
from glassformer.serving.worker import UNBOUNDED, Piece, Ticket
from glassformer.text.tokenizer import Tokenizer

MOST_ROWS = 64
"""Texts that one request may ask for: prompts times choices."""
USUAL_ANSWER = 1024
"""Tokens of an answer in a chat, at most, where nobody says how many."""


@dataclass(frozen=True)
class TokenScore:
    """A token as text, with its log-probability and the likeliest in its place."""

    token: str
    logprob: float
    likeliest: list[tuple[str, float]]

    @staticmethod
    def of(tokenizer: Tokenizer, written: Written, most: int) -> "TokenScore":
        assert written.logprob is not None
        likeliest = [(tokenizer.shown(id), value) for id, value in written.likeliest[:most]]
        return TokenScore(tokenizer.shown(written.token), _finite(written.logprob), likeliest)


def _finite(logprob: float) -> float:
    """JSON has no infinity."""
    return max(logprob, -9999.0)


class Shape(ABC):
    """How a kind of writing is asked for and answered."""

    kind: str
    chunk_kind: str
    prefix: str
    most_likeliest: int

    def __init__(self, body: CompletionBody | ChatBody) -> None:
        self.body: CompletionBody | ChatBody = body
        self.head: dict[str, Any] = {
            "id": f"{self.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": "",
            "system_fingerprint": None,
        }

    @abstractmethod
    def prompts(self, writer: Writer) -> list[str | list[int]]:
        """The prompts that are to be gone on from."""

    @abstractmethod
    def most_tokens(self, prompt: int, limit: int | None) -> int:
        """Tokens that a text may grow by, after a prompt of so many."""

    @abstractmethod
    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        """A whole text."""

    @abstractmethod
    def delta(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        """A piece of one."""

    def opening(self, index: int) -> dict[str, Any] | None:
        """The first event of a text."""
        return None


class Completion(Shape):
    kind = chunk_kind = "text_completion"
    prefix = "cmpl"

    body: CompletionBody

    def prompts(self, writer: Writer) -> list[str | list[int]]:
        return list(self.body.prompts)

    def most_tokens(self, prompt: int, limit: int | None) -> int:
        return self.body.max_tokens

    @property
    def most_likeliest(self) -> int:  # type: ignore[override]
        return self.body.logprobs or 0

    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        prompts = self.body.prompts
        before = prompts[index // self.body.n] if self.body.echo else ""
        return self.delta(index, before + text, scores, finish)

    def delta(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        logprobs = None
        if self.body.wants_logprobs:
            logprobs = {
                "tokens": [score.token for score in scores],
                "token_logprobs": [score.logprob for score in scores],
                "top_logprobs": [
                    {token: _finite(value) for token, value in score.likeliest} if score.likeliest else None
                    for score in scores
                ],
                "text_offset": None,
            }
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def opening(self, index: int) -> dict[str, Any] | None:
        return self.delta(index, self.body.prompts[index // self.body.n], [], None) if self.body.echo else None


class Chat(Shape):
    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    prefix = "chatcmpl"

    body: ChatBody

    def prompts(self, writer: Writer) -> list[str | list[int]]:
        return [writer.chat_prompt([message.as_text() for message in self.body.messages])]

    def most_tokens(self, prompt: int, limit: int | None) -> int:
        asked = self.body.max_completion_tokens or self.body.max_tokens
        return asked or (USUAL_ANSWER if limit is None else max(1, min(USUAL_ANSWER, limit + 1 - prompt)))

    @property
    def most_likeliest(self) -> int:  # type: ignore[override]
        return self.body.top_logprobs or 0

    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": self._logprobs(scores), "finish_reason": finish}

    def delta(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        delta = {"content": text} if text or finish is None else {}
        return {"index": index, "delta": delta, "logprobs": self._logprobs(scores), "finish_reason": finish}

    def opening(self, index: int) -> dict[str, Any] | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _logprobs(self, scores: list[TokenScore]) -> dict[str, Any] | None:
        if not self.body.logprobs:
            return None

        def entry(token: str, value: float) -> dict[str, Any]:
            return {"token": token, "logprob": _finite(value), "bytes": list(token.encode())}

        return {
            "content": [
                {**entry(score.token, score.logprob), "top_logprobs": [entry(*one) for one in score.likeliest]}
                for score in scores
            ],
            "refusal": None,
        }


@dataclass
class _Text:
    """One text of an answer."""

    text: str = ""
    scores: list[TokenScore] = field(default_factory=list)
    finish: str | None = None


@dataclass(frozen=True)
class _Plan:
    """What a request turned out to be: a draft for each text, and what is needed to tell of them."""

    drafts: list[Draft]
    prompt_tokens: int
    tokenizer: Tokenizer


def _plan(shape: Shape) -> Callable[[Loaded], _Plan]:
    """Read the prompts, where the model is."""
    body = shape.body
    how = Sampling(
        body.temperature,
        body.top_k,
        body.top_p if body.top_p < 1 else None,
        body.repetition_penalty,
        body.presence_penalty,
        body.frequency_penalty,
    )
    seed = secrets.randbelow(2**31) if body.seed is None else min(body.seed, BIGGEST_SEED - MOST_ROWS)

    def plan(loaded: Any) -> _Plan:
        if not hasattr(loaded, "generate"):
            raise Misuse(f"{loaded.run.path.name} is a run of {loaded.config.task}: it writes no texts")
        limit, drafts, read = loaded.model.encoder.limit, [], 0
        for prompt in shape.prompts(loaded):
            for choice in range(body.n):
                # the length of the text is known once the prompt is read
                wants = body.wants_logprobs
                draft = loaded.draft(prompt, how, most=1, stop=body.stops, seed=seed + choice, logprobs=wants)
                length = len(draft.request.prompt)
                if length > (limit or UNBOUNDED):
                    raise Refused(
                        400,
                        f"the prompt has {length:,} tokens, and this model reads {limit or UNBOUNDED:,}",
                        "context_length_exceeded",
                        param="prompt",
                    )
                drafts.append(draft.with_most(shape.most_tokens(length, limit)))
            read += length
        return _Plan(drafts, read, loaded.tokenizer)

    return plan


async def write(server: Server, http: HttpRequest, shape: Shape) -> Response:
    """The answer to a request, whole or as a stream."""
    body, name = shape.body, server.name(shape.body.model)
    shape.head["model"] = name
    if isinstance(body, CompletionBody) and len(body.prompts) * body.n > MOST_ROWS:
        asked = f"{len(body.prompts)} prompts × {body.n}"
        raise Refused(400, f"{asked} texts are more than {MOST_ROWS} in one request", param="n")
    plan = await server.call(http, name, _plan(shape))
    pieces: asyncio.Queue[tuple[int, Piece]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def deliver_to(index: int) -> Callable[[Piece], None]:
        def deliver(piece: Piece) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(pieces.put_nowait, (index, piece))

        return deliver

    tickets = [Ticket(draft, deliver_to(index)) for index, draft in enumerate(plan.drafts)]
    await server.use(name, lambda worker: worker.write(tickets))
    server.metrics.tokens(name, "prompt", plan.prompt_tokens)
    job = _Answer(server, shape, plan, tickets, pieces)
    if body.stream:
        return StreamingResponse(job.events(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
    try:
        return JSONResponse(await server.answered(http, job.whole()))
    finally:
        job.cancel()


@dataclass
class _Answer:
    """Texts on their way to a client."""

    server: Server
    shape: Shape
    plan: _Plan
    tickets: list[Ticket]
    pieces: "asyncio.Queue[tuple[int, Piece]]"

    def cancel(self) -> None:
        """Nobody waits any more."""
        for ticket in self.tickets:
            ticket.cancelled = True
        self.server.metrics.tokens(self.shape.head["model"], "completion", self.count)

    @property
    def count(self) -> int:
        return sum(ticket.count for ticket in self.tickets)

    @property
    def usage(self) -> dict[str, int]:
        read, written = self.plan.prompt_tokens, self.count
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def scores(self, piece: Piece) -> list[TokenScore]:
        if piece.written is None or piece.written.logprob is None:
            return []
        return [TokenScore.of(self.plan.tokenizer, piece.written, self.shape.most_likeliest)]

    async def arrivals(self) -> AsyncIterator[tuple[int, Piece]]:
        """Pieces as they come, until all texts are over."""
        left = len(self.tickets)
        while left:
            index, piece = await self.pieces.get()
            if piece.error is not None:
                raise refusal(piece.error)
            left -= piece.finish is not None
            yield index, piece

    async def whole(self) -> dict[str, Any]:
        texts = [_Text() for _ in self.tickets]
        async for index, piece in self.arrivals():
            texts[index].text += piece.text
            texts[index].scores += self.scores(piece)
            texts[index].finish = piece.finish
        choices = [self.shape.choice(index, one.text, one.scores, one.finish) for index, one in enumerate(texts)]
        return {**self.shape.head, "object": self.shape.kind, "choices": choices, "usage": self.usage}

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events; where something goes wrong on the way, the last of them says what."""
        head = {**self.shape.head, "object": self.shape.chunk_kind}
        options = self.shape.body.stream_options
        usage: dict[str, Any] = {"usage": None} if options is not None and options.include_usage else {}

        def event(*choices: dict[str, Any], **more: Any) -> bytes:
            return _event({**head, "choices": list(choices), **usage, **more})

        try:
            async with asyncio.timeout(self.server.timeout):
                for index in range(len(self.tickets)):
                    if (opening := self.shape.opening(index)) is not None:
                        yield event(opening)
                async for index, piece in self.arrivals():
                    scores = self.scores(piece)
                    if piece.text or scores or piece.finish is not None:
                        yield event(self.shape.delta(index, piece.text, scores, piece.finish))
            if usage:
                yield event(usage=self.usage)
            yield b"data: [DONE]\n\n"
        except Refused as error:
            yield _event(error.body)
        except TimeoutError:
            late = Refused(504, f"no end within {self.server.timeout:g} s", "timeout", "server_error")
            yield _event(late.body)
        finally:
            self.cancel()


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()
