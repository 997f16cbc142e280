"""Small translations: words and their mirror images, written to files of every kind, or as a model reads them."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from glassformer.config.sections import TokenizerSettings
from glassformer.data.features.texts import PairExamples, encode_pairs
from glassformer.data.split.pairs import Pairs
from glassformer.text.tokenizer import Tokenizer
from helpers.running import tiny

PairRows = list[tuple[str, str]]


def mirrored(count: int, longest: int = 7, seed: int = 0) -> PairRows:
    """Words of random letters, no two alike, and each backwards in capitals, so that the sides are told apart."""
    random = Random(seed)
    found = dict[str, str]()
    while len(found) < count:
        word = "".join(random.choice("abcdef") for _ in range(random.randint(1, longest)))
        found[word] = word[::-1].upper()
    return list(found.items())


def translating(encoder: str = "transformer", **more: Any) -> dict[str, Any]:
    """Settings of a translator that trains in milliseconds; `more` by dotted key, with __ for the dot."""
    sizes = {"training__batch_tokens": 60, "training__steps": 3, "training__validate_every": 3, "model__dropout": 0.0}
    settings = tiny(encoder, **{**sizes, **more})
    return {key: value for key, value in settings.items() if key != "training.batch_size"}


def write_tmx(path: Path, rows: Sequence[tuple[str, str]], languages: tuple[str, str] = ("en", "fr")) -> Path:
    def side(language: str, text: str) -> str:
        return f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>'

    units = "\n".join(f"<tu>{side(languages[0], one)}{side(languages[1], other)}</tu>" for one, other in rows)
    head = f'<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="{languages[0]}"/><body>'
    path.write_text(f"{head}\n{units}\n</body></tmx>\n", encoding="utf-8")
    return path


def write_aligned(folder: Path, rows: Sequence[tuple[str, str]], name: str = "pairs") -> tuple[Path, Path]:
    """A file of sources, and one of targets."""
    files = folder / f"{name}.source.txt", folder / f"{name}.target.txt"
    for file, texts in zip(files, zip(*rows, strict=True), strict=True):
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return files


def letters_of(rows: Sequence[tuple[str, str]]) -> Tokenizer:
    """A tokenizer of both sides' characters."""
    return Tokenizer.train([text for row in rows for text in row], TokenizerSettings(kind="char"))


def pair_examples(rows: Sequence[tuple[str, str]], tokenizer: Tokenizer, context: int = 20) -> PairExamples:
    sources, targets = ([row[side] for row in rows] for side in (0, 1))
    pairs = Pairs("train", sources, targets, list(range(1, len(rows) + 1)), "rows")
    return encode_pairs(pairs, tokenizer, tokenizer, context=context, too_long="drop")
