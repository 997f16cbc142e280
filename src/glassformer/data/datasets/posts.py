"""Posts to a social network, made from a seed: whether one goes viral lies in its text, its numbers, and luck."""

import re
from collections.abc import Iterator
from random import Random

COLUMNS = ("text", "hour", "followers", "hashtags", "links", "viral")

# How far a topic carries, and what is posted on it.
TOPICS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (1.5, (
        "my {pet} just learned to {trick}",
        "this {pet} waits at the {place} every day until the owner comes home",
        "the {pet} fell asleep on my {thing} and now I cannot move",
        "someone left a tiny {pet} at the {place} and it has found a family",
    )),
    (1.2, (
        "I cannot believe that the {place} charges {number} euros for a {thing}",
        "the {place} threw out an old man because of his {pet}, this is a scandal",
        "they want to close the {place} and nobody asked us, we have to stop this",
        "how can a {job} earn less than a {thing} costs, I am furious",
    )),
    (1.0, (
        "my {relative} called the {job} to repair a {thing} that was not plugged in",
        "today my {relative} asked me how to print the internet",
        "told my boss I was a {job} in a former life and now I have to prove it",
        "the {job} and my {pet} now have the same haircut",
    )),
    (0.8, (
        "breaking: the {place} is closed, {number} people had to leave",
        "just in: a {job} from our street has won {number} million",
        "breaking: a {pet} has stopped all trains between here and the {place}",
    )),
    (0.3, (
        "what would you do if your {relative} became a {job}?",
        "which is better, a {thing} or a {pet}? be honest",
        "am I the only one who talks to the {thing}?",
        "who remembers the {thing} we all had at school?",
    )),
    (0.0, (
        "after {few} years of evening school my {relative} is a {job} today",
        "{number} days without a {thing} and I feel like a new person",
        "a stranger paid for my {thing} today, be kind to each other",
    )),
    (-0.5, (
        "how to clean a {thing} in {number} minutes",
        "my way to make soup for {number} people with one {thing}",
        "three things a {job} never tells you about a {thing}",
    )),
    (-1.0, (
        "our new {thing} is now in the shop at the {place}",
        "we are looking for a {job} to join our team at the {place}",
        "only this week: a {thing} for {number} euros at our {place}",
        "visit us at the {place}, hall {number}",
    )),
    (-1.2, (
        "waiting at the {place} again, {number} minutes so far",
        "bought a {thing} today, it is fine",
        "had lunch with a {job} near the {place}",
        "back from the {place}, tired, going to bed",
        "another meeting about the {thing}, it took {number} minutes",
    )),
    (-1.0, (
        "some rain near the {place} this morning",
        "{warm} degrees and a bit of wind at the {place}",
        "grey sky again over the {place}",
    )),
)  # fmt: skip

OPENERS = (
    (0.6, "you will not believe this: "), (0.5, "unpopular opinion: "), (0.4, "omg, "), (0.3, "listen up, "),
    (0.0, "so, "), (0.0, "well, "), (-0.2, "for the record: "), (-0.4, "small update: "), (-0.4, "note to self: "),
)  # fmt: skip
ENDINGS = (
    (0.8, ", please share"), (0.6, ", share this if you agree"), (0.5, ", tag a friend who needs this"),
    (0.4, ", look at the video"), (0.1, ", what do you think?"), (0.0, ", who would have thought"),
    (-0.3, ", that is all"), (-0.4, ", more tomorrow perhaps"), (-0.5, ", anyway, good night"),
)  # fmt: skip
WORDS = {
    "pet": "kitten puppy parrot hedgehog rabbit duckling goat cat dog donkey penguin hamster",
    "trick": "dance|open doors|play football|say my name|ride a skateboard|answer the phone|sing|switch on the light",
    "place": "station|library|museum|town hall|airport|market|hospital|zoo|school|harbour|theatre|swimming pool",
    "thing": "laptop|coffee machine|umbrella|bicycle|sofa|toaster|phone|lamp|suitcase|dishwasher|radio|rucksack",
    "job": "teacher|nurse|baker|pilot|plumber|gardener|dentist|postman|waiter|judge|tailor|farmer",
    "relative": "grandmother grandfather mother father sister brother aunt uncle neighbour cousin",
    "few": "3 4 5 6 7 8 9",
    "warm": "4 9 12 15 18 21 24",
    "number": "3 5 7 12 15 20 25 30 40 45 50 60 80 90",
}
CHOICES = {name: words.split("|" if "|" in words else " ") for name, words in WORDS.items()}

LUCK = 1.1
"""The largest part of a post's fate that no column tells."""
BAR = 0.86
"""What a post must reach to go viral; it lets about a third of them through."""


def post_rows(rows: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Values in the order of COLUMNS; hashtags and links are counted, and not in the text."""
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
    """A post, and how far it carries."""
    carries, templates = random.choice(TOPICS)
    text = re.sub(r"\{(\w+)\}", lambda place: random.choice(CHOICES[place[1]]), random.choice(templates))
    if random.random() < 0.5:
        more, opener = random.choice(OPENERS)
        carries, text = carries + more, opener + text
    if random.random() < 0.5 and not text.endswith("?"):
        more, ending = random.choice(ENDINGS)
        carries, text = carries + more, text + ending
    return re.sub(r"\ba (?=[aeiou])", "an ", text), carries
