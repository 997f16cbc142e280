"""Words, fast: each different one is looked up once, and is a number after that.

Texts repeat themselves, and numpy finds where words of ASCII begin and end, so this is many times as fast as taking
every text through the pipeline. What holds other letters is cut there, once: no word holds a blank, so the result is
the same.
"""

import itertools
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tokenizers
from numpy.typing import NDArray

LETTER, MARK = 1, 2
KINDS = bytes(
    LETTER if re.match(r"\w", sign, re.ASCII) else MARK if re.match(r"\S|\n", sign, re.ASCII) else 0
    for sign in map(chr, range(128))
) + bytes(128)
"""What each byte is, as far as ASCII goes (there, Python and the pipeline agree): of a word, one alone, or none."""
BLANK, APOSTROPHE = b" '"

MOST_KEPT, LONGEST_KEPT = 2**20, 40
"""Stretches remembered at once, and the bytes of one, so that a large corpus does not fill the memory."""

MOST_NUMBERS = 2**25
"""Stretches, each as often as it stands there, of the texts that are remembered from counting to encoding."""

TOGETHER = 2**18
"""Characters of texts whose stretches are found in one go."""

SHORT = 15
"""Bytes of a stretch that is found without Python: they and their number are two numbers of 64 bits."""
SLOT_BITS = 19
"""How many bits the number of such a stretch's slot has."""
FIRST_BYTES, LAST_BYTES = (
    np.array([256 ** min(max(length - before, 0), 8) - 1 for length in range(SHORT + 1)], np.uint64)
    for before in (0, 8)
)
"""Of a stretch of each length, what remains of the 8 bytes from its beginning, and of the 8 after these."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Odd, near 2⁶⁴ over the golden ratio: products with it wrap around and spread over 64 bits."""


def find_stretches(whole: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each stretch begins, and where it has ended. The first and the last byte are blanks.

    A stretch is a word of ASCII; or what stands between two blanks, where that holds other letters.
    """
    letters = np.frombuffer(whole, np.uint8)
    kinds = np.frombuffer(whole.translate(KINDS), np.uint8)
    within = kinds == LETTER
    within[1:-1] |= (letters[1:-1] == APOSTROPHE) & within[:-2] & within[2:]
    if not whole.isascii():
        other = letters >= 128
        blanks = np.flatnonzero(letters == BLANK)
        after = np.searchsorted(blanks, np.flatnonzero(other[1:] & ~other[:-1]) + 1)
        steps = np.zeros(len(letters), np.int8)
        steps[blanks[after - 1] + 1] = 1
        steps[blanks[after]] = -1
        within |= np.cumsum(steps, dtype=np.int8).view(np.bool_)
    alone = (kinds == MARK) & ~within
    begins, ends = alone.copy(), alone
    begins[1:] |= within[1:] & ~within[:-1]
    ends[:-1] |= within[:-1] & ~within[1:]
    return np.flatnonzero(begins), np.flatnonzero(ends) + 1


class Cutter:
    """Stretches into words."""

    def __init__(self, pipeline: tokenizers.Tokenizer) -> None:
        self._pipeline = pipeline
        self._lower = pipeline.normalizer is not None

    def folded(self, text: str) -> bytes:
        """The text, with ASCII in small letters where these are wanted."""
        return text.encode().lower() if self._lower else text.encode()

    def words(self, stretch: str) -> list[str]:
        """The words of a folded stretch that holds more than ASCII."""
        text = self._pipeline.normalizer.normalize_str(stretch) if self._lower else stretch
        return [word for word, _ in self._pipeline.pre_tokenizer.pre_tokenize_str(text)]


class Stretches(defaultdict[bytes, int]):
    """Stretch → its number n; words[ends[n] : ends[n + 1]] are its words, as `number` numbers them.

    A stretch has its number when it is first met, and its words after `cut_new`. Short ones have a slot too, where they
    are found without Python, unless another one was there first.
    """

    def __init__(self, cutter: Cutter, number: Callable[[str], int]) -> None:
        super().__init__()
        self._cutter = cutter
        self.number = number
        self.clear()

    def clear(self) -> None:
        super().clear()
        self.default_factory = itertools.count().__next__
        self.words = array("i")
        self.ends = array("q", [0])
        self._long = 0
        """Stretches that have a number and are not remembered."""
        self._first, self._last = np.zeros((2, 2**SLOT_BITS), np.uint64)
        """The bytes of the stretch in each slot; none has no bytes."""
        self._numbers = np.zeros(2**SLOT_BITS, np.int32)

    @property
    def _new(self) -> int:
        """Stretches that have a number and are not cut."""
        return len(self) + self._long - (len(self.ends) - 1)

    def cut_new(self) -> None:
        """Cut what is new. Long stretches keep their numbers, and are forgotten."""
        new = list(itertools.islice(reversed(self), self._new))[::-1]
        texts = b" ".join(new).decode().split(" ") if new else []
        cut = [[text] if text.isascii() else self._cutter.words(text) for text in texts]
        self.words.extend([self.number(word) for words in cut for word in words])
        self.ends.extend(itertools.accumulate(map(len, cut), initial=self.ends.pop()))
        for stretch in new:
            if len(stretch) > LONGEST_KEPT:
                del self[stretch]
                self._long += 1

    @property
    def full(self) -> bool:
        return max(len(self.ends), len(self.words) // 4) > MOST_KEPT

    def numbers(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The numbers of each text's stretches, as they follow each other."""
        parts = [self._cutter.folded(text) for text in texts]
        whole = b" ".join([b"", *parts, b" " * (SHORT + 1)])
        starts, ends = find_stretches(whole)
        numbers = self._look_up(whole, starts, ends)
        borders = np.searchsorted(starts, np.cumsum([0, *(len(part) + 1 for part in parts)])).tolist()
        return [numbers[first:last] for first, last in itertools.pairwise(borders)]

    def _look_up(self, whole: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        """The numbers of the stretches between these places; behind the last one, as many bytes as a short one has."""
        lengths = ends - starts
        is_short, size = lengths <= SHORT, np.minimum(lengths, SHORT)
        eight = np.ndarray(len(whole) - 7, "<u8", whole, strides=(1,))  # bytes, from each on
        first = eight[starts] & FIRST_BYTES[size]
        last = eight[starts + 8] & LAST_BYTES[size] | size.astype(np.uint64) << np.uint64(56)
        slots = ((first ^ last * SPREAD) * SPREAD >> np.uint64(64 - SLOT_BITS)).view(np.int64)
        numbers = self._numbers[slots]
        others = np.flatnonzero((self._first[slots] != first) | (self._last[slots] != last) | ~is_short)
        places = zip(starts[others].tolist(), ends[others].tolist(), strict=True)
        numbers[others] = [self[whole[start:end]] for start, end in places]
        free = others[(self._last[slots[others]] == 0) & is_short[others]]
        for values, here in ((self._first, first), (self._last, last), (self._numbers, numbers)):
            values[slots[free[::-1]]] = here[free[::-1]]  # of several for one slot the first stays
        return numbers

    def groups(
        self,
        texts: Iterable[str],
        numbers: Callable[[list[str]], list[NDArray[np.int32]]],
        forget: Callable[[], None],
    ) -> Iterator[list[NDArray[np.int32]]]:
        """The numbers of some texts at a time; what the numbers mean is forgotten where too many are remembered."""
        for group in together(texts):
            found = numbers(group)
            self.cut_new()
            yield found
            if self.full:
                self.clear()
                forget()

    def counted(self, counts: NDArray[np.int64], times: NDArray[np.int64], words: int) -> NDArray[np.int64]:
        """How often each word stands there, with as many `times` each stretch."""
        of_word = np.repeat(times, np.diff(self.ends)[: len(times)])
        more = np.bincount(np.asarray(self.words)[: len(of_word)], weights=of_word, minlength=words)  # exact below 2⁵³
        return np.pad(counts, (0, words - len(counts))) + more.astype(np.int64)

    def words_of(self, texts: Sequence[NDArray[np.int32]]) -> list[NDArray[np.int32]]:
        """The numbers of each text's stretches → the numbers of its words."""
        stretches = np.concatenate(texts)
        ends = np.asarray(self.ends)
        starts, after = ends[stretches], np.append(0, np.cumsum(ends[stretches + 1] - ends[stretches]))
        places = np.repeat(starts - after[:-1], np.diff(after)) + np.arange(after[-1])
        words = np.asarray(self.words)[places]
        borders = after[np.cumsum([0, *map(len, texts)])].tolist()
        return [words[first:last] for first, last in itertools.pairwise(borders)]


def together(texts: Iterable[str]) -> Iterator[list[str]]:
    """Some texts at a time."""
    group: list[str] = []
    size = 0
    for text in texts:
        group.append(text)
        size += len(text)
        if size > TOGETHER:
            yield group
            group, size = [], 0
    if group:
        yield group


class TextCache:
    """Texts that are held anyway and encoded next: how counting cuts them is kept until then."""

    def __init__(self, texts: Iterable[str], room: int | None = None) -> None:
        """`room`: how many numbers may be kept; unset, MOST_NUMBERS."""
        self._texts = texts
        self._room = MOST_NUMBERS if room is None else room
        self.numbers: dict[str, NDArray[np.int32]] = {}
        self.stretches: Stretches | None = None
        self.words: dict[str, int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def keep(self, texts: list[str], numbers: list[NDArray[np.int32]]) -> list[NDArray[np.int32]]:
        """The numbers, remembered where there is room."""
        for text, those in zip(texts, numbers, strict=True):
            if len(those) <= self._room and text not in self.numbers:
                self.numbers[text] = those
                self._room -= len(those)
        return numbers

    def forget(self) -> None:
        """There were too many different stretches."""
        self.numbers.clear()
        self._room = -1


def count_words(texts: Iterable[str], pipeline: tokenizers.Tokenizer) -> Counter[str]:
    """How often each word stands in the texts. Stretches are counted, and cut when they are first met."""
    words: dict[str, int] = defaultdict(itertools.count().__next__)
    stretches = Stretches(Cutter(pipeline), words.__getitem__)
    cache = texts if isinstance(texts, TextCache) else TextCache(texts, room=0)
    counts, times = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for group in stretches.groups(cache, lambda texts: cache.keep(texts, stretches.numbers(texts)), cache.forget):
        more = np.bincount(np.concatenate([np.empty(0, np.int32), *group]), minlength=len(stretches.ends) - 1)
        more[: len(times)] += times
        times = more
        if stretches.full:
            counts, times = stretches.counted(counts, times, len(words)), np.zeros(0, np.int64)
    counts = stretches.counted(counts, times, len(words))
    cache.stretches, cache.words = stretches, words
    return Counter(dict(zip(words, counts.tolist(), strict=True)))


class Numberer:
    """Texts → the ids of their words."""

    def __init__(self, pipeline: tokenizers.Tokenizer, unknown: int, cache: TextCache | None = None) -> None:
        vocabulary: dict[str, int] = pipeline.get_vocab()

        def number(word: str) -> int:
            return vocabulary.get(word, unknown)

        self._numbers: dict[str, NDArray[np.int32]] = {}
        self.stretches = Stretches(Cutter(pipeline), number)
        if cache is not None and cache.stretches is not None:
            self._numbers, self.stretches = cache.numbers, cache.stretches
            ids = np.fromiter(map(number, cache.words), np.int32)
            self.stretches.words = array("i", ids[np.asarray(self.stretches.words)].tobytes())
            self.stretches.number = number

    def ids(self, texts: Iterable[str]) -> list[NDArray[np.int32]]:
        """The ids of each text. What was remembered of texts is used here, and gone afterwards."""

        def numbers(texts: list[str]) -> list[NDArray[np.int32]]:
            known = [self._numbers.pop(text, None) for text in texts]
            new = [text for text, those in zip(texts, known, strict=True) if those is None]
            fresh = iter(self.stretches.numbers(new))
            return [next(fresh) if those is None else those for those in known]

        groups = self.stretches.groups(texts, numbers, self._numbers.clear)
        ids = [ids for group in groups for ids in self.stretches.words_of(group)]
        self._numbers.clear()
        return ids
