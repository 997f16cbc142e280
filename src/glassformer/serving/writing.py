"""Text generation in OpenAI's format: /v1/completions and /v1/chat/completions, complete or as a stream of events."""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from glassformer.decoding.running import Written, text_logprobs
from glassformer.families.base import Loaded
from glassformer.families.generate import Draft, Writer
from glassformer.serving.answers import Server, check_ids, refusal, require
from glassformer.serving.formats import FiniteJSONResponse, encode
from glassformer.serving.guard import Refused
from glassformer.serving.schema import MAX_SEED, ChatBody, CompletionBody
from glassformer.serving.worker import MAX_UNBOUNDED_TOKENS, Piece, Ticket
from glassformer.text.stream import Stream
from glassformer.text.tokenizer import Tokenizer

MAX_ROWS = 64
"""Maximum number of texts per request: prompts times choices."""
MAX_ANSWER_TOKENS = 1024
"""Maximum number of tokens of a chat answer if the request sets none."""


@dataclass(frozen=True)
class TokenScore:
    """A token as text, with its log-probability and the likeliest tokens at its position."""

    token: str
    bytes: list[int]
    logprob: float | None
    """Log-probability of the token; None for the first token of the prompt."""
    begins: int
    """Number of characters before the token, counted from the start of the prompt."""
    likeliest: "list[TokenScore]"


class Scorer:
    """Token scores of a text, computed in order. `prompt` holds the scores of the prompt."""

    def __init__(self, tokenizer: Tokenizer, prompt: list[Written], most: int) -> None:
        self._tokenizer, self._most = tokenizer, most
        self._stream, self._length = Stream(tokenizer), 0
        self.prompt = [self.score(one) for one in prompt if one.token not in tokenizer.specials]

    def score(self, written: Written) -> TokenScore:
        likeliest = [self._named(id, value, []) for id, value in written.likeliest[: self._most]]
        score = self._named(written.token, written.logprob, likeliest)
        self._length += len(self._stream.push(written.token))
        return score

    def _named(self, id: int, logprob: float | None, likeliest: list[TokenScore]) -> TokenScore:
        token = self._tokenizer.shown(id)
        spelled = token.encode() if token == f"<{id}>" else self._tokenizer.token_bytes(id)
        finite = None if logprob is None else max(logprob, -9999.0)  # JSON has no infinity
        return TokenScore(token, list(spelled), finite, self._length, likeliest)


class Shape(ABC):
    """Format of a request and its answer: `Completion` or `Chat`."""

    kind: str
    chunk_kind: str
    prefix: str
    is_own_text: bool
    """True if the answer is a separate text rather than a continuation of the prompt."""

    def __init__(self, body: CompletionBody | ChatBody) -> None:
        self.body: CompletionBody | ChatBody = body
        self.head: dict[str, Any] = {
            "id": f"{self.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": "",
            "system_fingerprint": None,
        }

    @abstractmethod
    def prompts(self, writer: Writer) -> list[tuple[list[int], str]]:
        """Return the ids of each prompt, with the text that the answer repeats."""

    @abstractmethod
    def max_tokens(self, prompt: int, limit: int | None) -> int:
        """Return the maximum number of tokens after a prompt of `prompt` tokens."""

    @abstractmethod
    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        """Return a complete text as a choice."""

    @abstractmethod
    def delta(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        """Return a piece of a text as the choice of a stream event."""

    @abstractmethod
    def opening(self, index: int, text: str, scores: list[TokenScore]) -> dict[str, Any] | None:
        """Return the first event of a text, or None. `text`: the prompt if the answer repeats it, else empty."""


class Completion(Shape):
    kind = chunk_kind = "text_completion"
    prefix = "cmpl"
    is_own_text = False
    body: CompletionBody

    def prompts(self, writer: Writer) -> list[tuple[list[int], str]]:
        prompts = []
        for prompt in self.body.prompts:
            ids = writer.prompt_ids(prompt) if isinstance(prompt, str) else check_ids(prompt, writer.tokenizer)
            text = prompt if isinstance(prompt, str) else writer.tokenizer.decode(ids)
            prompts.append((ids, text if self.body.echo else ""))
        return prompts

    def max_tokens(self, prompt: int, limit: int | None) -> int:
        return self.body.max_tokens

    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        logprobs = None
        if self.body.likeliest is not None:
            logprobs = {
                "tokens": [score.token for score in scores],
                "token_logprobs": [score.logprob for score in scores],
                "top_logprobs": [{one.token: one.logprob for one in score.likeliest} or None for score in scores],
                "text_offset": [score.begins for score in scores],
            }
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    delta = choice

    def opening(self, index: int, text: str, scores: list[TokenScore]) -> dict[str, Any] | None:
        return self.delta(index, text, scores, None) if self.body.echo else None


class Chat(Shape):
    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    prefix = "chatcmpl"
    is_own_text = True
    body: ChatBody

    def prompts(self, writer: Writer) -> list[tuple[list[int], str]]:
        return [(writer.chat_prompt([message.as_text() for message in self.body.messages]), "")]

    def max_tokens(self, prompt: int, limit: int | None) -> int:
        asked = self.body.max_completion_tokens or self.body.max_tokens
        return asked or (MAX_ANSWER_TOKENS if limit is None else max(1, min(MAX_ANSWER_TOKENS, limit + 1 - prompt)))

    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": self._logprobs(scores), "finish_reason": finish}

    def delta(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        delta = {"content": text} if text or finish is None else {}
        return {"index": index, "delta": delta, "logprobs": self._logprobs(scores), "finish_reason": finish}

    def opening(self, index: int, text: str, scores: list[TokenScore]) -> dict[str, Any] | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _logprobs(self, scores: list[TokenScore]) -> dict[str, Any] | None:
        if not self.body.logprobs:
            return None

        def entry(score: TokenScore) -> dict[str, Any]:
            return {"token": score.token, "logprob": score.logprob, "bytes": score.bytes}

        content = [{**entry(score), "top_logprobs": [entry(one) for one in score.likeliest]} for score in scores]
        return {"content": content, "refusal": None}


@dataclass
class _Text:
    """One text of an answer, with its draft and its scores."""

    draft: Draft
    scorer: Scorer | None
    """Scorer of the tokens; None if the request does not ask for log-probabilities."""
    text: str
    """The text so far. It starts with the prompt if the answer repeats it."""
    scores: list[TokenScore]
    finish: str | None = None

    def add(self, piece: Piece) -> list[TokenScore]:
        """Append a piece and return the score of its token, as a list of at most one."""
        scores = [self.scorer.score(piece.written)] if self.scorer and piece.written else []
        self.text += piece.text
        self.scores += scores
        self.finish = piece.finish
        return scores


def _texts(shape: Shape) -> Callable[[Loaded], list[_Text]]:
    """Return a function of a loaded run that reads the prompts and returns the texts before their first token."""
    body = shape.body
    seed = secrets.randbelow(2**31) if body.seed is None else min(body.seed, MAX_SEED - MAX_ROWS)

    def texts(loaded: Loaded) -> list[_Text]:
        writer = require(loaded, Writer, "writes no texts")
        limit, tokenizer, out = writer.model.encoder.limit, writer.tokenizer, list[_Text]()
        for prompt, before in shape.prompts(writer):
            if len(prompt) > (limit or MAX_UNBOUNDED_TOKENS):
                line = f"the prompt has {len(prompt):,} tokens, and this model reads {limit or MAX_UNBOUNDED_TOKENS:,}"
                raise Refused(400, line, "context_length_exceeded", param="prompt")
            with_logprobs = body.likeliest is not None
            scored = with_logprobs and body.echo
            written = text_logprobs(writer.model, prompt) if scored else [Written(id) for id in prompt]
            for choice in range(body.n):
                draft = writer.draft(
                    prompt,
                    body.sampling,
                    most=shape.max_tokens(len(prompt), limit),
                    stop=body.stops,
                    seed=seed + choice,
                    logprobs=with_logprobs,
                    own=shape.is_own_text,
                )
                scorer = None if body.likeliest is None else Scorer(tokenizer, written, body.likeliest)
                out.append(_Text(draft, scorer, before, list(scorer.prompt) if scorer and body.echo else []))
        return out

    return texts


async def write(server: Server, http: HttpRequest, shape: Shape) -> Response:
    """Answer a request with complete texts or with a stream."""
    body, name = shape.body, server.name(shape.body.model)
    shape.head["model"] = name
    if isinstance(body, CompletionBody) and len(body.prompts) * body.n > MAX_ROWS:
        asked = f"{len(body.prompts)} prompts × {body.n}"
        raise Refused(400, f"{asked} texts are more than {MAX_ROWS} in one request", param="n")
    texts = await server.call(http, name, _texts(shape))
    pieces: asyncio.Queue[tuple[int, Piece]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def deliver_to(index: int) -> Callable[[Piece], None]:
        def deliver(piece: Piece) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(pieces.put_nowait, (index, piece))

        return deliver

    tickets = [Ticket(one.draft, deliver_to(index)) for index, one in enumerate(texts)]
    if all(one.draft.request.max_tokens for one in texts):
        await server.use(name, lambda worker: worker.write(tickets))
    else:  # max_tokens is 0: the request only asks about the prompts
        for ticket in tickets:
            ticket.deliver(Piece(finish="length"))
    job = _Answer(server, shape, texts, tickets, pieces)
    server.metrics.tokens(name, "prompt", job.usage["prompt_tokens"])
    if body.stream:
        return StreamingResponse(job.events(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
    try:
        return FiniteJSONResponse(await server.answered(http, job.whole()))
    finally:
        job.cancel()


@dataclass
class _Answer:
    """Texts that are being sent to a client."""

    server: Server
    shape: Shape
    texts: list[_Text]
    tickets: list[Ticket]
    pieces: "asyncio.Queue[tuple[int, Piece]]"

    def cancel(self) -> None:
        """Stop generating the texts, and count their tokens."""
        for ticket in self.tickets:
            ticket.cancelled = True
        self.server.metrics.tokens(self.shape.head["model"], "completion", self.usage["completion_tokens"])

    @property
    def usage(self) -> dict[str, int]:
        """Number of tokens of all prompts, of the texts so far, and of both."""
        read = sum(len(one.draft.request.prompt) for one in self.texts[:: self.shape.body.n])
        written = sum(ticket.count for ticket in self.tickets)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    async def arrivals(self) -> AsyncIterator[tuple[int, Piece]]:
        """Yield pieces in order of arrival, with the index of their text, until all texts have ended."""
        left = len(self.tickets)
        while left:
            index, piece = await self.pieces.get()
            if piece.error is not None:
                raise refusal(piece.error)
            left -= piece.finish is not None
            yield index, piece

    async def whole(self) -> dict[str, Any]:
        async for index, piece in self.arrivals():
            self.texts[index].add(piece)
        choices = [self.shape.choice(index, one.text, one.scores, one.finish) for index, one in enumerate(self.texts)]
        return {**self.shape.head, "object": self.shape.kind, "choices": choices, "usage": self.usage}

    async def events(self) -> AsyncIterator[bytes]:
        """Yield server-sent events; after an error, the last event has its message."""
        head = {**self.shape.head, "object": self.shape.chunk_kind}
        options = self.shape.body.stream_options
        usage: dict[str, Any] = {"usage": None} if options is not None and options.include_usage else {}

        def event(*choices: dict[str, Any], **more: Any) -> bytes:
            return _event({**head, "choices": list(choices), **usage, **more})

        try:
            async with asyncio.timeout(self.server.timeout):
                for index, one in enumerate(self.texts):
                    if (opening := self.shape.opening(index, one.text, one.scores)) is not None:
                        yield event(opening)
                async for index, piece in self.arrivals():
                    scores = self.texts[index].add(piece)
                    if piece.text or scores or piece.finish is not None:
                        yield event(self.shape.delta(index, piece.text, scores, piece.finish))
            if usage:
                yield event(usage=self.usage)
            yield b"data: [DONE]\n\n"
        except Refused as error:
            yield _event(error.body)
        except TimeoutError:
            late = Refused(504, f"no end within {self.server.timeout:g} s", "timeout")
            yield _event(late.body)
        finally:
            self.cancel()


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + encode(data) + b"\n\n"
