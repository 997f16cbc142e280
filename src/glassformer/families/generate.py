"""Text generation with a language model: raw text in, raw text out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import Say, say, takes_listener
from glassformer.decoding.beam import beam_continuation
from glassformer.decoding.options import Sampling, check_writing
from glassformer.decoding.running import Request, generate, guesses
from glassformer.families.capabilities import Generates
from glassformer.models.modules import LanguageModel
from glassformer.notebook.html import facts, shares
from glassformer.text.chat import Message, chat_ids, specials_of
from glassformer.text.stream import Stops, Stream
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Likely:
    """A token of a text, with the tokens that the model expected at its position."""

    token: str | None
    """The token; None at the position after the text."""
    probability: float | None
    """Probability of the token; None at the position after the text."""
    expected: list[tuple[str, float]]
    """Likeliest tokens with their probabilities."""

    def _repr_html_(self) -> str:
        return facts({"token": self.token, "probability": self.probability}) + shares(self.expected)


@dataclass(frozen=True, repr=False)
class Writer(Generates):
    """A language model with its tokenizer. It continues raw text."""

    model: LanguageModel
    tokenizer: Tokenizer
    chat_template: str | None = field(default=None, kw_only=True)
    """Template that turns messages into a prompt; None if the model was not trained on chats."""
    specials: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Special tokens by their names in the template."""

    @check_arguments
    @takes_listener
    def stream(
        self,
        prompt: str | Sequence[int] = "",
        *,
        tokens: int = 200,
        greedy: bool = False,
        beam: int | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        stop: Sequence[str] = (),
        seed: int = 0,
        say: Say = say,
    ) -> "Writing":
        """Return the text that follows the prompt, as an iterator that generates it piece by piece.

        A prompt given as ids is used unchanged, and the text after it is decoded separately from it. With `beam`, beam
        search of this width finds the whole text before the first piece. It is deterministic and stays within the
        model's context.
        """
        how = Sampling(
            0.0 if greedy else temperature, top_k, top_p, repetition_penalty, presence_penalty, frequency_penalty
        )
        check_writing(how, tokens=tokens, beam=beam, seed=seed)
        ids = self.prompt_ids(prompt) if isinstance(prompt, str) else list(prompt)
        draft = self.draft(ids, how, most=tokens, stop=stop, seed=seed, own=not isinstance(prompt, str))
        ends = draft.request.ends
        limit, never = self.model.encoder.limit, self.never_written
        if beam is not None:
            read, most = within_context(limit, ids, tokens)
            best = beam_continuation(self.model, read, beam=beam, max_tokens=most, ends=ends, never=never)
            return Writing(draft, iter(best.ids))
        if limit is not None and len(ids) + tokens > limit + 1:
            say(f"past the model's context of {limit} tokens, only the last half of the text is kept")
        chosen = generate(self.model, [ids], how, max_tokens=tokens, end=ends, never=never, seed=seed)
        return Writing(draft, (token for (token,) in chosen))

    def draft(
        self,
        prompt: Sequence[int],
        how: Sampling,
        *,
        most: int,
        stop: Sequence[str] = (),
        seed: int = 0,
        logprobs: bool = False,
        own: bool = False,
    ) -> "Draft":
        """Return a text before its first token.

        `own`: the text is separate from the prompt, like an answer in a chat.
        """
        request = Request(list(prompt), how, most, frozenset(self.tokenizer.roles.ends), seed, logprobs)
        return Draft(request, Stream(self.tokenizer, after=() if own else prompt), Stops(stop))

    @property
    def never_written(self) -> list[int]:
        """Ids that are never generated."""
        return self.tokenizer.never(self.model.head.out_features)

    def prompt_ids(self, text: str) -> list[int]:
        """Return the ids of a prompt after the tokens that open a text; for an empty prompt without them, END."""
        ids = [*self.tokenizer.roles.opening, *self.tokenizer.encode(text)]
        if not ids and self.tokenizer.end is not None:
            return [self.tokenizer.end]
        if not ids:
            raise SettingError("this model's tokenizer has no START: give it a prompt to go on from")
        return ids

    @check_arguments
    def stream_chat(self, messages: str | Sequence[Message], **how: object) -> "Writing":
        """Return the answer to a message or a chat, as an iterator of pieces. Takes the options of `stream`."""
        chat = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return self.stream(self.chat_prompt(chat), **how)  # type: ignore[arg-type]

    def chat_prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a chat, up to the start of the answer."""
        if self.chat_template is None:
            raise Misuse("this model has no chat template: it goes on with a text, but was not taught to answer")
        return chat_ids(self.tokenizer, self.chat_template, messages, self.specials or specials_of(self.tokenizer))

    def chat(self, messages: str | Sequence[Message], **how: object) -> str:
        """Return the whole answer to a message or a chat. Takes the options of `stream`."""
        return "".join(self.stream_chat(messages, **how))

    @check_arguments
    def generate(self, prompt: str = "", **how: object) -> str:
        """Return the whole text that follows the prompt. Takes the options of `stream`."""
        return "".join(self.stream(prompt, **how))  # type: ignore[arg-type]

    @check_arguments
    def probabilities(self, text: str | Sequence[int], k: int = 5) -> list[Likely]:
        """Return the tokens that the model expects at each position of a text (or of its ids).

        The last position is the one after the end of the text. If the text is longer than the context, only its end is
        read.
        """
        ids = self.prompt_ids(text) if isinstance(text, str) else list(text)
        ids = ids[-self.model.context :]
        names = [self.tokenizer.token(id) for id in ids[1:]]
        shown, pairs = self.tokenizer.shown, zip([*names, None], guesses(self.model, ids, k), strict=True)
        return [
            Likely(name, guess.following, [(shown(id), value) for id, value in guess.best]) for name, guess in pairs
        ]


def within_context(limit: int | None, ids: list[int], tokens: int, who: str = "a beam") -> tuple[list[int], int]:
    """Return the part of a prompt that is read, and the number of tokens to generate, so that both fit the context.

    `who`: subject of the message about a text that is cut.
    """
    if limit is None or len(ids) + tokens <= limit + 1:
        return ids, tokens
    read = ids if len(ids) <= limit else ids[-max(1, limit // 2) :]
    most = min(tokens, limit + 1 - len(read))
    cut = "" if len(read) == len(ids) else f", after the last {len(read)} of the prompt's"
    say(f"{who} writes within the model's context of {limit} tokens: {most} at most{cut}")
    return read, most


@dataclass(frozen=True)
class Draft:
    """A text that is being generated: the request, and the decoding of its tokens up to the first stop string."""

    request: Request
    _stream: Stream
    _stops: Stops

    @property
    def stopped(self) -> bool:
        """True if a stop string was found."""
        return self._stops.found

    def push(self, token: int) -> str:
        """Return the text that is certain after this token."""
        return self._stops.push(self._stream.push(token))

    def end(self) -> str:
        """Return the remaining text, after the last token."""
        return "" if self.stopped else self._stops.push(self._stream.end()) + self._stops.end()


class Writing(Iterator[str]):
    """Text as it is generated, an iterator of pieces.

    `ids` holds the tokens of the prompt and those generated so far. Tokenizing the text again may yield other tokens.
    """

    def __init__(self, draft: Draft, tokens: Iterator[int | None]) -> None:
        self.ids = list(draft.request.prompt)
        self._pieces = self._written(draft, tokens)

    def __next__(self) -> str:
        return next(self._pieces)

    def _written(self, draft: Draft, tokens: Iterator[int | None]) -> Iterator[str]:
        """Yield the tokens as text, up to END or the first stop string."""
        for token in tokens:
            if token is None:
                break
            self.ids.append(token)
            if piece := draft.push(token):
                yield piece
            if draft.stopped:
                return
        if piece := draft.end():
            yield piece
