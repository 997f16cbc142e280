"""Pairs of texts from two files of lines, and from translation memories."""

import gzip
from pathlib import Path

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.io import reading
from glassformer.data.io.aligned import is_tmx, read_aligned, read_pairs, read_tmx
from glassformer.data.io.table import Table

BOTH = {"source": ["a cat", "two dogs"], "target": ["eine Katze", "zwei Hunde"]}


def message(read: object, *given: object) -> str:
    assert callable(read)
    with pytest.raises(DataError) as caught:
        read(*given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- two files, line by line ---


def two_files(folder: Path, one: str, other: str) -> tuple[str, str]:
    (folder / "a.en").write_text(one, encoding="utf-8", newline="")
    (folder / "a.de").write_text(other, encoding="utf-8", newline="")
    return str(folder / "a.en"), str(folder / "a.de")


def test_line_by_line(tmp_path: Path) -> None:
    files = two_files(tmp_path, "a cat\n\ntwo dogs\n", "eine Katze\r\nnichts\u2028hier\r\nzwei Hunde")
    table = read_aligned(*files, "utf-8")
    assert table.columns == {
        "source": ["a cat", "", "two dogs"],
        "target": ["eine Katze", "nichts\u2028hier", "zwei Hunde"],
    }
    assert table.lines == [1, 2, 3]
    assert table.name == f"{files[0]} and {files[1]}"
    assert table.remarks == ()


def test_lines_that_are_packed_or_of_another_encoding(tmp_path: Path) -> None:
    packed = tmp_path / "a.en.gz"
    packed.write_bytes(gzip.compress(b"caf\xe9\n"))
    other = tmp_path / "a.de"
    other.write_bytes(b"Caf\xe9\n")
    columns = read_aligned(str(packed), str(other), "latin-1").columns
    assert columns == {"source": ["café"], "target": ["Café"]}
    assert "try --data.encoding latin-1" in message(read_aligned, str(packed), str(other), "utf-8")
    assert message(read_aligned, str(packed), str(other), "utf-9").startswith("unknown encoding 'utf-9'")


def test_files_of_different_length(tmp_path: Path) -> None:
    files = two_files(tmp_path, "x\n" * 1001, "y\n" * 999 + "y")
    assert message(read_aligned, *files, "utf-8") == (
        f"{files[0]} has 1,001 lines and {files[1]} has 1,000: "
        "line n of one must be the translation of line n of the other"
    )
    assert "has 1 line and" in message(read_aligned, *two_files(tmp_path, "x", "y\ny"), "utf-8")
    assert "has 2 lines and" in message(read_aligned, *two_files(tmp_path, "x\n\n", "y\n"), "utf-8")


def test_files_that_are_none(tmp_path: Path) -> None:
    one, other = two_files(tmp_path, "", "")
    assert message(read_aligned, one, other, "utf-8") == f"{one} and {other} are empty: there is no text in them"
    assert message(read_aligned, one, str(tmp_path / "a.fr"), "utf-8").startswith("no file")
    assert message(read_aligned, str(tmp_path), other, "utf-8").startswith(f"{tmp_path} is no file")
    assert message(read_aligned, "reverse", other, "utf-8").startswith("reverse is no file")


# --- translation memories ---


def unit(**texts: str) -> str:
    inside = "".join(f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{t}</seg></tuv>' for code, t in texts.items())
    return f"<tu>{inside}</tu>\n"


def tmx(folder: Path, *units: str, srclang: str = "en", name: str = "a.tmx", before: str = "") -> str:
    header = f'<header srclang="{srclang}"/>'
    text = f'<?xml version="1.0"?>\n{before}<tmx version="1.4">{header}<body>\n{"".join(units)}</body></tmx>'
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(file)


CAT = unit(en="a cat", de="eine Katze")
DOGS = unit(de="zwei Hunde", en="two dogs")


@pytest.mark.parametrize("name", ["a.tmx", "a.TMX", "a.tmx.gz"])
def test_a_translation_memory(tmp_path: Path, name: str) -> None:
    file = tmx(tmp_path, CAT, DOGS, name=name)
    table = read_tmx(file)
    assert table.columns == BOTH
    assert table.lines == [3, 4]
    assert table.name == file
    assert table.remarks == ("from en to de (--source, --target)",)


def test_which_files_are_translation_memories() -> None:
    assert [is_tmx(name) for name in ("a.tmx", "b/a.TMX.gz", "tmx", "a.tmx.csv")] == [True, True, False, False]


def test_any_pairs(tmp_path: Path) -> None:
    settings = DataSettings(source="de", target="en")
    assert read_pairs(tmx(tmp_path, CAT, DOGS), settings).columns == {
        "source": BOTH["target"],
        "target": BOTH["source"],
    }
    table = tmp_path / "a.tsv"
    table.write_text("de\ten\nKatze\tcat\n")
    assert read_pairs(str(table), settings).columns == {"de": ["Katze"], "en": ["cat"]}


@pytest.mark.parametrize(
    ("srclang", "first"),
    [("en", "a cat"), ("EN-us", "a cat"), ("de", "eine Katze"), ("*all*", "eine Katze"), ("", "eine Katze")],
)
def test_the_source_is_the_headers_or_the_first(tmp_path: Path, srclang: str, first: str) -> None:
    table = read_tmx(tmx(tmp_path, unit(de="eine Katze", en="a cat"), srclang=srclang))
    assert table.columns["source"] == [first]


def test_languages_that_are_asked_for(tmp_path: Path) -> None:
    three = unit(en_US="a cat", de="eine Katze", fr="un chat")
    file = tmx(tmp_path, three, unit(en_US="a dog", fr="un chien"), unit(de="ein Hund"), unit(en_US="two", de="zwei"))

    def read(source: str | None, target: str | None) -> tuple[list[str], list[str], tuple[str, ...]]:
        table = read_tmx(file, source, target)
        return table.columns["source"], table.columns["target"], table.remarks

    assert read("en", "fr") == (
        ["a cat", "a dog"],
        ["un chat", "un chien"],
        ("from en to fr (--source, --target)", "left out: 2 units without a text in en or fr"),
    )
    assert read("de", "en-us")[:2] == (["eine Katze", "zwei"], ["a cat", "two"])
    assert read("DE", "fr") == (
        ["eine Katze"],
        ["un chat"],
        ("from de to fr (--source, --target)", "left out: 3 units without a text in de or fr"),
    )
    many = f"{file} has texts in en-US, de, fr: choose two languages with --source and --target"
    assert message(read_tmx, file) == message(read_tmx, file, "en") == many
    assert message(read_tmx, file, None, "en") == many
    assert message(read_tmx, file, "en", "es") == (
        f"{file}: no text in 'es' (languages: en-US, de, fr): name one with --target"
    )
    assert "no text in 'e' (languages" in message(read_tmx, file, "e", "de")
    assert message(read_tmx, file, "en", "en_us") == many


def test_one_of_two_languages_is_asked_for(tmp_path: Path) -> None:
    file = tmx(tmp_path, CAT, DOGS)
    backwards = {"source": BOTH["target"], "target": BOTH["source"]}
    assert read_tmx(file, "de").columns == read_tmx(file, None, "en").columns == backwards
    assert read_tmx(file, "en").columns == read_tmx(file, None, "de-DE").columns == BOTH


def test_kinds_of_one_language(tmp_path: Path) -> None:
    file = tmx(
        tmp_path, unit(en_GB="lorry", de="Laster"), unit(en_US="truck", en_GB="lorry", de="Lkw"), srclang="en-US"
    )
    assert read_tmx(file).columns == {"source": ["lorry", "truck"], "target": ["Laster", "Lkw"]}
    assert read_tmx(file, "en-GB").columns["source"] == ["lorry", "lorry"]
    assert read_tmx(file, "en_us", "en_gb").columns == {"source": ["truck"], "target": ["lorry"]}
    exact = tmx(tmp_path, unit(en="one", en_US="two", de="b"))
    assert read_tmx(exact, "en-US", "de").columns["source"] == ["two"]
    twice = tmx(tmp_path, "<tu><tuv lang='en'><seg>a</seg></tuv><tuv lang='de'><seg>b</seg></tuv>"
                "<tuv lang='de'><seg>c</seg></tuv></tu>")  # fmt: skip
    assert read_tmx(twice).columns == {"source": ["a"], "target": ["b"]}


def test_what_a_text_may_hold(tmp_path: Path) -> None:
    one = "a <hi>big</hi> &lt;cat&gt;<bpt i='1'>{\\b </bpt> &amp;<ph>x<sub>y</sub></ph> dog<it pos='begin'>z</it>"
    file = tmx(tmp_path, unit(en=one, de="\n   eine\n   Katze\u00a0! \n"), "<note>no text</note>")
    assert read_tmx(file).columns == {"source": ["a big <cat> & dog"], "target": ["eine Katze\u00a0!"]}
    half = unit(en="", de="leer") + "<tu><tuv><seg>of no language</seg></tuv><prop>p</prop></tu>"
    table = read_tmx(tmx(tmp_path, CAT, half))
    assert table.columns["source"] == ["a cat", ""]
    assert table.remarks[1:] == ("left out: 1 unit without a text in en or de",)


def test_namespaces_and_both_names_of_the_language(tmp_path: Path) -> None:
    file = tmp_path / "a.tmx"
    file.write_text(
        '<t:tmx xmlns:t="urn:x"><t:header srclang="de"/><t:body><t:tu>'
        '<t:tuv lang="xx" xml:lang="en"><t:seg>a</t:seg></t:tuv><t:tuv lang="de"><t:seg>b</t:seg></t:tuv>'
        "</t:tu></t:body></t:tmx>"
    )
    table = read_tmx(str(file))
    assert table.columns == {"source": ["b"], "target": ["a"]}
    assert table.remarks == ("from de to en (--source, --target)",)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "windows-1252"])
def test_a_file_says_its_encoding(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "a.tmx"
    file.write_bytes(
        f'<?xml version="1.0" encoding="{encoding}"?><tmx>{unit(en="tea", de="Käse")}</tmx>'.encode(encoding)
    )
    assert read_tmx(str(file)).columns["target"] == ["Käse"]


def test_blocks_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmx(tmp_path, *[unit(en=f"cat {n} ä", de=f"Katze {n} ö") for n in range(7)])
    whole = read_tmx(file)
    assert len(whole) == 7
    monkeypatch.setattr(reading, "BLOCK", 3)
    assert read_tmx(file).columns == whole.columns
    assert read_tmx(file).lines == whole.lines == list(range(3, 10))


def test_damaged_files(tmp_path: Path) -> None:
    file = tmx(tmp_path, CAT, "<tu>\n<tuv></tu>")
    assert message(read_tmx, file) == f"{file}, line 5: damaged XML: mend it, or save it again (mismatched tag)"
    Path(file).write_text("<tmx>\n<body>")
    assert message(read_tmx, file).startswith(f"{file}, line 2: damaged XML: ")
    Path(file).write_text("no XML")
    assert message(read_tmx, file).startswith(f"{file}, line 1: damaged XML")
    Path(file).write_text("")
    assert "(no element found)" in message(read_tmx, file)
    Path(file).write_text("<html>\n<tu/></html>")
    assert message(read_tmx, file) == f"{file}, line 1: no TMX file: it begins with <html>, not <tmx>"
    Path(file).write_text('<?xml version="1.0" encoding="big5"?><tmx/>')
    assert message(read_tmx, file) == f"{file}: an encoding that cannot be read here: save it as UTF-8"
    Path(file).write_text('<?xml version="1.0" encoding="klingon"?><tmx/>')
    assert message(read_tmx, file).startswith(str(file))
    packed = tmx(tmp_path, CAT, name="a.tmx.gz")
    Path(packed).write_bytes(Path(packed).read_bytes()[:-9])
    assert "is damaged, or no gzip file" in message(read_tmx, packed)


def test_entities_are_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE tmx [\n<!ENTITY a "aaaa">\n<!ENTITY b "&a;&a;">]>\n'
    file = tmx(tmp_path, unit(en="&b;", de="x"), before=bomb)
    assert message(read_tmx, file) == (
        f"{file}, line 3: declares an entity ('a'), which can make a file boundless: take it out"
    )
    outside = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    assert read_tmx(tmx(tmp_path, CAT, DOGS, before=outside)).columns == BOTH
    file = tmx(tmp_path, unit(en="a&nbsp;b", de="x"), before=outside)
    assert message(read_tmx, file) == f"{file}, line 4: an entity that is not known: &nbsp;"


def test_memories_without_pairs(tmp_path: Path) -> None:
    file = tmx(tmp_path)
    assert message(read_tmx, file) == f"{file} is empty: there is no text in it"
    file = tmx(tmp_path, unit(en="a"), unit(en="b"))
    alone = f"{file} has texts in en: choose two languages with --source and --target"
    assert message(read_tmx, file) == message(read_tmx, file, "en") == alone
    file = tmx(tmp_path, unit(en="a"), unit(de="b"))
    assert message(read_tmx, file).startswith(f"{file}: no unit has a text in en and one in de")
    assert message(read_tmx, str(tmp_path / "b.tmx")).startswith("no file")
    assert isinstance(read_tmx(tmx(tmp_path, CAT)), Table)
