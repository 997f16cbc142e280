"""Words, fast: whatever stands between two blanks is cut once, and is a number after that.

Texts repeat themselves, so this is several times as fast as taking every text through the pipeline; and no word holds a
blank, so the result is the same.
"""

import itertools
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tokenizers
from numpy.typing import NDArray

ASCII_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]|\n| ", re.ASCII)
"""The pipeline's words, as far as ASCII goes (there, Python and the pipeline agree on what a letter is), and blanks."""

MOST_KEPT, LONGEST_KEPT = 2**20, 40
"""Stretches remembered at once, and the characters of one, so that a large corpus does not fill the memory."""

MOST_NUMBERS = 2**25
"""Stretches, each as often as it stands there, of the texts that are remembered from counting to encoding."""

TOGETHER = 2**20
"""Characters of texts whose new stretches are cut in one go."""


class Cutter:
    """Texts into stretches, and these into words."""

    def __init__(self, pipeline: tokenizers.Tokenizer) -> None:
        self._pipeline = pipeline
        self._lower = pipeline.normalizer is not None

    def __call__(self, stretches: Iterable[str]) -> list[str]:
        """The words of each stretch, and a blank after them. Many are cut faster than each alone."""
        words: list[str] = []
        for ascii, some in itertools.groupby(stretches, str.isascii):
            if ascii:
                text = " ".join(some) + " "
                words += ASCII_WORD.findall(text.lower() if self._lower else text)
            else:
                words += itertools.chain.from_iterable((*self._words(stretch), " ") for stretch in some)
        return words

    def _words(self, text: str) -> list[str]:
        text = self._pipeline.normalizer.normalize_str(text) if self._lower else text
        return [word for word, _ in self._pipeline.pre_tokenizer.pre_tokenize_str(text)]

    def stretches(self, text: str) -> list[str]:
        """What stands between blanks, folded where that is cheap: fewer of them are then different."""
        return (text.lower() if self._lower and text.isascii() else text).split(" ")


class Stretches(defaultdict[str, int]):
    """Stretch between blanks → its number n; words[ends[n] : ends[n + 1]] are its words, as `number` numbers them.

    A stretch has its number when it is first met, and its words after `cut_new`.
    """

    def __init__(self, cut: Cutter, number: Callable[[str], int]) -> None:
        super().__init__()
        self._cut = cut
        self.number = number
        self.clear()

    def clear(self) -> None:
        super().clear()
        self.default_factory = itertools.count().__next__
        self.words = array("i")
        self.ends = array("q", [0])
        self._long = 0
        """Stretches that have a number and are not remembered."""

    @property
    def _new(self) -> int:
        """Stretches that have a number and are not cut."""
        return len(self) + self._long - (len(self.ends) - 1)

    def cut_new(self) -> None:
        """Cut what is new. Long stretches keep their numbers, and are forgotten."""
        new = list(itertools.islice(reversed(self), self._new))[::-1]
        words = self._cut(new)
        blanks = np.array([place for place, word in enumerate(words) if word == " "], np.int64)
        ends = len(self.words) + blanks - np.arange(len(blanks))
        self.words.extend([self.number(word) for word in words if word != " "])
        self.ends.frombytes(ends.tobytes())
        for stretch in new:
            if len(stretch) > LONGEST_KEPT:
                del self[stretch]
                self._long += 1

    @property
    def full(self) -> bool:
        return max(len(self.ends) + self._new, len(self.words) // 4) > MOST_KEPT

    def numbers(self, text: str) -> NDArray[np.int32]:
        """The numbers of the text's stretches, as they follow each other."""
        stretches = self._cut.stretches(text)
        return np.fromiter(map(self.__getitem__, stretches), np.int32, len(stretches))

    def groups(
        self, texts: Iterable[str], numbers: Callable[[str], NDArray[np.int32]], forget: Callable[[], None]
    ) -> Iterator[list[NDArray[np.int32]]]:
        """The numbers of some texts at a time; what the numbers mean is forgotten where too many are remembered."""
        group: list[NDArray[np.int32]] = []
        size = 0
        for text in texts:
            group.append(numbers(text))
            size += len(text)
            if size > TOGETHER or self.full:
                self.cut_new()
                yield group
                group, size = [], 0
                self._make_room(forget)
        if group:
            self.cut_new()
            yield group
            self._make_room(forget)

    def _make_room(self, forget: Callable[[], None]) -> None:
        if self.full:
            self.clear()
            forget()

    def words_of(self, texts: Sequence[NDArray[np.int32]]) -> list[NDArray[np.int32]]:
        """The numbers of each text's stretches → the numbers of its words."""
        stretches = np.concatenate(texts)
        ends = np.asarray(self.ends)
        starts, after = ends[stretches], np.append(0, np.cumsum(ends[stretches + 1] - ends[stretches]))
        places = np.repeat(starts - after[:-1], np.diff(after)) + np.arange(after[-1])
        words = np.asarray(self.words)[places]
        borders = after[np.cumsum([0, *map(len, texts)])].tolist()
        return [words[first:last] for first, last in itertools.pairwise(borders)]


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

    def keep(self, text: str, numbers: NDArray[np.int32]) -> NDArray[np.int32]:
        """The numbers, remembered where there is room."""
        if len(numbers) <= self._room and text not in self.numbers:
            self.numbers[text] = numbers
            self._room -= len(numbers)
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
    counts = np.zeros(0, np.int64)
    for group in stretches.groups(cache, lambda text: cache.keep(text, stretches.numbers(text)), cache.forget):
        times = np.bincount(np.concatenate([np.empty(0, np.int32), *group]), minlength=len(stretches.ends) - 1)
        of_word = np.repeat(times, np.diff(stretches.ends))
        more = np.bincount(np.asarray(stretches.words), weights=of_word, minlength=len(words))  # exact below 2⁵³
        counts = np.pad(counts, (0, len(words) - len(counts))) + more.astype(np.int64)
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

        def numbers(text: str) -> NDArray[np.int32]:
            known = self._numbers.pop(text, None)
            return self.stretches.numbers(text) if known is None else known

        groups = self.stretches.groups(texts, numbers, self._numbers.clear)
        ids = [ids for group in groups for ids in self.stretches.words_of(group)]
        self._numbers.clear()
        return ids
