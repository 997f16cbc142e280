"""Links between words: read or refused in one line, found among any tokens, scored exactly on hand-made heads."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import TokenizerSettings
from glassformer.inspection.views.links import (
    LinkedText,
    LinkScores,
    link_scores,
    links_view,
    read_links,
    words_of,
)
from glassformer.rendering.panels import Grid, Table
from glassformer.text.tokenizer import Tokenizer

TEXT = "Mara met  Tobin, at the market .\nHe’s fishing — she isn't !"
WORDS = TEXT.split()
KINDS = ["char", "word", "bpe"]


def tokenizer_of(kind: str, *texts: str, lowercase: bool = False) -> Tokenizer:
    return Tokenizer.train([*texts, TEXT] * 3, TokenizerSettings(kind=kind, lowercase=lowercase))


# --- reading ---


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_file_of_links(tmp_path: Path) -> None:
    one, other = {"text": "a b c", "links": [[2, 0], [0, 1]]}, {"text": "d é", "links": [], "from": "somewhere"}
    path = write(tmp_path / "links.jsonl", json.dumps(one), "", json.dumps(other, ensure_ascii=False), "")
    assert read_links(path) == [LinkedText("a b c", {"": [(2, 0), (0, 1)]}), LinkedText("d é", {"": []})]
    assert read_links(str(path)) == read_links(path)


def test_links_of_several_relations(tmp_path: Path) -> None:
    one = {"text": "a b c", "links": {"subject": [[1, 0]], "object": [[1, 2], [2, 0]]}}
    path = write(tmp_path / "links.jsonl", json.dumps(one), '{"text": "d e", "links": {"object": [[1, 0]]}}')
    first, second = read_links(path)
    assert first == LinkedText("a b c", {"subject": [(1, 0)], "object": [(1, 2), (2, 0)]})
    assert first.named_links() == [("subject", 1, 0), ("object", 1, 2), ("object", 2, 0)]
    assert second.named_links() == [("object", 1, 0)]
    write(path, json.dumps(one), '{"text": "a b", "links": [[1, 0]]}')
    with pytest.raises(DataError, match="some links name their relation and some do not"):
        read_links(path)
    write(path, '{"text": "a b", "links": {"subject": [[1, 0], [0, 2]]}}')
    with pytest.raises(DataError, match=r"line 1: \[0, 2\] must name two different words"):
        read_links(path)


def test_links_that_come_along() -> None:
    linked = read_links("pronouns:rows=200,seed=3")
    assert len(linked) == 20
    assert {relation for one in linked for relation in one.links} == {"antecedent"}
    for one in linked:
        words = one.text.split()
        assert {words[source] for source, _ in one.links["antecedent"]} <= {"she", "he"}


FORM = '{"text": "mara met tobin . he fishes", "links": [[4, 2]]}'
NOT_LINKS = [
    '{"text": "a b"',
    '["a b", [[0, 1]]]',
    '{"txt": "a b", "links": []}',
    '{"text": "a b"}',
    "{}",
    "7",
    '{"text": 7, "links": []}',
    '{"text": " ", "links": []}',
    '{"text": "a \\ud800", "links": []}',
    '{"text": "a b", "links": {"0": 1}}',
    '{"text": "a b", "links": 1}',
    '{"text": "a b", "links": [[0, 1], 1]}',
    '{"text": "a b", "links": [[0]]}',
    '{"text": "a b", "links": [[0, 1.0]]}',
    '{"text": "a b", "links": [[0, true]]}',
]
OUT_OF_RANGE = "must name two different words of the text"
WRONG: dict[str, str] = {
    **{line: f"write a line such as {FORM}, not {line}" for line in NOT_LINKS},
    '{"text": "a b", "links": [[1, 2]]}': f"[1, 2] {OUT_OF_RANGE}, which has 2 words, counted from 0",
    '{"text": "a", "links": [[-1, 0]]}': f"[-1, 0] {OUT_OF_RANGE}, which has 1 word, counted from 0",
    '{"text": "a b", "links": [[1, 1]]}': f"[1, 1] {OUT_OF_RANGE}, which has 2 words, counted from 0",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named(line: str, tmp_path: Path) -> None:
    path = write(tmp_path / "links.jsonl", '{"text": "a b", "links": [[1, 0]]}', "", line)
    with pytest.raises(DataError) as caught:
        read_links(path)
    assert str(caught.value) == f"{path}, line 3: {WRONG[line]}"


def test_files_that_hold_no_links(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file 'nowhere' and no data set of that name"):
        read_links("nowhere")
    with pytest.raises(DataError) as caught:
        read_links("copy")
    message = "the data set 'copy' has no links: use pronouns, subject-object, dates, or a .jsonl file of links"
    assert str(caught.value) == message
    with pytest.raises(DataError) as caught:
        read_links(tmp_path)
    assert str(caught.value) == f"{tmp_path} is a folder: links come from a .jsonl file, a line such as {FORM}"
    for lines in ([""], ['{"text": "a b", "links": []}']):
        path = write(tmp_path / "none.jsonl", *lines)
        with pytest.raises(DataError) as caught:
            read_links(path)
        assert str(caught.value) == f"{path} holds no links: write a line such as {FORM}"


# --- words among tokens ---


def framed(tokenizer: Tokenizer, text: str = TEXT) -> list[int]:
    assert tokenizer.start is not None
    assert tokenizer.end is not None
    return [tokenizer.start, *tokenizer.encode(text), tokenizer.end]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [True, False], ids=["start", "bare"])
def test_the_tokens_of_a_word_spell_it(kind: str, start: bool) -> None:
    tokenizer = tokenizer_of(kind)
    ids = framed(tokenizer) if start else tokenizer.encode(TEXT)
    words = words_of(TEXT, tokenizer, ids)
    assert len(words) == len(WORDS)
    for word, places in zip(WORDS, words, strict=True):
        assert places == list(range(places[0], places[0] + len(places)))
        assert b"".join(tokenizer.token_bytes(ids[place]) for place in places).decode().strip() == word
    flat = [place for places in words for place in places]
    assert flat == sorted(set(flat))


def test_letters_folded_and_unknown_words_keep_their_places() -> None:
    tokenizer = tokenizer_of("word", lowercase=True)
    text = "MARA met ZZZ, he !"
    assert words_of(text, tokenizer, framed(tokenizer, text)) == [[1], [2], [3, 4], [5], [6]]


def test_a_character_of_several_bytes_is_one_word() -> None:
    tokenizer = tokenizer_of("bpe")
    text = "a 市 b"
    words = words_of(text, tokenizer, framed(tokenizer, text))
    assert [len(places) for places in words] == [1, 3, 1]  # its bytes, and not the blank before them


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_that_was_cut_has_no_places(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    ids = framed(tokenizer)
    whole = words_of(TEXT, tokenizer, ids)
    assert all(whole)
    kept = whole[4][0]  # the fifth word's first token is replaced by END
    words = words_of(TEXT, tokenizer, [*ids[:kept], ids[-1]])
    assert words == [*whole[:4], *[[] for _ in whole[4:]]]
    assert words_of(TEXT, tokenizer, ids[: kept + len(whole[4]) - 1])[4] == []


# --- scores ---

NAMES = "mara met tobin . he fishes"
BY_WORD = tokenizer_of("word", NAMES)


def head(size: int, rows: dict[int, dict[int, float]]) -> NDArray[np.float64]:
    """These weights, and else each token looks at itself."""
    weights = np.eye(size)
    for row, places in rows.items():
        weights[row] = 0
        for place, weight in places.items():
            weights[row, place] = weight
    return weights


def scored(
    links: Sequence[tuple[int, int]], *heads: NDArray[np.float64], text: str = NAMES, tokenizer: Tokenizer = BY_WORD
) -> LinkScores:
    assert tokenizer.start is not None
    ids = [tokenizer.start, *tokenizer.encode(text)][: heads[0].shape[0]]
    return link_scores([(LinkedText(text, {"": list(links)}), (np.array(heads)[None], ids))], tokenizer)[""]


def test_found_when_no_other_word_gets_more() -> None:
    # the pronoun stands at token 5, mara at 1, tobin at 3; START at 0 is no word
    scores = scored(
        [(4, 2)],
        head(7, {5: {3: 1.0}}),
        head(7, {5: {0: 0.7, 3: 0.2, 1: 0.1}}),
        head(7, {5: {3: 0.4, 1: 0.6}}),
        head(7, {5: {3: 0.5, 1: 0.5}}),
        head(7, {5: {3: 0.4, 5: 0.6}}),
    )
    assert scores.found.tolist() == [[1, 1, 0, 0, 0]]
    np.testing.assert_allclose(scores.weight, [[1.0, 0.2, 0.4, 0.5, 0.4]])
    assert (scores.count, scores.left_out, scores.turned) == (1, 0, 0)
    assert scores.ranking()[0] == (0, 0)


def test_shares_and_what_always_looking_at_one_place_finds() -> None:
    looks = head(7, {5: {1: 1.0}, 6: {5: 1.0}, 3: {2: 1.0}})
    scores = scored([(4, 2), (4, 0), (5, 4), (2, 0)], looks, head(7, {5: {3: 1.0}}))
    assert scores.count == 4
    np.testing.assert_allclose(scores.found, [[2 / 4, 1 / 4]])
    np.testing.assert_allclose(scores.weight, [[2 / 4, 1 / 4]])
    assert scores.previous == 1 / 4
    assert scores.first == 2 / 4


def test_texts_weigh_by_their_links() -> None:
    assert BY_WORD.start is not None
    ids = [BY_WORD.start, *BY_WORD.encode(NAMES)]
    good, bad = (head(7, {5: {place: 1.0}})[None, None] for place in (3, 1))
    looked = [
        (LinkedText(NAMES, {"": [(4, 2)] * 3}), (good, ids)),
        (LinkedText(NAMES, {"": [(4, 2)], "other": [(4, 1)]}), (bad, ids)),
    ]
    by_relation = link_scores(looked, BY_WORD)
    assert list(by_relation) == ["", "other"]
    assert by_relation["other"].count == 1
    scores = by_relation[""]
    assert scores.count == 4
    assert scores.found.tolist() == [[0.75]]


def test_from_the_last_token_to_all_tokens_of_a_word() -> None:
    text = "abc de f"
    tokenizer = tokenizer_of("char", text)
    # START a b c _ d e _ f: from e (6) to a, b and c together
    scores = scored(
        [(1, 0)],
        head(9, {6: {1: 0.2, 2: 0.1, 3: 0.2, 5: 0.4, 4: 0.1}}),
        head(9, {6: {1: 0.2, 2: 0.1, 3: 0.1, 5: 0.5, 4: 0.1}}),
        head(9, {5: {1: 1.0}}),
        text=text,
        tokenizer=tokenizer,
    )
    assert scores.found.tolist() == [[1, 0, 0]]
    np.testing.assert_allclose(scores.weight, [[0.5, 0.4, 0.0]])


def test_a_comma_does_not_speak_for_its_word() -> None:
    text = "mara met tobin, ..."
    # START mara met tobin , . . .
    tokenizer = tokenizer_of("word", text)
    assert scored([(2, 0)], head(8, {3: {1: 1.0}}), text=text, tokenizer=tokenizer).found.tolist() == [[1]]
    assert scored([(2, 0)], head(8, {4: {1: 1.0}}), text=text, tokenizer=tokenizer).found.tolist() == [[0]]
    # of nothing but marks, the last
    assert scored([(3, 0)], head(8, {7: {1: 1.0}}), text=text, tokenizer=tokenizer).found.tolist() == [[1]]


def test_a_later_word_is_looked_for_from_there_where_the_future_is_hidden() -> None:
    scores = scored([(2, 4), (4, 2)], head(7, {5: {3: 1.0}}))
    assert scores.found.tolist() == [[1]]
    assert (scores.count, scores.turned) == (2, 1)
    ahead = scored([(2, 4)], head(7, {3: {5: 1.0}}))
    assert ahead.found.tolist() == [[1]]
    assert ahead.turned == 0
    assert scored([(1, 2)], head(7, {3: {2: 1.0}})).previous == 1  # after turning


def test_words_that_were_cut_off_are_left_out() -> None:
    scores = scored([(2, 0), (4, 2), (0, 5)], head(4, {3: {1: 1.0}}))
    assert (scores.count, scores.left_out) == (1, 2)
    assert scores.found.tolist() == [[1]]
    with pytest.raises(DataError) as caught:
        scored([(4, 2), (5, 0)], head(4, {}))
    assert str(caught.value) == (
        "none of the 2 links could be scored: their words were cut off, or have no tokens here"
    )


def test_weights_of_another_text() -> None:
    with pytest.raises(ValueError, match="weights from 9 tokens to 9 do not belong to a text of 7"):
        scored([(4, 2)], head(9, {}))


# --- the view ---


def some_scores(turned: int = 0, left_out: int = 0, layers: int = 2) -> LinkScores:
    found = np.linspace(0.1, 0.7, 3 * layers).reshape(layers, 3)
    found[1, 2] = found[1, 0] = 0.936
    weight = np.full_like(found, 0.25)
    weight[1, 2] = 0.5
    return LinkScores(found, weight, 800, 0.031, 0.124, turned, 0.1, left_out)


def test_the_view() -> None:
    view = links_view({"": some_scores()})
    table, grid = view.panels
    assert isinstance(table, Table)
    assert isinstance(grid, Grid)
    assert view.note == "Head 1.2 finds 94% of 800 links; always the previous word 3%, always the first 12%."
    assert table.columns == ["head", "found", "weight"]
    assert table.bars == ["found", "weight"]
    assert [row[0] for row in table.rows] == [
        "1.2", "1.0", "1.1", "0.2", "0.1", "0.0", "always the previous word", "always the first word",
    ]  # fmt: skip
    assert table.rows[0] == ["1.2", 0.936, 0.5]
    assert table.rows[-2:] == [["always the previous word", 0.031, None], ["always the first word", 0.124, None]]
    np.testing.assert_array_equal(grid.values, some_scores().found)
    assert grid.rows == ["0", "1"]
    assert grid.columns == ["0", "1", "2"]
    assert len(links_view({"": some_scores(layers=5)}).panels[0].to_dict()["rows"]) == 12


def test_the_table_counts_links_that_were_turned_and_left_out() -> None:
    table = links_view({"": some_scores(turned=1, left_out=1234)}).panels[0]
    assert table.note.endswith(
        "Scored from the later word to the earlier: 1; left out (words cut off, or without tokens): 1,234."
    )


def test_the_view_of_several_relations() -> None:
    one, other = some_scores(), some_scores(left_out=2)
    one.found[1, 2], other.found[0, 1] = 0.96, 1.0
    view = links_view({"subject": one, "object": other})
    first, _, second, _ = view.panels
    assert isinstance(first, Table)
    assert isinstance(second, Table)
    assert (first.rows[0], second.rows[0]) == (["1.2", 0.96, 0.5], ["0.1", 1.0, 0.25])
    assert [panel.title for panel in view.panels] == [
        "The best heads: subject", "Links found: subject", "The best heads: object", "Links found: object",
    ]  # fmt: skip
    assert view.note.startswith("subject: Head 1.2 finds 96% of 800 links; ")
    assert " object: Head 0.1 finds 100% of 800 links; " in view.note
