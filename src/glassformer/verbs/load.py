"""A trained model, ready for use."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.config.errors import SettingError
from glassformer.config.resolve import Config
from glassformer.decoding.generate import generate, likeliest
from glassformer.decoding.sampling import Sampling
from glassformer.models.build import build_language_model, parameter_count
from glassformer.models.language_model import LanguageModel
from glassformer.runs.run import Run
from glassformer.text.stream import Stream
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.device import choose_device


def _silent(line: str) -> None:
    pass


def start_of_text(tokenizer: Tokenizer) -> list[int]:
    """What stands before the first token of a text, where the tokenizer has such a thing."""
    return [] if tokenizer.start is None else [tokenizer.start]


@dataclass(frozen=True)
class Likely:
    """A token of a text, and what the model expected there."""

    token: str
    probability: float
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
        say: Callable[[str], None] = _silent,
    ) -> Iterator[str]:
        """The text that follows the prompt, piece by piece as it is written."""
        if tokens < 1:
            raise SettingError(f"--tokens is {tokens}, but must be at least 1")
        if seed < 0:
            raise SettingError(f"--seed is {seed}, but must be at least 0")
        how = Sampling(0.0 if greedy else temperature, top_k, top_p, repetition_penalty)
        ids = self._ids(prompt)
        if self.tokenizer.unk is not None and (unknown := ids.count(self.tokenizer.unk)):
            say(f"{unknown} of the prompt's {len(ids) - 1} tokens are unknown to this model")
        end = self.tokenizer.end
        never = [id for id in self.tokenizer.specials if id != end]
        chosen = generate(self.model, [ids], how, most=tokens, end=end, never=never, seed=seed, say=say)
        return self._written((token for (token,) in chosen), Stops(stop))

    def _written(self, tokens: Iterator[int | None], stops: "Stops") -> Iterator[str]:
        """Tokens as text, up to END or the first stop string."""
        text = Stream(self.tokenizer)
        for token in tokens:
            if token is None:
                break
            if piece := stops.push(text.push(token)):
                yield piece
            if stops.found:
                return
        if piece := stops.push(text.end()) + stops.end():
            yield piece

    def _ids(self, text: str) -> list[int]:
        ids = [*start_of_text(self.tokenizer), *self.tokenizer.encode(text)]
        if not ids:
            raise SettingError("this model's tokenizer has no START: give it a prompt to go on from")
        return ids

    def generate(self, prompt: str = "", **how: object) -> str:
        """The whole text that follows the prompt. Takes what `stream` takes."""
        return "".join(self.stream(prompt, **how))  # type: ignore[arg-type]

    def probabilities(self, text: str, k: int = 5) -> list[Likely]:
        """For each token of a text, how likely it was, and the k likeliest; of a long text, its end."""
        ids = self._ids(text)[-self.model.context :]
        guesses = likeliest(self.model, ids, self.tokenizer.vocab_size)
        out = []
        for place, guess in enumerate(guesses):
            following = ids[place + 1] if place + 1 < len(ids) else None
            probability = dict(guess)[following] if following is not None else float("nan")
            token = "" if following is None else self.tokenizer.token(following)
            best = [(self.tokenizer.token(id), value) for id, value in guess[:k]]
            out.append(Likely(token, probability, best))
        return out


class Stops:
    """Ends a stream of text at the first stop string, even one that comes in pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self.found = False
        self._held = ""

    def push(self, text: str) -> str:
        """The text that is safe to show: none of it can belong to a stop string any more."""
        self._held += text
        found = [(place + len(stop), place) for stop in self.stops if (place := self._held.find(stop)) >= 0]
        if found:  # the one that is complete first ends the text, however it comes in pieces
            self.found = True
            shown, self._held = self._held[: min(found)[1]], ""
            return shown
        keep = 0
        for stop in self.stops:
            for size in range(min(len(stop) - 1, len(self._held)), 0, -1):
                if self._held.endswith(stop[:size]):
                    keep = max(keep, size)
                    break
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return shown

    def end(self) -> str:
        held, self._held = self._held, ""
        return held


@dataclass(frozen=True)
class Loaded(Writer):
    """A run's model, with everything that belongs to it."""

    run: Run
    config: Config

    @property
    def parameters(self) -> int:
        return parameter_count(self.model)

    def __repr__(self) -> str:
        settings = self.config.model
        return (
            f"{self.run.path}: {self.config.task}, {settings.encoder}, {settings.layers} layers, "
            f"width {settings.width}, {self.parameters:,} parameters, {self.tokenizer.vocab_size:,} tokens"
        )


def load(run: str | Path | Run, device: str = "auto") -> Loaded:
    """A run's best weights, its tokenizer and its settings; nothing outside the folder is needed."""
    run = run if isinstance(run, Run) else Run.open(run)
    config = run.config()
    tokenizer = run.tokenizer()
    model = build_language_model(config.model, vocab=tokenizer.vocab_size)
    run.load_weights(model)
    model.to(choose_device(device)).eval()
    return Loaded(model, tokenizer, run, config)
