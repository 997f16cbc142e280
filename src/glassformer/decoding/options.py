"""Options of sampling and beam search; imports no torch."""

from dataclasses import dataclass
from typing import TypedDict, Unpack

from glassformer.config.errors import SettingError

MAX_BEAM = 1000
"""Maximum number of texts that a beam follows at once, and of translations that are sampled."""
MAX_SEED = 2**62
MAX_TOP_K = 1_000_000
MAX_TEMPERATURE = 100.0
"""Infinite temperatures in single precision would turn probabilities into NaN."""
MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY = 0.01, 100.0


def check_range(option: str, value: int | float | None, low: int | float, high: int | float, above: str = "") -> None:
    """Raise `SettingError` for a value outside [low, high]; None is unset.

    `above` names the option whose value is `high`.
    """
    if value is not None and not low <= value <= high:
        least, most = (f"{limit:,}" if isinstance(limit, int) else f"{limit:g}" for limit in (low, high))
        given = f"{value}" if isinstance(value, int) else f"{value:g}"
        raise SettingError(f"{option} is {given}, but must lie between {least} and {above}{most}")


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen."""

    temperature: float = 1.0
    """Below 1 sharpens the distribution; 0 is greedy."""
    top_k: int | None = None
    """Only the k most probable tokens."""
    top_p: float | None = None
    """Only the most probable tokens that together reach this probability."""
    repetition_penalty: float = 1.0
    """Above 1, tokens of the prompt and the text become less probable."""
    presence_penalty: float = 0.0
    """Subtracted from the score of each token that was generated before."""
    frequency_penalty: float = 0.0
    """Subtracted for each time that the token was generated before."""

    def __post_init__(self) -> None:
        check_range("--temperature", self.temperature, 0, MAX_TEMPERATURE)
        check_range("--top-k", self.top_k, 1, MAX_TOP_K)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SettingError(f"--top-p is {self.top_p:g}, but must lie above 0 and be at most 1")
        check_range("--repetition-penalty", self.repetition_penalty, MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY)
        check_range("--presence-penalty", self.presence_penalty, -2, 2)
        check_range("--frequency-penalty", self.frequency_penalty, -2, 2)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def check_writing(sampling: Sampling, *, tokens: int, beam: int | None, seed: int) -> None:
    """Raise `SettingError` for invalid options of `generate`."""
    if tokens < 1:
        raise SettingError(f"--tokens is {tokens}, but must be at least 1")
    check_range("--seed", seed, 0, MAX_SEED)
    if beam is not None and sampling != Sampling():
        raise SettingError("--beam cannot be combined with --greedy, --temperature, --top-k, --top-p or penalties")
    check_range("--beam", beam, 1, MAX_BEAM)


class SearchArguments(TypedDict, total=False):
    """Search options of `translate`: the arguments of `Search.of`."""

    beam: int | None
    length_penalty: float
    nbest: int
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None


SEARCH_OPTIONS = tuple(SearchArguments.__annotations__)


@dataclass(frozen=True)
class Search:
    """Settings of beam search, or of sampling, for translations."""

    beam: int = 5
    """Hypotheses that beam search follows at once; 1 is greedy."""
    length_penalty: float = 1.0
    """Scores are divided by length to this power: 0 prefers short ones, above 1 long ones."""
    best: int = 1
    """Number of translations to return, best first."""
    sampling: Sampling | None = None
    """Draw `best` translations with these settings instead of searching."""
    seed: int = 0
    """Seed of the first sampled translation; the next ones use the seeds after it."""

    @staticmethod
    def of(**options: Unpack[SearchArguments]) -> "Search":
        """Return the search for these options. Any of `temperature`, `top_k` and `top_p` asks for sampling."""
        beam, seed, best = options.get("beam"), options.get("seed"), options.get("nbest", 1)
        temperature, top_k, top_p = options.get("temperature"), options.get("top_k"), options.get("top_p")
        samples = any(value is not None for value in (temperature, top_k, top_p))
        if samples and beam is not None:
            raise SettingError("--beam cannot be combined with --temperature, --top-k or --top-p")
        if seed is not None and not samples:
            raise SettingError("--seed is for sampling: pass --temperature, --top-k or --top-p as well")
        sampling = Sampling(1.0 if temperature is None else temperature, top_k, top_p) if samples else None
        width = Search.beam if beam is None else beam
        width = max(1, best) if samples else width
        return Search(width, options.get("length_penalty", Search.length_penalty), best, sampling, seed or 0)

    def __post_init__(self) -> None:
        if self.sampling is not None:
            check_range("--nbest", self.best, 1, MAX_BEAM)
        check_range("--beam", self.beam, 1, MAX_BEAM)
        check_range("--seed", self.seed, 0, MAX_SEED)
        check_range("--length-penalty", self.length_penalty, 0, 10)
        check_range("--nbest", self.best, 1, self.beam, above="--beam ")
