"""Stories of she and he: the gold links are right, nothing but the name gives the deed away, and no place the name."""

from collections import Counter

import pytest

from glassformer.data.datasets.embedded import DATASETS, open_dataset
from glassformer.data.datasets.linked import DEEDS, MEN, STORIES, WOMEN, pronoun_links, pronoun_rows

LINKED = [(text, links["antecedent"]) for text, links in pronoun_links(rows=4000, seed=0)]
LINKS = [(text.split(), source, target) for text, links in LINKED for source, target in links]


def share(true: list[bool]) -> float:
    return sum(true) / len(true)


def test_everybody_has_a_deed_of_their_own() -> None:
    assert len(WOMEN) == len(MEN) == 12
    assert len(set(DEEDS.values())) == len(DEEDS) == 24
    assert not set(DEEDS) & set(DEEDS.values())


def test_a_link_leads_from_a_pronoun_to_the_one_it_stands_for() -> None:
    for words, source, target in LINKS:
        people = {"she": WOMEN, "he": MEN}[words[source]]
        assert target < source
        assert [word for word in words if word in people] == [words[target]]
        assert words[source + 1] == people[words[target]]


def test_every_pronoun_is_linked_and_comes_once() -> None:
    for text, links in LINKED:
        places = [place for place, word in enumerate(text.split()) if word in ("she", "he")]
        assert [source for source, _ in links] == places
        assert len({text.split()[place] for place in places}) == len(places) in (1, 2)


def test_a_deed_stands_only_after_a_pronoun() -> None:
    for text in pronoun_rows(rows=1009, seed=1):
        words = text.split()
        places = [place for place, word in enumerate(words) if word in DEEDS.values()]
        assert places
        assert all(words[place - 1] in ("she", "he") for place in places)


def test_no_place_gives_the_name_away() -> None:
    names = [[place for place, word in enumerate(words) if word in DEEDS] for words, _, _ in LINKS]
    assert all(len(places) == 2 for places in names)
    assert share([target == source - 1 for _, source, target in LINKS]) == 0
    assert share([target == 0 for _, _, target in LINKS]) < 0.2
    nearer = [target == max(places) for (_, _, target), places in zip(LINKS, names, strict=True)]
    assert 0.4 < share(nearer) < 0.6
    assert max(Counter(source - target for _, source, target in LINKS).values()) < 0.15 * len(LINKS)
    assert 0.4 < share([words[source] == "she" for words, source, _ in LINKS]) < 0.6


def test_the_stories_to_look_at_are_others() -> None:
    assert len(LINKED) == len({text for text, _ in LINKED}) == 400
    assert not {text for text, _ in LINKED} & set(pronoun_rows(rows=4000, seed=0))
    assert len(list(pronoun_links(rows=11, seed=0))) == 2


def test_stories_that_were_learned_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("meetings", "tellings", "places", "times", "often"):
        monkeypatch.setitem(STORIES, name, STORIES[name][:1])
    learned = set(pronoun_rows(rows=3000, seed=0))
    assert len(learned) == 3000
    assert not learned & {text for text, _ in pronoun_links(rows=3000, seed=0)}


def test_rows_are_different_and_hang_on_the_seed() -> None:
    rows = list(pronoun_rows(rows=2003, seed=3))
    assert len(set(rows)) == 2003
    assert rows == list(pronoun_rows(rows=2003, seed=3)) != list(pronoun_rows(rows=2003, seed=4))


def test_the_data_set_knows_its_links() -> None:
    dataset = open_dataset("pronouns:rows=50,seed=7")
    assert dataset.links is not None
    assert list(dataset.links()) == list(pronoun_links(rows=50, seed=7))
    assert [row for (row,) in dataset.rows()] == list(pronoun_rows(rows=50, seed=7))
    assert dataset.settings["tokenizer.kind"] == "word"
    assert [name for name, info in DATASETS.items() if info.links] == ["pronouns", "subject-object"]
    assert open_dataset("copy").links is None
