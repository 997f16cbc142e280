"""Pairs of texts as token ids: framed, dropped or cut, padded, and in batches of like lengths."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as checking
from hypothesis import strategies as st

from glassformer.config.errors import SettingError
from glassformer.config.sections import TokenizerSettings
from glassformer.data.features import texts as texts_module
from glassformer.data.features.texts import PairExamples, Sequences, encode_pairs
from glassformer.data.split.pairs import Pairs
from glassformer.text.tokenizer import Tokenizer

ENGLISH = Tokenizer.train(["a b c d e"], TokenizerSettings(kind="word"))
GERMAN = Tokenizer.train(["z y x w v u t s"], TokenizerSettings(kind="word"))
SOURCES = ["a b c", "b", "d e a b c", "e q q"]
TARGETS = ["z y", "x q", "z", "w v u t s"]


def encoded(context: int = 9, too_long: str = "drop") -> PairExamples:
    pairs = Pairs("train", SOURCES, TARGETS, [2, 3, 4, 5], "a.tsv")
    return encode_pairs(pairs, ENGLISH, GERMAN, context=context, too_long=too_long)


def words(texts: Sequences, tokenizer: Tokenizer) -> list[str]:
    names = {tokenizer.start: "(", tokenizer.end: ")", tokenizer.unk: "?"}
    rows = [texts.of(row) for row in range(len(texts))]
    return ["".join(names.get(id) or tokenizer.token(id) for id in row) for row in rows]


def both(examples: PairExamples) -> list[tuple[str, str]]:
    return list(zip(words(examples.source, ENGLISH), words(examples.target, GERMAN), strict=True))


def test_a_source_ends_and_a_target_starts_and_ends() -> None:
    examples = encoded()
    assert both(examples) == [("abc)", "(zy)"), ("b)", "(x?)"), ("deabc)", "(z)"), ("e??)", "(wvuts)")]
    assert (examples.dropped, examples.cut, examples.unknown) == ([], 0, (2, 1))
    assert (list(examples.sources), list(examples.targets)) == (SOURCES, TARGETS)
    assert len(examples) == 4
    assert (examples.source.pad, examples.target.pad) == (ENGLISH.pad, GERMAN.pad)


@pytest.mark.parametrize(("context", "kept"), [(6, [0, 1, 2, 3]), (5, [0, 1]), (4, [0, 1]), (3, [1]), (2, [])])
def test_long_pairs_are_dropped(context: int, kept: list[int]) -> None:
    examples = encoded(context)
    assert both(examples) == [both(encoded())[row] for row in kept]
    assert list(examples.sources) == [SOURCES[row] for row in kept]
    assert list(examples.targets) == [TARGETS[row] for row in kept]
    assert (len(examples.dropped), examples.cut) == (4 - len(kept), 0)
    assert len(examples) == len(kept)


def test_unknown_words_of_dropped_pairs_do_not_count() -> None:
    assert encoded(5).unknown == (0, 1)


def test_long_pairs_are_cut_and_their_end_stays() -> None:
    examples = encoded(4, "cut")
    assert both(examples) == [("abc)", "(zy)"), ("b)", "(x?)"), ("dea)", "(z)"), ("e??)", "(wvu)")]
    assert (examples.dropped, examples.cut) == ([], 2)
    assert list(examples.targets) == TARGETS
    assert both(encoded(2, "cut")) == [("a)", "(z)"), ("b)", "(x)"), ("d)", "(z)"), ("e)", "(w)")]
    assert encoded(2, "cut").cut == 4


def test_a_context_without_room() -> None:
    with pytest.raises(SettingError) as caught:
        encoded(1)
    assert str(caught.value) == "model.context 1 leaves no room for a word beside END: it must be at least 2"


def test_each_side_has_its_own_end_and_padding() -> None:
    """In a tokenizer made elsewhere, they need not have the same ids."""
    text = GERMAN.to_json().replace("<pad>", "<was pad>").replace("<end>", "<pad>").replace("<was pad>", "<end>")
    other = Tokenizer.from_json(text)
    assert (other.pad, other.end) == (GERMAN.end, GERMAN.pad)
    pairs = Pairs("train", ["a"], ["z"], [2], "a.tsv")
    forth = encode_pairs(pairs, ENGLISH, other, context=9, too_long="drop")
    back = encode_pairs(Pairs("train", ["z"], ["a"], [2], "a.tsv"), other, ENGLISH, context=9, too_long="drop")
    assert (forth.source.of(0)[-1], forth.target.of(0)[-1]) == (ENGLISH.end, other.end)
    assert (back.source.of(0)[-1], back.target.of(0)[-1]) == (other.end, ENGLISH.end)
    assert (forth.source.pad, forth.target.pad) == (back.target.pad, back.source.pad) == (ENGLISH.pad, other.pad)


@pytest.mark.parametrize("missing", ["<start>", "<end>"])
def test_a_tokenizer_without_start_or_end(missing: str) -> None:
    spec = json.loads(GERMAN.to_json().replace(missing, "<other>"))
    bare = Tokenizer.from_json(json.dumps(spec))
    with pytest.raises(SettingError, match="needs a tokenizer with <start> and <end>"):
        encode_pairs(Pairs("train", ["a"], ["z"], [2], "a.tsv"), ENGLISH, bare, context=9, too_long="drop")
    pairs = Pairs("train", ["z"], ["z"], [2], "a.tsv")
    if missing == "<end>":
        with pytest.raises(SettingError, match="needs a tokenizer"):
            encode_pairs(pairs, bare, GERMAN, context=9, too_long="drop")
    else:  # no source begins with START
        assert len(encode_pairs(pairs, bare, GERMAN, context=9, too_long="drop")) == 1


# --- token ids, end to end ---


def sequences(lengths: list[int], seed: int = 0) -> Sequences:
    random = np.random.default_rng(seed)
    return Sequences.concatenate([random.integers(1, 13, length).astype(np.int32) for length in lengths], 0)


def test_end_to_end() -> None:
    made = Sequences.concatenate([np.array(ids, np.int32) for ids in ([5, 6], [], [7])], 3)
    assert (made.ids.tolist(), made.starts.tolist(), made.pad) == ([5, 6, 7], [0, 2, 2, 3], 3)
    assert (made.ids.dtype, made.starts.dtype) == (np.int32, np.int64)
    assert len(made) == 3
    assert made.lengths.tolist() == [2, 0, 1]
    assert [made.of(row) for row in range(3)] == [[5, 6], [], [7]]


def test_padded_to_the_longest() -> None:
    made = Sequences.concatenate([np.array(ids, np.int32) for ids in ([5, 6, 8], [], [7])], 3)
    ids, mask = made.padded(np.array([2, 0, 1]))
    assert ids.tolist() == [[7, 3, 3], [5, 6, 8], [3, 3, 3]]
    assert mask.tolist() == [[True, False, False], [True] * 3, [False] * 3]
    assert (ids.dtype, mask.dtype) == (torch.int64, torch.bool)
    assert made.padded(np.array([2]))[0].tolist() == [[7]]
    assert made.padded(np.array([1]))[0].tolist() == [[3]]  # no token at all: still a column


def test_no_text_and_no_token() -> None:
    none = Sequences.concatenate([], 3)
    assert len(none) == 0
    assert none.lengths.tolist() == []
    empty = Sequences.concatenate([np.empty(0, np.int32)] * 2, 3)
    ids, mask = empty.padded(np.array([0, 1]))
    assert (ids.tolist(), mask.tolist()) == ([[3], [3]], [[False], [False]])


# --- batches ---

pair_lengths = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=60)


@checking(deadline=None)
@given(pair_lengths, st.integers(1, 100), st.booleans())
def test_batches_hold_every_pair_once_and_few_tokens(lengths: list[tuple[int, int]], at_once: int, some: bool) -> None:
    source, target = sequences([one for one, _ in lengths]), sequences([other for _, other in lengths], 1)
    examples = PairExamples(source, target, [""] * len(lengths), [""] * len(lengths), 0, 0, (0, 0))
    wanted = np.arange(0, len(lengths), 2) if some else None
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_module, "TOKENS_AT_ONCE", at_once)
        batches = list(examples.batches(wanted))
    for rows, ids, mask, target_ids, target_mask in batches:
        longest = [max(lengths[row][side] for row in rows.tolist()) for side in (0, 1)]
        assert len(rows) == 1 or len(rows) * sum(longest) <= at_once
        for side, found, real, texts in ((0, ids, mask, source), (1, target_ids, target_mask, target)):
            assert found.shape == real.shape == (len(rows), max(1, longest[side]))
            assert [found[n, real[n]].tolist() for n in range(len(rows))] == [texts.of(row) for row in rows.tolist()]
        seen += rows.tolist()
    assert sorted(seen) == list(range(0, len(lengths), 2 if some else 1))


def test_batches_of_like_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 40, 997)
    source, target = sequences(lengths.tolist()), sequences((lengths + random.integers(0, 5, 997)).tolist())
    examples = PairExamples(source, target, [], [], 0, 0, (0, 0))
    whole = list(examples.batches())
    monkeypatch.setattr(texts_module, "TOKENS_AT_ONCE", 1000)
    batches = list(examples.batches())
    padded = sum(ids.numel() + target_ids.numel() for _, ids, _, target_ids, _ in batches)
    assert len(source.ids) + len(target.ids) > 0.9 * padded
    assert padded > 0.85 * 1000 * len(batches)  # no batch is smaller than need be
    assert len(whole) < len(batches)
    nothing = PairExamples(sequences([]), sequences([]), [], [], 0, 0, (0, 0))
    assert list(nothing.batches()) == []
