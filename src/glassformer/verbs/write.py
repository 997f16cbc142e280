"""A language model that writes: raw text in, raw text out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.config.errors import SettingError
from glassformer.config.say import Say, silent
from glassformer.decoding.generate import generate, guesses
from glassformer.decoding.sampling import Sampling
from glassformer.models.language_model import LanguageModel
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


@dataclass(frozen=True)
class Writer:
    """A language model with its tokenizer: raw text in, raw text out."""

    model: LanguageModel
    tokenizer: Tokenizer

    def stream(
        self,
        prompt: str = "",
        *,
        tokens: int = 200,
        greedy: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
        say: Say = silent,
    ) -> "Writing":
        """The text that follows the prompt, piece by piece as it is written."""
        if tokens < 1:
            raise SettingError(f"--tokens is {tokens}, but must be at least 1")
        if not 0 <= seed <= 2**62:
            raise SettingError(f"--seed is {seed}, but must lie between 0 and {2**62}")
        how = Sampling(0.0 if greedy else temperature, top_k, top_p, repetition_penalty)
        ids = self._ids(prompt)
        if self.tokenizer.unk is not None and (unknown := ids.count(self.tokenizer.unk)):
            say(f"{unknown} of the prompt's tokens are unknown to this model")
        limit = self.model.encoder.limit
        if limit is not None and len(ids) + tokens > limit + 1:
            say(
                f"where the text grows past the model's context of {limit} tokens, the last half of it is read again "
                "and what came before is forgotten"
            )
        end = self.tokenizer.end
        never = [id for id in self.tokenizer.specials if id != end]
        chosen = generate(self.model, [ids], how, most=tokens, end=end, never=never, seed=seed)
        return Writing(self.tokenizer, ids, (token for (token,) in chosen), Stops(stop))

    def _ids(self, text: str) -> list[int]:
        """START, where the tokenizer has one, and the text's tokens."""
        start = [] if self.tokenizer.start is None else [self.tokenizer.start]
        ids = [*start, *self.tokenizer.encode(text)]
        if not ids:
            raise SettingError("this model's tokenizer has no START: give it a prompt to go on from")
        return ids

    def generate(self, prompt: str = "", **how: object) -> str:
        """The whole text that follows the prompt. Takes what `stream` takes."""
        return "".join(self.stream(prompt, **how))  # type: ignore[arg-type]

    def probabilities(self, text: str | Sequence[int], k: int = 5) -> list[Likely]:
        """What the model expects at each place of a text (or of its ids), up to the one after its end.

        Of a text longer than the context, at its end.
        """
        ids = self._ids(text) if isinstance(text, str) else list(text)
        ids = ids[-self.model.context :]
        names = [self.tokenizer.token(id) for id in ids[1:]]
        return [
            Likely(name, guess.following, [(self.tokenizer.token(id), value) for id, value in guess.best])
            for name, guess in zip([*names, None], guesses(self.model, ids, k), strict=True)
        ]


class Writing(Iterator[str]):
    """Text as it is written. `ids` holds the prompt's tokens and those written so far: text cut again may differ."""

    def __init__(self, tokenizer: Tokenizer, prompt: list[int], tokens: Iterator[int | None], stops: Stops) -> None:
        self.ids = list(prompt)
        self._pieces = self._written(Stream(tokenizer, after=prompt), tokens, stops)

    def __next__(self) -> str:
        return next(self._pieces)

    def _written(self, text: Stream, tokens: Iterator[int | None], stops: Stops) -> Iterator[str]:
        """Tokens as text, up to END or the first stop string."""
        for token in tokens:
            if token is None:
                break
            self.ids.append(token)
            if piece := stops.push(text.push(token)):
                yield piece
            if stops.found:
                return
        if piece := stops.push(text.end()) + stops.end():
            yield piece
