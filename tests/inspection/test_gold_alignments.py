"""Gold alignments: reading files, scoring hand-made heads, and the view."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import TokenizerSettings
from glassformer.data.datasets.dataset import Alignment
from glassformer.inspection.views.links import (
    AlignmentQuality,
    AlignmentScores,
    alignment_scores,
    alignments_view,
    read_alignments,
    read_gold_alignments,
    word_weights,
)
from glassformer.rendering.panels import Grid, Table
from glassformer.text.tokenizer import Tokenizer

SOURCE, TARGET = "the green house", "das grüne haus dort"
LINE = f"{SOURCE} ||| {TARGET} ||| 0-0 1-1 2-2 2?3"


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- reading ---


def test_lines_with_bars_or_tabs(tmp_path: Path) -> None:
    lines = [LINE, "", LINE.replace(" ||| ", "\t"), LINE.replace("2?3", "2p3").replace(" ||| ", "|||")]
    pairs = read_alignments(write(tmp_path / "gold.txt", *lines))
    assert (
        pairs
        == [
            Alignment(
                SOURCE,
                TARGET,
                ((0, 3), (4, 9), (10, 15)),
                ((0, 3), (4, 9), (10, 14), (15, 19)),
                frozenset({(0, 0), (1, 1), (2, 2)}),
                frozenset({(2, 3)}),
            )
        ]
        * 3
    )
    assert read_gold_alignments(tmp_path / "gold.txt") == pairs
    assert read_gold_alignments(write(tmp_path / "tabs.txt", lines[2])) == pairs[:1]


def test_other_files_hold_no_alignments(tmp_path: Path) -> None:
    assert read_gold_alignments(write(tmp_path / "links.jsonl", '{"text": "a ||| b", "links": [[1, 0]]}')) is None
    assert read_gold_alignments("pronouns") is None
    assert read_gold_alignments(tmp_path) is None


WRONG = {
    "a b ||| c": "write three fields with ||| or tabs between them, as in source ||| target ||| 0-0 1-2; this line has "
    "2 fields",
    "a b ||| c ||| 0-0 x": "'x' is not a link such as 0-2 (sure) or 0?2 (possible)",
    "a b ||| c ||| 2-0": "'2-0' is out of range: there are 2 words in the source, 1 in the target, counted from 0",
    "a b ||| c ||| 0?1": "'0?1' is out of range: there are 2 words in the source, 1 in the target, counted from 0",
    " ||| c ||| ": "the source is empty",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named(line: str, tmp_path: Path) -> None:
    path = write(tmp_path / "gold.txt", LINE, "", line)
    with pytest.raises(DataError) as caught:
        read_alignments(path)
    assert str(caught.value) == f"{path}, line 3: {WRONG[line]}"


def test_a_file_without_sure_links(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.txt", "a b ||| c ||| 0?0", "a ||| b ||| ")
    with pytest.raises(DataError, match="holds no sure alignment link: write lines such as source"):
        read_alignments(path)


# --- scoring ---


def words_of(text: str) -> Tokenizer:
    return Tokenizer.train([text] * 3, TokenizerSettings(kind="word"))


def pair_of(
    source: str, target: str, sure: Iterable[tuple[int, int]], possible: Iterable[tuple[int, int]] = ()
) -> Alignment:
    spans = []
    for text in (source, target):
        ends = np.cumsum([len(word) + 1 for word in text.split()]) - 1
        spans.append(tuple((int(end) - len(word), int(end)) for word, end in zip(text.split(), ends, strict=True)))
    return Alignment(source, target, spans[0], spans[1], frozenset(sure), frozenset(possible))


def by_sets(pairs: list[tuple[Alignment, NDArray[np.float64]]], layer: int, head: int) -> tuple[float, float, float]:
    """AER, precision and recall of a head as sets of links; every word is one token, START before the source."""
    made, sure, possible = set(), set(), set()
    for number, (pair, weights) in enumerate(pairs):
        for j in range(len(pair.target.split())):
            row = weights[layer, head, j, 1 : 1 + len(pair.source.split())]
            made.add((number, max(range(len(row)), key=lambda i: row[i]), j))
        sure |= {(number, *link) for link in pair.sure}
        possible |= {(number, *link) for link in pair.sure | pair.possible}
    aer = 1 - (len(made & sure) + len(made & possible)) / (len(made) + len(sure))
    return aer, len(made & possible) / len(made), len(made & sure) / len(sure)


def test_scores_are_those_of_sets_of_links() -> None:
    random = np.random.default_rng(0)
    source, target = words_of("a b c d e f g"), words_of("p q r s t u v")
    pairs, looked = [], []
    for _ in range(7):
        i, j = random.integers(2, 7, 2)
        texts = " ".join("abcdefg"[:i]), " ".join("pqrstuv"[:j])
        links = {(int(random.integers(i)), int(random.integers(j))) for _ in range(5)}
        pair = pair_of(*texts, set(list(links)[:3]), set(list(links)[3:]))
        ids = [source.start, *source.encode(texts[0]), source.end]
        weights = random.dirichlet(np.ones(len(ids)), size=(2, 3, j + 1))
        pairs.append((pair, weights))
        looked.append((pair, (weights, ids)))
    scores = alignment_scores(looked, source, target)
    for layer in range(2):
        for head in range(3):
            expected = by_sets(pairs, layer, head)
            ours = [values[layer, head] for values in scores.heads]
            np.testing.assert_allclose(ours, expected)
    mean = [(pair, weights.mean((0, 1), keepdims=True)) for pair, weights in pairs]
    np.testing.assert_allclose(scores.mean_of_heads, by_sets(mean, 0, 0))
    assert scores.pairs == 7
    assert scores.links == sum(len(pair.sure) for pair, _ in pairs)
    assert scores.left_out == 0
    best = scores.ranking()[0]
    assert scores.heads.aer[best] == scores.heads.aer.min()


def test_a_perfect_head_and_the_diagonal() -> None:
    """Och and Ney: a possible link that is made costs no precision, and one that is not made no recall."""
    source, target = words_of("a b c"), words_of("p q r")
    pair = pair_of("a b c", "p q r", {(0, 1), (1, 0)}, {(2, 2), (0, 2)})
    ids = [source.start, *source.encode("a b c"), source.end]
    crossed = np.zeros((1, 1, 4, 5))
    for row, column in enumerate((2, 1, 3)):
        crossed[0, 0, row, column], crossed[0, 0, row, 0] = 0.4, 0.6  # START belongs to no word
    scores = alignment_scores([(pair, (crossed, ids))], source, target)
    assert [values[0, 0] for values in scores.heads] == [0, 1, 1]
    assert scores.weight[0, 0] == pytest.approx(0.4)
    assert scores.even == pytest.approx(1 / 5)
    assert scores.diagonal == (1 - (0 + 1) / (3 + 2), 1 / 3, 0)


def test_tokens_make_words() -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.0, 0.0, 0.5, 0.5]])
    words = word_weights(weights, [[0, 1], [2]], [[1, 2], [3]])
    np.testing.assert_allclose(words, [[0.5, 0.25], [0.5, 0.5]])


def test_characters_that_are_cut_off_are_left_out() -> None:
    tokenizer = Tokenizer.train(["ab cd"] * 3, TokenizerSettings(kind="char"))
    pair = pair_of("ab cd", "ab cd", {(0, 0), (1, 1)})
    ids = [tokenizer.start, *tokenizer.encode("ab c"), tokenizer.end]
    scores = alignment_scores([(pair, (np.full((1, 1, 4, 6), 1 / 6), ids))], tokenizer, tokenizer)
    assert (scores.pairs, scores.links, scores.left_out) == (1, 1, 2)
    with pytest.raises(DataError, match="no gold link could be scored"):
        alignment_scores([(pair, (np.full((1, 1, 1, 2), 0.5), ids[:2]))], tokenizer, tokenizer)


# --- the view ---


def test_the_view() -> None:
    aer = np.array([[0.5, 0.123, 0.9]])
    mean, diagonal = AlignmentQuality(0.3, 0.7, 0.7), AlignmentQuality(0.6, 0.4, 0.4)
    heads = AlignmentQuality(aer, 1 - aer, 1 - aer)
    scores = AlignmentScores(heads, 1 - aer, mean, diagonal, even=0.2, pairs=12, links=30, left_out=1)
    view = alignments_view(scores)
    table, grid = view.panels
    assert isinstance(table, Table)
    assert isinstance(grid, Grid)
    assert [row[0] for row in table.rows] == [
        "0.1", "0.0", "0.2", "mean of all heads", "always the diagonal", "spread evenly",
    ]  # fmt: skip
    assert grid.takeaway == "2 of 3 heads beat the diagonal (60.0%)"
    assert table.takeaway == "Head 0.1 has the lowest alignment error rate, 12.3%"
    assert view.note == "Pairs: 12; sure links: 30; words left out (cut off, or without tokens): 1."
