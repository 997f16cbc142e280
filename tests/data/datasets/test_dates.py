import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from random import Random
from types import SimpleNamespace

import pytest
from babel import Locale
from babel.dates import format_date, format_skeleton

from glassformer.data.datasets import dates
from glassformer.data.datasets.dates import LANGUAGES, Way, held_out_years, meanings, ways_of_writing
from glassformer.data.datasets.embedded import DATASETS, open_dataset

LAST_OF_MAY = date(2024, 5, 31)


def rows(spec: str) -> list[tuple[str, ...]]:
    return list(open_dataset(spec).rows())


def test_rows() -> None:
    dataset = open_dataset("dates:rows=1009,seed=3")
    assert dataset.test is not None
    for source, target in [*dataset.rows(), *dataset.test()]:
        assert date.fromisoformat(target).isoformat() == target
        year = "".join(str(unicodedata.digit(letter)) for letter in source if letter.isdigit())
        assert target[:4] in year
        assert source == unicodedata.normalize("NFC", source).strip()
        assert not re.search(r"[^\S ]|  ", source)
        assert not [letter for letter in source if unicodedata.category(letter) in ("Cf", "Cc") and letter != "\u200c"]


def test_no_more_languages_than_there_are_can_be_asked_for() -> None:
    assert DATASETS["dates"].most["languages"] == len(LANGUAGES)


@pytest.mark.parametrize("seed", [0, 7])
def test_the_test_has_years_of_its_own(seed: int) -> None:
    dataset = open_dataset(f"dates:rows=6000,seed={seed}")
    assert dataset.test is not None
    learned, tested = ({int(target[:4]) for _, target in part} for part in (dataset.rows(), dataset.test()))
    assert len(learned) == 160
    assert tested == held_out_years(seed)
    assert len(tested) == 40
    assert learned | tested == set(range(1900, 2100))


def test_other_seeds_hold_out_other_years() -> None:
    assert held_out_years(0) == held_out_years(0) != held_out_years(1)


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("English", {"Friday, May 31, 2024", "May 31, 2024", "31 May 2024", "Fri, 31 May 2024", "5/31/2024"}),
        ("German", {"Freitag, 31. Mai 2024", "31.5.2024", "31.05.2024"}),
        ("Spanish", {"31 de mayo de 2024", "viernes, 31 de mayo de 2024"}),
        ("Russian", {"пятница, 31 мая 2024 г."}),
        ("Chinese", {"2024年5月31日星期五", "2024年5月31日 星期五"}),
        ("Arabic", {"الجمعة، 31 مايو 2024", "الجمعة، ٣١ مايو ٢٠٢٤", "31/05/2024"}),
        ("Persian", {"جمعه ۳۱ مهٔ ۲۰۲۴", "۲۰۲۴/۵/۳۱"}),
        ("Hindi", {"31 मई 2024", "३१ मई २०२४"}),
        ("Bengali", {"৩১ মে, ২০২৪"}),
        ("Thai", {"วันศุกร์ที่ 31 พฤษภาคม ค.ศ. 2024"}),
        ("Hungarian", {"2024. május 31., péntek"}),
    ],
)
def test_ways_of_writing(language: str, written: set[str]) -> None:
    assert written <= {way.write(LAST_OF_MAY) for way in ways_of_writing(language)}


def test_what_nobody_types_goes() -> None:
    pattern = SimpleNamespace(apply=lambda day, locale: "\u200f3\u200e/ e\u0301\u00a0\u202f7\u200ca ")
    assert Way(Locale("fa"), pattern, {ord("7"): "۷"}).write(LAST_OF_MAY) == "3/ é ۷\u200ca"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_year_is_whole_and_names_are_long_enough(language: str) -> None:
    ways = ways_of_writing(language)
    assert len(ways) >= 4
    for way in ways:
        assert len(re.findall(r"\d+", way.write(LAST_OF_MAY))) in (2, 3)
        assert "2024" in way.write(LAST_OF_MAY).translate({ord(own): digit for digit, own in _turned(way)})
    assert not any(re.search("yy(?!yy)|M{5}|E{5}", re.sub("'.*?'", "", way.pattern.pattern)) for way in ways)


def _turned(way: Way) -> list[tuple[str, str]]:
    return [(chr(digit), own) for digit, own in way.digits.items()]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("05/06/2024", {"2024-06-05", "2024-05-06"}),
        ("Sun, 5/6/2024", {"2024-06-05", "2024-05-06"}),
        ("06/06/2024", {"2024-06-06"}),
        ("31/05/2024", {"2024-05-31"}),
        ("5/31/2024", {"2024-05-31"}),
        ("05.06.2024", {"2024-06-05"}),
        ("2024/5/6", {"2024-05-06"}),
        ("30/2/2024", set()),
        ("6 Mai 2024", {"2024-05-06"}),
        ("2024-05-06", {"2024-05-06"}),
        ("sometime in 2024", set()),
    ],
)
def test_meanings(text: str, days: set[str]) -> None:
    assert {day.isoformat() for day in meanings(text)} == days


def plain(text: str) -> str:
    """With the digits 0 to 9, and without what cannot be seen."""
    text = "".join(str(unicodedata.digit(letter)) if letter.isdigit() else letter for letter in text)
    return re.sub(r"\s+", " ", re.sub("[\u200e\u200f]", "", unicodedata.normalize("NFC", text)))


def every_writing(day: date) -> Iterator[str]:
    """What Babel itself writes in any of the languages, the year in four digits."""
    for place in (place for places in LANGUAGES.values() for place in places):
        yield from (format_date(day, size, locale=place) for size in ("full", "long", "medium", "short"))
        names = [name for name in Locale.parse(place).datetime_skeletons if set(name) - {"E"} == set("yMd")]
        yield from (format_skeleton(name, day, locale=place) for name in names)


@pytest.mark.slow
def test_no_text_means_two_dates_in_any_language() -> None:
    """By brute force: all that can be written of all days of a year whose number could be a month's, and some more."""
    found: dict[str, set[str]] = defaultdict(set)
    days = [date(2024, month, day) for month in range(1, 13) for day in range(1, 16)]
    for day in days:
        for written in {plain(text) for text in every_writing(day)}:
            for text in (written, re.sub(" ?[,،]", "", written)):
                for cased in (text, text.lower(), text[0].title() + text[1:]):
                    found[cased].add(day.isoformat())
    assert found["5/6/2024"] == {"2024-05-06", "2024-06-05"}
    for source, target in dates._rows(20_000, Random(0), [2024], len(LANGUAGES)):
        if date.fromisoformat(target) in days:
            assert found[plain(source)] == {target}, source


def speakers(source: str, day: date) -> set[str]:
    """The languages in which a date can be written so."""
    same = source.lower().replace(",", "").replace("،", "")
    return {
        language
        for language in LANGUAGES
        for way in ways_of_writing(language)
        if way.write(day).lower().replace(",", "").replace("،", "") == same
    }


@pytest.mark.slow
def test_as_many_languages_as_asked_for() -> None:
    def only(spec: str) -> set[str]:
        found = (speakers(source, date.fromisoformat(target)) for source, target in rows(spec))
        return {language for languages in found if len(languages) == 1 for language in languages}

    names = list(LANGUAGES)
    assert len(names) == 40
    assert only("dates:rows=100,languages=3") == set(names[:3])
    assert set(names[:29]) <= only("dates:rows=500") <= set(names[:30])  # Danish is written much like Norwegian
    assert {"Georgian", "Armenian", "Tamil", "Marathi"} <= only("dates:rows=200,languages=40")


def test_case_commas_and_digits_vary() -> None:
    english = [source for source, _ in rows("dates:rows=3000,languages=1")]
    words = [source for source in english if re.search("[A-Za-z]{3}", source)]
    lower = sum(source == source.lower() for source in words) / len(words)
    assert 0.2 < lower < 0.3
    days = [source for source in english if re.match("[A-Za-z]+day", source)]
    assert 0.2 < sum("," not in source for source in days) / len(days) < 0.3
    all_kinds = "".join(source for source, _ in rows("dates:rows=3000"))
    assert all(zero in all_kinds for zero in "0٠۰০०๐")
    assert re.search("Пятница|Vendredi|Viernes|Venerdì|Piątek|Perjantai", all_kinds)


def test_alignments_link_year_month_and_day() -> None:
    aligned = list(open_dataset("dates:rows=3000").alignments())  # type: ignore[misc]
    assert len({pair.source for pair in aligned}) == 300
    assert not {pair.source for pair in aligned} & {source for source, _ in rows("dates:rows=3000")}
    years, months = dates.held_out_years(0), set()
    for pair in aligned:
        year, month, day = (
            pair.source[slice(*pair.source_spans[source])] for source, _ in sorted(pair.sure, key=lambda link: link[1])
        )
        said = date.fromisoformat(pair.target)
        assert said.year in years
        assert (int(year), int(day)) == (said.year, said.day)
        assert not month.isdecimal() or int(month) == said.month
        assert [pair.target[slice(*span)] for span in pair.target_spans] == pair.target.split("-")
        covered = "".join(pair.source[slice(*span)] for span in pair.source_spans)
        assert covered.replace(" ", "") == pair.source.replace(" ", "")
        months.add(month.lower())
    assert {"juin", "maart", "марта", "mai"} & months


def test_spans_of_a_marked_text() -> None:
    for way in ways_of_writing("German"):
        text, (year, _, day) = dates.unmark(way.write_marked(date(2021, 8, 7)))
        assert text == way.write(date(2021, 8, 7))
        assert text.isprintable()  # the marks are not
        assert (text[slice(*year)], int(text[slice(*day)])) == ("2021", 7)
    assert dates.unmark("Freitag, \ue0029\ue002. \ue001Mai\ue001 \ue0001989\ue000") == (
        "Freitag, 9. Mai 1989",
        [(16, 20), (12, 15), (9, 10)],
    )
