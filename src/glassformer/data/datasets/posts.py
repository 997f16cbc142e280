"""Posts to a social network, made from a seed: whether one goes viral lies in its text, its numbers, and luck."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any

from glassformer.data.datasets.dataset import load_facts

FACTS = load_facts("posts")
LUCK = 1.1
"""The largest part of a post's fate that no column tells."""
BAR = 0.86
"""What a post must reach to go viral; it lets about a third of them through."""


def post_rows(rows: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield values in the order of the columns; hashtags and links are counted, and not in the text."""
    random = Random(f"posts {seed}")
    for _ in range(rows):
        text, carries = _text(random)
        hour = random.randrange(24)
        followers = int(10 ** (1 + 1.5 * (random.random() + random.random() + random.random())))
        hashtags, links = random.randrange(7), min(random.randrange(4), random.randrange(4))
        carries += 0.4 * (len(str(followers)) - 3) + (0.4 if 17 <= hour <= 22 else -0.4 if hour <= 5 else 0.0)
        carries += (0.2 if 1 <= hashtags <= 3 else -0.2) - 0.2 * links
        luck = LUCK * (random.random() + random.random() - 1)
        yield text, str(hour), str(followers), str(hashtags), str(links), "yes" if carries + luck > BAR else "no"


def _text(random: Random) -> tuple[str, float]:
    """Return a post, and how far it carries."""
    topic: dict[str, Any] = random.choice(FACTS["topics"])
    carries, words = topic["carries"], FACTS["words"]
    text = re.sub(r"\{(\w+)\}", lambda place: random.choice(words[place[1]]), random.choice(topic["posts"]))
    if random.random() < 0.5:
        opener = random.choice(FACTS["openers"])
        carries, text = carries + opener["carries"], opener["text"] + text
    if random.random() < 0.5 and not text.endswith("?"):
        ending = random.choice(FACTS["endings"])
        carries, text = carries + ending["carries"], text + ending["text"]
    return re.sub(r"\ba (?=[aeiou])", "an ", text), carries
