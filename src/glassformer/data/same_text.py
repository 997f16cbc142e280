"""Texts that count as the same, because their normal forms are equal, and near-duplicates."""

import hashlib
import html
import itertools
import re
import string
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.config.progress import progress_of
from glassformer.data.order import UInts, mix, number
from glassformer.data.wording import counted, shortened

OTHER_BLANKS = ("  ", "\n", "\t", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f")
"""ASCII white space except a single space."""
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Default-ignorable characters of Unicode, such as joiners, variation selectors and tags, and U+FFF9 to U+FFFB."""
LOOKALIKES = dict(zip("авекмнорстухіјѕԁԛԝӏαβεζηικμνορτυχօ", "abekmhopctyxijsdqwlabezhikmnoptyxo", strict=True))
"""Latin letters by the Cyrillic, Greek or Armenian letters that look like them in small or capital form.

No two letters of one alphabet become the same letter, so different words stay different.
"""
OTHER_LETTER = re.compile("[\u0370-\u058f]")
"""Greek, Cyrillic and Armenian letters."""
SYMBOLS = str.maketrans("νӀүҮαβεζηικμτυχ", "vIyY𝛼𝛽𝜀𝜁𝜂𝜄𝜅𝜇𝜏𝜐𝜒")
"""Replacements of letters outside Greek and Cyrillic words. Small Greek letters are symbols there, as in µm, and not
lookalikes. Their mathematical forms keep them from being replaced; NFKC turns them back."""
_LETTER = "[\u0370-\u052f\u1f00-\u1fff]"
ANY_SYMBOL = re.compile(f"[{''.join(map(chr, SYMBOLS))}]")
SYMBOL = re.compile(f"{ANY_SYMBOL.pattern}(?<!{_LETTER}.)(?!{_LETTER})")
"""A letter without a Greek or Cyrillic neighbour."""
MIXED = re.compile(f"[a-zA-Z](?:(?={_LETTER})|(?<={_LETTER}.))")
MIXED_LETTERS = re.compile(f"{_LETTER}(?<!{_LETTER}.)(?:(?<=[a-zA-Z].){_LETTER}*+|{_LETTER}*+(?=[a-zA-Z]))")
"""Consecutive Greek and Cyrillic letters next to a Latin letter."""
DIFFERENCES = "letter case, white space, letter forms, lookalikes, invisible characters, HTML entities or decimals"
"""Differences that the normal form of a text removes."""
ENTITY_PASSES = 2
"""Number of times that character references are resolved."""
AMPERSANDS = re.compile("&(?:(?:amp|#0*38|#x0*26);)+", re.IGNORECASE)
"""An ampersand that was escaped any number of times, as texts from the web often are."""
DECIMALS = re.compile(r"\.(?:[0-9]*0|(?<![0-9A-Za-z_.,]\.)[0-9]+)(?![0-9]|[.,][0-9])")
"""A point and decimals that end with a zero or follow no digit. It begins with the point, since a search for one
character is fast."""
THOUSANDS = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:,[0-9]{3})+")
"""A whole number with commas between thousands."""


def normal_form(text: str) -> str:
    """Return the form of a text that all its copies share.

    It resolves HTML character references, applies Unicode NFKC, folds case, joins white space and drops invisible
    characters. Decimals get a digit before the point and lose trailing zeros. Letters that look like Latin ones become
    Latin.
    """
    if not text.isascii():
        text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    if "&" in text:
        text = AMPERSANDS.sub("&", text)
        for _ in range(ENTITY_PASSES):
            text = html.unescape(text)
        text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    if text.isascii():
        text = text.lower()
    elif OTHER_LETTER.search(text):
        text = unicodedata.normalize("NFKC", _in_latin(text))
    else:
        text = unicodedata.normalize("NFKC", text.casefold())  # case folding can decompose letters
    text = DECIMALS.sub(_plain_decimals, text)
    if text.isascii() and not any(sign in text for sign in OTHER_BLANKS):  # the only white space is single blanks
        return text.strip(" ")
    return " ".join(text.split())


def _in_latin(text: str) -> str:
    """Fold case, and replace the letters that look like Latin ones."""

    def visible(letters: re.Match[str]) -> str:
        return letters[0].translate(SYMBOLS)

    if ANY_SYMBOL.search(text):
        if MIXED.search(text):
            text = MIXED_LETTERS.sub(visible, text)
        text = SYMBOL.sub(visible, text)
    text = unicodedata.normalize("NFC", text.casefold())  # case folding can decompose letters
    for letter, latin in LOOKALIKES.items():
        text = text.replace(letter, latin)
    return text


def _plain_decimals(decimals: re.Match[str]) -> str:
    """Return decimals after a digit and without trailing zeros, unless they are part of a date, version or address."""
    text, point = decimals.string, decimals.start()
    start = point
    while start and text[start - 1] in string.digits:
        start -= 1
    before = text[start - 1 : start]
    if before.isalnum() or before in {"_", "."} or (before == "," and not _has_thousands(text, point)):
        return decimals[0]
    return "0" * (start == point) + decimals[0].rstrip("0").rstrip(".")


def _has_thousands(text: str, end: int) -> bool:
    """Return whether the digits before a point are in groups of three, separated by commas."""
    start = end
    while start and text[start - 1] in "0123456789,":
        start -= 1
    return THOUSANDS.fullmatch(text, start, end) is not None


def digests_of(contents: Iterable[bytes]) -> UInts:
    """Return 64-bit digests of contents."""
    found = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)


def in_other_letters(count: int) -> str:
    """Return a remark on the number of copies that are written differently from the original; empty for none."""
    return f" ({count:,} of them written differently: {DIFFERENCES})" if count else ""


class NormalDigest:
    """Digest of the normal form of a document that is read in pieces."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._begun = False
        self._blank = False
        self.sketch = NO_SKETCH

    def update(self, text: str, *, sketch: bool = False) -> None:
        """Add the next piece. Between two pieces there may be a word, but no letter that Unicode composes of both."""
        text = INVISIBLE.sub("", text)  # so that its ends match those of the normal form
        form = normal_form(text)
        self._blank |= text[:1].isspace()
        if form:
            self._hash.update((" " * (self._begun and self._blank) + form).encode())
            self._begun, self._blank = True, text[-1].isspace()
        if sketch:
            self.sketch = smallest(np.concatenate([self.sketch, sketch_of(form)]))

    @property
    def number(self) -> int:
        return int.from_bytes(self._hash.digest(), "little")


# --- near-duplicates ---

SHINGLE = 6
"""Number of characters in a shingle. With fewer, two long texts would share most shingles; with more, sentences that
differ in one word would share less than half of them."""
MIN_SHINGLES = 15
"""Minimum number of different shingles. Shorter texts are similar to many others by chance and count only if equal."""
SIMILAR = 0.5
"""Share of common shingles from which two texts are near-duplicates."""
SKETCH = 128
"""Number of shingles in a sketch, chosen by the smallest hashes. Near-duplicates share most of them."""
BANDS, ROWS = 32, 4
"""Bands of a MinHash signature, and hashes per band. Texts that agree in a band are compared. These are 99 % of the
pairs that share 0.6 of their shingles, and 0.3 % of the pairs that share 0.1."""
BLOCK = 2**12
"""Number of texts or pairs that are in memory at once."""
FACTOR = 0x9E3779B97F4A7C15

NO_SKETCH: UInts = np.zeros(0, dtype=np.uint64)
"""The sketch of a text that is too short."""


def sketch_of(text: str, beside: int = 0) -> UInts:
    """Return hashes of some shingles of a text in its normal form.

    `beside`: digest of what is read with the text; the shingles of rows with other digests all differ.
    """
    letters = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4").astype(np.uint64)
    if len(letters) < SHINGLE:
        return NO_SKETCH
    shingles = np.zeros(len(letters) - SHINGLE + 1, dtype=np.uint64)
    for place in range(SHINGLE):
        shingles = shingles * np.uint64(FACTOR) + letters[place : place + len(shingles)]
    return smallest(mix(shingles, number(beside)))


def smallest(shingles: UInts) -> UInts:
    """Return the smallest distinct hashes."""
    return np.unique(shingles)[:SKETCH]


NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


def near_in_words(pairs: NDArray[np.int64], noun: str) -> str:
    """Return a message on the number of texts that are near-duplicates of an earlier one."""
    return f"{counted(len(np.unique(pairs[:, 1])), f'{noun} is', f'{noun}s are')} nearly the same as an earlier one"


def near_finding(pairs: NDArray[np.int64], noun: str, texts: Sequence[str], lines: Sequence[int]) -> list[str]:
    """Return the finding on near-duplicates with the first pair as an example; none without near-duplicates."""
    if not len(pairs):
        return []
    shown = " and ".join(f"'{shortened(texts[row])}' (line {lines[row]:,})" for row in pairs[0].tolist())
    return [f"{near_in_words(pairs, noun)}: {shown}; --data.near_duplicates together keeps such {noun}s in one part"]


KEPT_TOGETHER = "and in one part with it (data.near_duplicates)"


def near_duplicates(keys: UInts, sketch: Callable[[int], UInts]) -> NDArray[np.int64]:
    """Return pairs of near-duplicates, the earlier first; of texts with equal keys, only the first counts.

    `sketch`: returns the sketch of a text by its position.
    """
    first = np.sort(np.unique(keys, return_index=True)[1])
    progress = progress_of("text")

    def sketches() -> Iterator[UInts]:
        for done, place in enumerate(first.tolist()):
            if done % 256 == 0:
                progress(done, len(first))
            yield sketch(place)
        progress(len(first), len(first))

    pairs: NDArray[np.int64] = first[near_pairs(sketches())]
    return pairs


def near_pairs(sketches: Iterable[UInts]) -> NDArray[np.int64]:
    """Return pairs of positions of near-duplicates, the earlier first.

    In each band, a text is compared with the preceding text with the same hashes and with the first such text. So the
    time grows with the number of texts, not with the number of pairs.
    """
    signatures, places = _signatures(sketches)
    found = [NO_PAIRS]
    for band in signatures.view(np.uint64).T:
        order = np.argsort(band, kind="stable")
        again = np.flatnonzero(band[order][1:] == band[order][:-1]) + 1
        begins = np.arange(len(order))
        begins[again] = 0
        for before in (again - 1, np.maximum.accumulate(begins)[again]):
            found.append(_similar(signatures, np.stack([order[before], order[again]], axis=1)))
    pairs: NDArray[np.int64] = np.unique(np.sort(places[np.concatenate(found)], axis=1), axis=0)
    return pairs


def _signatures(sketches: Iterable[UInts]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return the signatures (N×(BANDS·ROWS)) and positions of texts that are not too short.

    A signature has 16 bits of the first shingle of the text under each of BANDS·ROWS orders of all shingles.
    """
    factors = mix(np.arange(BANDS * ROWS, dtype=np.uint64), number(0)) | np.uint64(1)
    out, places = [np.zeros((0, len(factors)), dtype=np.uint16)], array("q")
    long = ((place, sketch) for place, sketch in enumerate(sketches) if len(sketch) >= MIN_SHINGLES)
    while block := list(itertools.islice(long, BLOCK)):
        places.extend(place for place, _ in block)
        shingles = np.concatenate([sketch for _, sketch in block])
        starts = np.cumsum([0, *(len(sketch) for _, sketch in block[:-1])])
        first = [np.minimum.reduceat(shingles * factor, starts) >> np.uint64(16) for factor in factors]
        out.append(np.stack(first, axis=1).astype(np.uint16))
    return np.concatenate(out), np.array(places, dtype=np.int64)


def _similar(signatures: NDArray[np.uint16], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs whose signatures are similar enough for near-duplicates."""
    alike = [np.zeros(0, dtype=np.bool_)]
    for start in range(0, len(pairs), BLOCK):
        one, other = pairs[start : start + BLOCK].T
        alike.append((signatures[one] == signatures[other]).mean(axis=1) >= SIMILAR)
    return pairs[np.concatenate(alike)]
