"""The words of the opinions: what a restaurant has, and what can be said of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Thing:
    """What an opinion is about, and the words that fit it."""

    noun: str
    number: str
    """one, some (what cannot be counted) or many."""
    good: tuple[str, ...]
    bad: tuple[str, ...]


VERBS_GOOD = ("loved", "enjoyed", "adored", "praised")
VERBS_BAD = ("hated", "disliked", "detested", "loathed")

GOOD = "good great lovely excellent wonderful superb delightful splendid marvellous brilliant impressive pleasant"
BAD = "bad awful terrible poor dreadful horrible disappointing mediocre miserable dismal appalling unpleasant"

FOOD = (f"{GOOD} delicious tasty fresh flavourful", f"{BAD} tasteless bland stale greasy")
PEOPLE = (f"{GOOD} kind friendly polite attentive helpful", f"{BAD} rude unfriendly grumpy careless arrogant")
SERVICE = (f"{GOOD} friendly attentive quick", f"{BAD} unfriendly careless slow")
PLACE = (f"{GOOD} cosy inviting elegant comfortable", f"{BAD} gloomy shabby dirty uncomfortable")
SIGHT = (f"{GOOD} charming cheerful elegant", f"{BAD} ugly dull gloomy")
MUSIC = (f"{GOOD} relaxing cheerful", f"{BAD} deafening dull")
PRICE = ("good great excellent pleasant fair reasonable", "bad awful terrible unpleasant unfair outrageous")
HOURS = (f"{GOOD} relaxing cheerful", f"{BAD} boring gloomy")

# A kind's number, its good and bad words, its nouns, and those of which only the test part speaks.
KINDS = (
    (
        "one",
        FOOD,
        "soup salad pizza curry dessert omelette sandwich pie burger starter stew",
        "risotto quiche casserole",
    ),
    ("some", FOOD, "food bread pasta fish rice chicken cheese cake", "lamb sushi"),
    ("many", FOOD, "vegetables noodles snacks pastries dumplings potatoes", "pancakes cookies"),
    ("many", PEOPLE, "waiters staff cooks hosts", "chefs bartenders"),
    ("some", SERVICE, "service", ""),
    ("one", PLACE, "terrace garden bar lounge cellar", "balcony courtyard"),
    ("one", SIGHT, "view fireplace", "fountain"),
    ("some", SIGHT, "decoration furniture", ""),
    ("many", SIGHT, "flowers paintings", "lamps"),
    ("some", MUSIC, "music", "jazz"),
    ("one", PRICE, "price bill", "discount"),
    ("many", PRICE, "prices", ""),
    ("one", HOURS, "evening lunch dinner meal breakfast party visit", "brunch banquet"),
)


def _things(nouns: int) -> tuple[Thing, ...]:
    return tuple(
        Thing(noun, number, tuple(good.split()), tuple(bad.split()))
        for number, (good, bad), *known_and_not in KINDS
        for noun in known_and_not[nouns].split()
    )


THINGS = _things(0)
TEST_THINGS = _things(1)

LITTLE_WORDS = {
    "one": {"a": "a ", "was": "was", "are": "is", "they": "it", "it": "it", "that": "that"},
    "some": {"a": "", "was": "was", "are": "is", "they": "it", "it": "it", "that": "that"},
    "many": {"a": "", "was": "were", "are": "are", "they": "they", "it": "them", "that": "those"},
}
"""The words that go with a thing, by its number."""

VERY = ("really ", "truly ", "quite ", "rather ", "", "", "", "")

DENIALS = ("not {} at all", "far from {}", "anything but {}", "hardly {}", "by no means {}")

OPENERS = (
    "to be honest, ", "I must say, ", "frankly, ", "in short, ", "well, ", "believe me, ", "all in all, ", "yes, ",
)  # fmt: skip
CLOSERS = (
    ", to be honest", ", I would say", ", if you ask me", ", I must say", ", believe me", ", and that is all",
    ", and I told them so", ", at least on a Sunday", ", a little to my surprise", ", and we were six at the table",
)  # fmt: skip
