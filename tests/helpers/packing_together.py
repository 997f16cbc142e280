"""A process that packs a text of which others pack as well: python packing_together.py MOST.

Says `ready`, and begins when it is told a line. Hangs in the shard that it comes to after MOST characters (0: never).
At the end it prints how many characters it has encoded.
"""

import sys
import time
from random import Random
from typing import Any

from glassformer.config.sections import TokenizerSettings
from glassformer.data.io import source
from glassformer.data.io.source import Source
from glassformer.data.io.survey import survey
from glassformer.data.packing import packer
from glassformer.data.packing.store import Tokens, pack
from glassformer.data.split.documents import TextPart, whole_text
from glassformer.text.tokenizer import Tokenizer

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "nine", "red", "birds"]
random = Random(0)
TEXTS = [" ".join(random.choices(WORDS, k=random.randrange(1, 60))) for _ in range(197)]
TOKENIZER = Tokenizer.train(TEXTS, TokenizerSettings(kind="word"))
SMALL = {"CHUNK": (source, 40), "TOGETHER": (packer, 90), "SHARD": (packer, 400)}


def part_of(texts: list[str] = TEXTS) -> TextPart:
    return whole_text(survey(Source("rows", lambda: (iter([text]) for text in texts))), "train")


class Slow:
    """A tokenizer that takes its time, counts what it was given, and may hang."""

    def __init__(self, most: int = 0, seconds: float = 0.0) -> None:
        self.hash, self.vocab_size = TOKENIZER.hash, TOKENIZER.vocab_size
        self.start, self.end, self.unk = TOKENIZER.start, TOKENIZER.end, TOKENIZER.unk
        self.characters, self.most, self.seconds = 0, most, seconds

    def encode_batch(self, texts: list[str]) -> list[Any]:
        if self.most and self.characters >= self.most:
            print("hangs", flush=True)
            time.sleep(600)
        time.sleep(self.seconds)
        self.characters += sum(map(len, texts))
        return TOKENIZER.encode_batch(texts)


def packed(tokenizer: Any = TOKENIZER) -> Tokens:
    return pack(part_of(), tokenizer)


if __name__ == "__main__":
    for name, (module, value) in SMALL.items():
        setattr(module, name, value)
    print("ready", flush=True)
    sys.stdin.readline()
    slow = Slow(int(sys.argv[1]), seconds=0.01)
    packed(slow)
    print(slow.characters, flush=True)
