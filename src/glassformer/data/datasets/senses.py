"""Short texts around a word of two meanings, made from a seed: which one is meant lies in the words that stand before.

All senses share their sentences; each has its own things and deeds. The word itself stands once in a text, and what it
does follows it: who guesses that must have found out what it means here.
"""

from collections.abc import Iterator, Sequence
from random import Random

COLUMNS = ("text", "word", "sense")

# A word's senses, the things that come with each, and what the word then does.
SENSES: dict[str, dict[str, tuple[str, str]]] = {
    "bank": {
        "river": (
            "river boat reeds heron ferry fish canoe ducks stream willow",
            "sloped down to the shore, lay in the shade, turned to mud, swarmed with frogs",
        ),
        "money": (
            "loan cashier mortgage savings cheque account debt interest vault clerk",
            "lent too much, closed at four, raised its fees, asked for a signature",
        ),
    },
    "bat": {
        "animal": (
            "cave night wings moth attic dusk echo insects belfry claws",
            "flew away, slept upside down, hunted in the dark, squeaked",
        ),
        "sport": (
            "ball innings umpire team stadium helmet glove league swing crowd",
            "broke in two, slipped from his hands, cost a fortune, hit nothing",
        ),
    },
    "spring": {
        "season": (
            "blossoms lambs sunshine tulips swallows buds rain meadow winter picnic",
            "came early, made everybody happy, smelled of flowers, ended with a storm",
        ),
        "coil": (
            "mattress metal clockwork steel lever hinge watch screw trap gears",
            "snapped, stretched by an inch, lost its tension, rusted",
        ),
    },
    "pitcher": {
        "jug": (
            "lemonade glass table water ice handle kitchen juice tray cups",
            "stood on the shelf, had a crack, leaked, held two quarts",
        ),
        "player": (
            "mound catcher fastball season batter strikeout base coach bullpen fans",
            "threw too high, hurt his elbow, won the game, wore a cap",
        ),
    },
    "crane": {
        "bird": (
            "marsh nest feathers eggs lake chick beak flock pond swamp",
            "stretched its neck, went south, danced at dawn, waded in the mud",
        ),
        "machine": (
            "harbour concrete containers hook builders scaffold cargo tower girder site",
            "lifted ten tons, turned slowly, needed oil, blocked the road",
        ),
    },
    "mouse": {
        "animal": (
            "cat cheese hole barn tail whiskers cellar grain owl crumbs",
            "ran under the stove, nibbled at the bread, hid in the straw, escaped",
        ),
        "computer": (
            "keyboard screen cable laptop desk printer cursor button file program",
            "stopped clicking, lay on its pad, worked again, had no battery",
        ),
    },
    "bark": {
        "tree": (
            "oak trunk forest birch branch beetles moss pine timber roots",
            "peeled off, felt rough, tasted bitter, dripped with resin",
        ),
        "dog": (
            "puppy leash kennel terrier postman bone fence burglar hound paws",
            "woke the neighbours, sounded angry, echoed for miles, grew louder",
        ),
    },
    "palm": {
        "tree": (
            "beach coconut island sand oasis desert lagoon camel dates hammock",
            "gave a little shade, bent in the storm, bore fruit, reached the roof",
        ),
        "hand": (
            "fingers thumb wrist ring skin bracelet fist knuckles nails scar",
            "itched, told the future, opened slowly, bled a little",
        ),
    },
}

VERBS: dict[str, dict[str, tuple[str, str]]] = {
    "bank": {
        "rely": (
            "promise forecast rumour odds wager plan chance poll hope oracle",
            "on the result, upon his word, too much on that, again on good weather",
        ),
    },
}
"""Senses in which the word is a verb: typical nouns of each, and endings of the sentence."""
VERB_TURNS = (
    "{who} should not {word} {does} .",
    "{when} {who} should not {word} {does} .",
    "one must not {word} {does} .",
)

SCENES = (
    "{who} spoke of the {a} and the {b} .",
    "{when} {who} saw the {a} , then the {b} .",
    "first came the {a} , then the {b} and the {c} .",
    "{when} {who} drew the {a} .",
    "{who} remembered the {a} .",
    "there was a story about the {a} , the {b} and the {c} .",
    "{when} {who} painted the {a} beside the {b} .",
)
TURNS = ("the {word} {does} .", "{who} said that the {word} {does} .", "{when} the {word} {does} .")
ENDINGS = ("", "", "nobody minded .", "nobody forgot the {d} .", "{who} laughed .")
WHO = ("she", "he", "we", "they", "my aunt", "the old man", "our neighbours", "somebody")
WHEN = ("yesterday", "last week", "one morning", "at noon", "that day", "long ago")


def sense_rows(rows: int, seed: int, verbs: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield distinct texts, each with its ambiguous word and the sense of that word, such as bank/river.

    `verbs` 1 adds the sense bank/rely, in which *bank* is a verb: "they should not bank on the result".
    """
    random = Random(f"senses {seed}")
    seen: set[str] = set()
    while len(seen) < rows:
        word = random.choice(list(SENSES))
        senses = {**SENSES[word], **(VERBS.get(word, {}) if verbs else {})}
        sense = random.choice(list(senses))
        text = _text(random, word, *senses[sense], turns=TURNS if sense in SENSES[word] else VERB_TURNS)
        if text not in seen:
            seen.add(text)
            yield text, word, f"{word}/{sense}"


def _text(random: Random, word: str, things: str, deeds: str, *, turns: Sequence[str]) -> str:
    a, b, c, d = random.sample(things.split(), 4)
    does = random.choice(deeds.split(", "))
    parts = (random.choice(SCENES), random.choice(turns), random.choice(ENDINGS))
    filled = (
        part.format(a=a, b=b, c=c, d=d, word=word, does=does, who=random.choice(WHO), when=random.choice(WHEN))
        for part in parts
    )
    return " ".join(filter(None, filled))
