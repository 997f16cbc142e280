"""Sentences of a visit: the present hangs on who visits whom, and neither of them alone tells it."""

from collections import Counter, defaultdict

from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.datasets.linked import PEOPLE, PRESENTS, subject_object_links, subject_object_rows

ROWS = list(subject_object_rows(rows=2000, seed=0))
LINKED = list(subject_object_links(rows=2000, seed=0))


def test_links_lead_from_the_verb_to_its_subject_and_object() -> None:
    for text, relations in LINKED:
        words = text.split()
        ((verb, subject),), ((same, host),) = relations["subject"], relations["object"]
        assert verb == same
        assert words[verb] == "brought"
        assert words[verb + 1] == PRESENTS[words[subject], words[host]]
        assert subject < words.index("visited") < host < verb
        named = [word for word in words if word in PEOPLE]
        assert [named[0], named[2]] == [words[subject], words[host]]
        assert len(set(named)) == len(named) == 3


def test_one_person_alone_does_not_tell_the_present() -> None:
    assert len(set(PRESENTS.values())) == len(PRESENTS) == 30
    brought = defaultdict(Counter)
    for text, relations in LINKED:
        words = text.split()
        for relation, ((verb, place),) in relations.items():
            brought[relation, words[place]][words[verb + 1]] += 1
    assert len(brought) == 2 * len(PEOPLE)
    assert all(max(counts.values()) < 0.6 * counts.total() for counts in brought.values())


def test_no_place_is_always_right() -> None:
    for relation in ("subject", "object"):
        steps = Counter(source - target for _, links in LINKED for source, target in links[relation])
        assert 1 not in steps
        assert max(steps.values()) < 0.6 * len(LINKED)


def test_sentences_to_look_at_are_others() -> None:
    assert len(set(ROWS)) == 2000
    assert len(LINKED) == 200
    assert not {text for text, _ in LINKED} & set(ROWS)
    assert list(subject_object_rows(rows=50, seed=1)) != ROWS[:50] == list(subject_object_rows(rows=50, seed=0))
    dataset = open_dataset("subject-object:rows=50,seed=7")
    assert dataset.links is not None
    assert list(dataset.links()) == list(subject_object_links(rows=50, seed=7))
