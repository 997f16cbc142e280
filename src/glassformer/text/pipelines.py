"""The three pipelines from text to tokens: characters, words and byte-level BPE."""

import itertools
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from glassformer.config.errors import DataError
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import keep_listener
from glassformer.config.sections import TokenizerSettings
from glassformer.text.pieces import batches

PAD, START, END, UNKNOWN, MASK = "<pad>", "<start>", "<end>", "<unk>", "<mask>"
NAMES = {"pad": PAD, "start": START, "end": END, "unk": UNKNOWN, "mask": MASK}
SPECIALS = [PAD, START, END, UNKNOWN]
"""First ids of character and word tokenizers. BPE has a token for every byte and needs no `<unk>`."""

DEFAULT_WORDS = 20_000
DEFAULT_BPE = 4096

WORD = r"\w+(?:['’]\w+)*|[^\w\s]|\n"
"""A word with its apostrophes, a punctuation mark, or a line end. Other whitespace is not a token."""

NO_BLANK = r"(?<=[(\[{“‘¿¡\n]) | (?=[,.;:!?)\]}%’”…\n])"
"""Blanks to remove after joining words: after opening marks, before closing marks, around line ends."""


def train(texts: Iterable[str], settings: TokenizerSettings, *, mask: bool = False) -> tokenizers.Tokenizer:
    """Train the pipeline of `settings.kind` on the texts; `mask` adds `<mask>` to the special tokens."""
    specials = [PAD, START, END] if settings.kind == "bpe" else SPECIALS
    specials = [*specials, MASK] if mask else specials
    pipeline = {"char": _char, "word": _word, "bpe": _bpe}[settings.kind](texts, settings, specials)
    if pipeline.get_vocab_size() <= len(specials):
        rare = f"no {settings.kind} occurs at least {settings.min_count} times (--tokenizer.min_count)"
        raise DataError(f"the text yields no tokens: {rare}")
    return pipeline


def kind_of(spec: JsonObject) -> str:
    """Return which pipeline a tokenizer.json describes: "char", "word", "bpe" or "other"."""
    split, decoder, model = spec["pre_tokenizer"] or {}, spec["decoder"] or {}, spec["model"]
    types = model["type"], split.get("type"), decoder.get("type")
    if types == ("BPE", None, "Fuse") and not model["merges"]:
        return "char"
    fold = spec["normalizer"] is None or spec["normalizer"] == {"type": "Lowercase"}
    if types == ("WordLevel", "Split", "Sequence") and split["pattern"] == {"Regex": WORD} and fold:
        return "word"
    plain_bytes = spec["normalizer"] is None and split.get("use_regex") and not split.get("add_prefix_space")
    plain_bytes = plain_bytes and all(token["special"] for token in spec["added_tokens"])  # others may hold a blank
    return "bpe" if types == ("BPE", "ByteLevel", "ByteLevel") and plain_bytes else "other"


def _char(texts: Iterable[str], settings: TokenizerSettings, specials: list[str]) -> tokenizers.Tokenizer:
    """Train a character tokenizer.

    It is BPE without merges, which encodes five times as fast as splitting at every character.
    """
    fold = normalizers.Lowercase()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(fold.normalize_str(text) if settings.lowercase else text)
    max_tokens = None if settings.vocab_size is None else settings.vocab_size - len(specials)
    vocabulary = _vocabulary(specials, counts, settings.min_count, max_tokens)
    pipeline = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=UNKNOWN))
    pipeline.add_special_tokens(specials)
    if settings.lowercase:
        pipeline.normalizer = fold
    pipeline.decoder = decoders.Fuse()
    return pipeline


def _word(texts: Iterable[str], settings: TokenizerSettings, specials: list[str]) -> tokenizers.Tokenizer:
    """Train a word tokenizer with the most frequent words; ties are in alphabetical order."""
    pipeline = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    if settings.lowercase:
        pipeline.normalizer = normalizers.Lowercase()
    pipeline.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    join = [decoders.Replace(Regex(r"\A"), " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    pipeline.decoder = decoders.Sequence([*join, decoders.Replace(Regex(NO_BLANK), "")])
    counts = count_words(texts, pipeline)
    max_tokens = (settings.vocab_size or DEFAULT_WORDS) - len(specials)
    vocabulary = _vocabulary(specials, counts, settings.min_count, max_tokens)
    pipeline.model = models.WordLevel(vocabulary, unk_token=UNKNOWN)
    pipeline.add_special_tokens(specials)
    return pipeline


def _vocabulary(specials: list[str], counts: Counter[str], min_count: int, max_tokens: int | None) -> dict[str, int]:
    """Return the ids: special tokens first, then the frequent tokens by descending count."""
    frequent = sorted((token for token in counts if counts[token] >= min_count), key=lambda t: (-counts[t], t))
    return {token: number for number, token in enumerate([*specials, *frequent[:max_tokens]])}


def _bpe(texts: Iterable[str], settings: TokenizerSettings, specials: list[str]) -> tokenizers.Tokenizer:
    """Train byte-level BPE. All 256 bytes are tokens, so no text is unknown."""
    pipeline = tokenizers.Tokenizer(models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    pipeline.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size or DEFAULT_BPE,
        min_frequency=max(2, settings.min_count),  # a pair that occurs once is not a pattern
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pipeline.train_from_iterator(keep_listener(texts), trainer)  # which iterates in a thread of its own
    return pipeline


# --- fast word ids: a cache from each distinct chunk between blanks to its words ---
# No word contains a blank, so the words of a text are those of its chunks. Chunks repeat: this is several times as fast
# as encoding every text with the pipeline.

MAX_CHUNKS = 2**20
"""Number of cached chunks that clears the cache, so that a large corpus does not fill the memory."""
MAX_CHARACTERS = 2**26
"""Number of characters that clears the cache too: a text without blanks is a single chunk."""
ASCII_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]|\n", re.ASCII)
"""An ASCII word. Python splits ASCII into the same words as the pipeline does, and faster."""


class WordIds:
    """Word ids of texts, with the splitting rules of a pipeline and a function from words to ids."""

    def __init__(self, pipeline: tokenizers.Tokenizer, number: Callable[[str], int]) -> None:
        self._pipeline = pipeline
        self._lowercase = pipeline.normalizer is not None
        self._number = number
        self._forget()

    def _forget(self) -> None:
        self._characters = 0
        """Characters of texts that were looked up since chunks were last forgotten."""
        self._chunks: dict[str, int] = defaultdict(itertools.count().__next__)
        """The number of each chunk. The ids of chunk n are ids[ends[n] : ends[n + 1]]."""
        self._ids, self._ends = array("i"), array("q", [0])

    def look_up(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Return the ids of each text's words."""
        self._characters += sum(map(len, texts))
        if len(self._chunks) > MAX_CHUNKS or self._characters > MAX_CHARACTERS:
            self._forget()
        chunks = [np.fromiter(map(self._chunks.__getitem__, text.split(" ")), np.int64) for text in texts]
        new = len(self._chunks) - (len(self._ends) - 1)
        for chunk in reversed(list(itertools.islice(reversed(self._chunks), new))):
            self._ids.extend(map(self._number, self._words(chunk)))
            self._ends.append(len(self._ids))
        all_chunks, ends = np.concatenate(chunks), np.asarray(self._ends)
        starts, after = ends[all_chunks], np.append(0, np.cumsum(ends[all_chunks + 1] - ends[all_chunks]))
        places = np.repeat(starts - after[:-1], np.diff(after)) + np.arange(after[-1])
        ids = np.asarray(self._ids)[places]
        borders = after[np.cumsum([0, *map(len, chunks)])].tolist()
        return [ids[first:last] for first, last in itertools.pairwise(borders)]

    def _words(self, chunk: str) -> list[str]:
        if chunk.isascii():
            return ASCII_WORD.findall(chunk.lower() if self._lowercase else chunk)
        text = self._pipeline.normalizer.normalize_str(chunk) if self._lowercase else chunk
        return [word for word, _ in self._pipeline.pre_tokenizer.pre_tokenize_str(text)]


def count_words(texts: Iterable[str], pipeline: tokenizers.Tokenizer) -> Counter[str]:
    """Return how often each word occurs in the texts."""
    numbers: dict[str, int] = defaultdict(itertools.count().__next__)
    counts = np.zeros(0, np.int64)
    words = WordIds(pipeline, numbers.__getitem__)
    for batch in batches(texts, lambda text: [text]):
        ids = words.look_up([text for _, text in batch])
        more = np.bincount(np.concatenate(ids), minlength=len(numbers))
        more[: len(counts)] += counts
        counts = more
    return Counter(dict(zip(numbers, counts.tolist(), strict=True)))
