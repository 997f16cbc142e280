"""A language model that writes: raw text in, raw text out."""

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
    """A token of a text, and what the model expected in its place."""

    token: str | None
    """None at the place after the text."""
    probability: float | None
    """What the model gave to this token."""
    expected: list[tuple[str, float]]
    """The likeliest tokens and their probabilities."""

    def _repr_html_(self) -> str:
        return facts({"token": self.token, "probability": self.probability}) + shares(self.expected)


@dataclass(frozen=True, repr=False)
class Writer(Generates):
    """A language model with its tokenizer: raw text in, raw text out."""

    model: LanguageModel
    tokenizer: Tokenizer
    chat_template: str | None = field(default=None, kw_only=True)
    """How messages become a text to go on from, where the model was taught to answer them."""
    specials: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Special tokens by the names that the template has for them."""

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
        """The text that follows the prompt, piece by piece as it is written.

        A prompt given as ids is taken as it is, and what follows it is a text of its own. With a `beam` it is the most
        probable of so many texts that are followed at once: found whole, within the model's context, and nothing of it
        is left to chance.
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
        """A text before its first token. `own`: what follows the prompt is a text of its own, as an answer is."""
        request = Request(list(prompt), how, most, frozenset(self.tokenizer.roles.ends), seed, logprobs)
        return Draft(request, Stream(self.tokenizer, after=() if own else prompt), Stops(stop))

    @property
    def never_written(self) -> list[int]:
        """Ids that are not to be chosen."""
        return self.tokenizer.never(self.model.head.out_features)

    def prompt_ids(self, text: str) -> list[int]:
        """What stands before a text, and the text's tokens; of nothing at all, what ends the text before."""
        ids = [*self.tokenizer.roles.opening, *self.tokenizer.encode(text)]
        if not ids and self.tokenizer.end is not None:
            return [self.tokenizer.end]
        if not ids:
            raise SettingError("this model's tokenizer has no START: give it a prompt to go on from")
        return ids

    @check_arguments
    def stream_chat(self, messages: str | Sequence[Message], **how: object) -> "Writing":
        """The answer to a message, or to a chat, piece by piece. Takes what `stream` takes."""
        chat = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return self.stream(self.chat_prompt(chat), **how)  # type: ignore[arg-type]

    def chat_prompt(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a chat, up to where the answer begins."""
        if self.chat_template is None:
            raise Misuse("this model has no chat template: it goes on with a text, but was not taught to answer")
        return chat_ids(self.tokenizer, self.chat_template, messages, self.specials or specials_of(self.tokenizer))

    def chat(self, messages: str | Sequence[Message], **how: object) -> str:
        """The whole answer. Takes what `stream` takes."""
        return "".join(self.stream_chat(messages, **how))

    @check_arguments
    def generate(self, prompt: str = "", **how: object) -> str:
        """The whole text that follows the prompt. Takes what `stream` takes."""
        return "".join(self.stream(prompt, **how))  # type: ignore[arg-type]

    @check_arguments
    def probabilities(self, text: str | Sequence[int], k: int = 5) -> list[Likely]:
        """What the model expects at each place of a text (or of its ids), up to the one after its end.

        Of a text longer than the context, at its end.
        """
        ids = self.prompt_ids(text) if isinstance(text, str) else list(text)
        ids = ids[-self.model.context :]
        names = [self.tokenizer.token(id) for id in ids[1:]]
        shown, pairs = self.tokenizer.shown, zip([*names, None], guesses(self.model, ids, k), strict=True)
        return [
            Likely(name, guess.following, [(shown(id), value) for id, value in guess.best]) for name, guess in pairs
        ]


def within_context(limit: int | None, ids: list[int], tokens: int, who: str = "a beam") -> tuple[list[int], int]:
    """What is read of a prompt, and how many tokens may be written: both together fit the model's context."""
    if limit is None or len(ids) + tokens <= limit + 1:
        return ids, tokens
    read = ids if len(ids) <= limit else ids[-max(1, limit // 2) :]
    most = min(tokens, limit + 1 - len(read))
    cut = "" if len(read) == len(ids) else f", after the last {len(read)} of the prompt's"
    say(f"{who} writes within the model's context of {limit} tokens: {most} at most{cut}")
    return read, most


@dataclass(frozen=True)
class Draft:
    """A text that is being written: what was asked for, and its tokens as text, up to the first stop string."""

    request: Request
    _stream: Stream
    _stops: Stops

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met."""
        return self._stops.found

    def push(self, token: int) -> str:
        """The text that this token settles."""
        return self._stops.push(self._stream.push(token))

    def end(self) -> str:
        """The rest, after the last token."""
        return "" if self.stopped else self._stops.push(self._stream.end()) + self._stops.end()


class Writing(Iterator[str]):
    """Text as it is written. `ids` holds the prompt's tokens and those written so far: text cut again may differ."""

    def __init__(self, draft: Draft, tokens: Iterator[int | None]) -> None:
        self.ids = list(draft.request.prompt)
        self._pieces = self._written(draft, tokens)

    def __next__(self) -> str:
        return next(self._pieces)

    def _written(self, draft: Draft, tokens: Iterator[int | None]) -> Iterator[str]:
        """Tokens as text, up to END or the first stop string."""
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
