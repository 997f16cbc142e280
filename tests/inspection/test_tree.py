"""Decoding as a tree: the paths, scores and probabilities are those that decoding itself has."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.config.errors import GlassformerError, Misuse, SettingError
from glassformer.config.messages import listening
from glassformer.decoding.options import Sampling, Search
from glassformer.decoding.sampling import SamplingPlan, SamplingRows, distribution
from glassformer.families.load import load
from glassformer.inspection.views.tree import (
    CHOSEN,
    KEPT,
    PRUNED,
    Choice,
    DecodingTree,
    beam_tree,
    branches,
    ordinal,
    sampling_tree,
    scores_along,
)
from glassformer.rendering.panels import Choices, Table, Tree
from glassformer.rendering.view import View
from helpers.look_runs import train_kind

WRITERS, TRANSLATORS = ("writer", "lstm-writer", "cnn-writer"), ("translator", "lstm-translator", "bottleneck")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Trained when first asked for; their scores are spread, so that choices differ."""
    folder: Path = tmp_path_factory.mktemp("runs")

    class Once(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            (folder / name).mkdir()
            self[name] = load(train_kind(name, folder / name)[0])
            generator = torch.Generator().manual_seed(3)
            with torch.no_grad():
                for weight in self[name].model.parameters():
                    weight += 0.4 * torch.randn(weight.shape, generator=generator)
            return self[name]

    return Once()


def chosen_ids(tree: DecodingTree) -> list[int]:
    last = max((at for at, node in enumerate(tree.nodes) if node.fate == CHOSEN), key=lambda at: tree.nodes[at].length)
    return tree.ids(last)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSLATORS)
@pytest.mark.parametrize(("beam", "penalty", "best"), [(1, 1.0, 1), (4, 1.0, 1), (5, 0.6, 5), (3, 2.0, 2)])
def test_a_translators_tree_ends_where_translate_does(
    runs: dict[str, Any], name: str, beam: int, penalty: float, best: int
) -> None:
    loaded = runs[name]
    tree = beam_tree(loaded, "abcde", Search(beam, penalty, best))
    expected = loaded.translate("abcde", beam=beam, length_penalty=penalty, nbest=best).best
    found = [text for _, text in tree.finished]
    assert [text.ids for text in found[:best]] == [scored.ids for scored in expected]
    np.testing.assert_allclose(
        [text.rank(penalty) for text in found[:best]], [one.score for one in expected], rtol=1e-5
    )
    marked = {at for at, node in enumerate(tree.nodes) if node.fate == CHOSEN}
    assert marked == {at for end, _ in tree.finished[:best] for at in tree.path(end)}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_language_models_tree_ends_where_generate_does(runs: dict[str, Any], name: str, beam: int) -> None:
    loaded = runs[name]
    written = loaded.stream("abc>", beam=beam, tokens=9)
    text = "".join(written)
    tree = beam_tree(loaded, "abc>", Search(beam), tokens=9)
    best = tree.finished[0][1]
    assert [*loaded.prompt_ids("abc>"), *best.ids] == written.ids
    assert loaded.tokenizer.decode(best.ids) == text


@pytest.mark.parametrize("name", ["writer", "lstm-translator"])
def test_every_number_of_a_beams_tree(runs: dict[str, Any], name: str) -> None:
    loaded, beam = runs[name], 3
    tree = beam_tree(loaded, "abc", Search(beam), tokens=5)
    for at, node in enumerate(tree.nodes):
        path = tree.ids(at)
        logs = scores_along(loaded, "abc", path[:-1]).float().log_softmax(-1)
        each = [float(logs[place, id]) for place, id in enumerate(path)]
        assert node.total == pytest.approx(sum(each), abs=1e-4)
        assert math.log(node.probability) == pytest.approx(each[-1], abs=1e-4)
        assert node.parent is None or tree.nodes[node.parent].fate != PRUNED
    for length in {node.length for node in tree.nodes}:
        step = [node for node in tree.nodes if node.length == length]
        kept, pruned = ([node for node in step if (node.fate == PRUNED) == cut] for cut in (False, True))
        assert 1 <= len(kept) <= beam
        for node in pruned:
            rank = 1 + sum(other.total > node.total for other in step)
            if node.why != "gave way to greedy":
                assert node.why == f"{ordinal(rank)} of {len(kept)}: {node.total:.3g}".replace("-", "−")
                assert rank > len(kept)


def test_a_beam_as_wide_as_everything_finds_the_best_of_all(runs: dict[str, Any]) -> None:
    loaded = runs["lstm-writer"]
    ends, never = set(loaded.tokenizer.roles.ends), set(loaded.tokenizer.never(loaded.model.head.out_features))
    able = [id for id in range(loaded.model.head.out_features) if id not in never]
    texts = {(id,): float(log) for id, log in enumerate(scores_along(loaded, "a", [])[0].log_softmax(-1)) if id in able}
    for first in [path for path in texts if path[0] not in ends]:
        before, logs = texts.pop(first), scores_along(loaded, "a", first)[-1].log_softmax(-1)
        texts |= {(*first, id): before + float(logs[id]) for id in able}
    tree = beam_tree(loaded, "a", Search(900), tokens=2)
    best = max(texts, key=lambda path: texts[path] / len(path))
    assert tuple(chosen_ids(tree)) == best
    assert tree.finished[0][1].rank(1.0) == pytest.approx(texts[best] / len(best), abs=1e-5)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("how", [Sampling(), Sampling(0.7, top_k=5), Sampling(1.3, top_p=0.8), Sampling(0.0)])
def test_sampled_paths_are_those_of_generate(runs: dict[str, Any], name: str, how: Sampling) -> None:
    loaded = runs[name]
    tree = sampling_tree(loaded, "abc>", how, samples=3, tokens=8)
    for seed, (end, text) in enumerate(tree.finished):
        sampling = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        written = loaded.stream("abc>", tokens=8, seed=seed, **sampling)
        "".join(written)
        assert written.ids == [*loaded.prompt_ids("abc>"), *text.ids]
        assert f"seed {seed}" in tree.nodes[end].why
        assert all(tree.nodes[at].fate == CHOSEN for at in tree.path(end))
    drawn = {node for end, _ in tree.finished for node in tree.path(end)}
    assert {at for at, node in enumerate(tree.nodes) if node.fate == CHOSEN} == drawn
    paths = [tuple(tree.ids(at)) for at in range(len(tree.nodes))]
    assert len(set(paths)) == len(paths)


def test_a_tree_that_does_not_fit_says_of_what_it_is(runs: dict[str, Any]) -> None:
    heard: list[str] = []
    with listening(heard.append):
        sampling_tree(runs["writer"], "ab" * 14, samples=1, tokens=12)
    with listening(heard.append):
        beam_tree(runs["writer"], "ab" * 14, Search(beam=2), tokens=12)
    assert [one.partition(" within ")[0] for one in heard] == ["a tree of samples writes", "a beam writes"]


@pytest.mark.parametrize("name", ["writer", "translator"])
def test_the_branches_of_a_path(runs: dict[str, Any], name: str) -> None:
    loaded = runs[name]
    first = branches(loaded, "abc", [], width=4)
    assert len(first) == 4
    how = Sampling(0.5, top_k=3, top_p=0.9)
    path = [next(one.id for one in first if one.id not in loaded.output_tokenizer.roles.ends)]
    found = branches(loaded, "abc", path, how, width=8)
    scores = scores_along(loaded, "abc", path)[-1:].clone()
    own = scores[0].log_softmax(-1)
    scores[:, loaded.output_tokenizer.never(scores.shape[-1])] = -torch.inf
    drawn = distribution(scores, SamplingRows.of([how]), SamplingPlan.of([how]))[0]
    assert [one.id for one in found] == scores[0].topk(8).indices.tolist()
    for rank, one in enumerate(found, 1):
        assert one.drawn == pytest.approx(float(drawn[one.id]), abs=1e-6)
        assert one.log_probability == pytest.approx(float(own[one.id]), abs=1e-5)
        assert (one.drawn == 0) == bool(one.pruned)
        assert rank <= 3 or one.pruned == "below top-k 3"
        assert rank > 3 or one.pruned in ("", "outside top-p 0.9")
    assert branches(loaded, "abc", [loaded.output_tokenizer.end]) == []
    with pytest.raises(Misuse, match="nothing more fits"):
        branches(loaded, "abc", path * 100)


def look(loaded: Any, text: str, view: str, **options: Any) -> View:
    seen = gf.look(loaded, text, view=view, **options)
    assert isinstance(seen, View)
    return seen


def test_the_columns_of_the_next_token(runs: dict[str, Any]) -> None:
    loaded, how = runs["writer"], Sampling(0.5, top_k=6, top_p=0.7)
    (panel,) = look(loaded, "abc", "next", temperature=0.5, top_k=6, top_p=0.7).panels
    assert isinstance(panel, Choices)
    scores = scores_along(loaded, "abc", []).clone()
    scores[:, loaded.tokenizer.never(scores.shape[-1])] = -torch.inf
    chances = distribution(scores, SamplingRows.of([how]), SamplingPlan.of([how]))[0]
    best = scores[0].topk(12)
    assert panel.rows == [loaded.tokenizer.shown(id) for id in best.indices.tolist()]
    values = np.asarray(panel.values)
    np.testing.assert_allclose(values[:, 0], best.values, atol=1e-5)
    np.testing.assert_allclose(values[:, 1], (best.values - best.values[0]) / 0.5, atol=1e-5)
    np.testing.assert_allclose(values[:, 3], chances[best.indices], atol=1e-6)
    cut = np.array([bool(why) for why in panel.why])
    assert (cut == (values[:, 3] == 0)).all()
    assert np.isneginf(values[cut, 2]).all()
    softmax = np.exp(values[~cut, 2]) / np.exp(values[~cut, 2]).sum()
    np.testing.assert_allclose(softmax, values[~cut, 3], atol=1e-5)
    assert panel.why[6:] == ["below top-k 6"] * 6


@pytest.mark.parametrize("view", ["next", "tree"])
def test_a_temperature_that_would_make_nan(runs: dict[str, Any], view: str) -> None:
    for name in ("writer", "translator"):
        with pytest.raises(SettingError, match=r"--temperature is 1e\+308, but must lie between 0 and 100"):
            look(runs[name], "abc", view, temperature=1e308)


def test_the_next_token_of_a_translator(runs: dict[str, Any]) -> None:
    loaded = runs["translator"]
    (first,) = look(loaded, "abcde", "next").panels
    (after,) = look(loaded, "abcde", "next", translation="ed").panels
    assert isinstance(first, Choices)
    assert isinstance(after, Choices)
    for panel, path in ((first, []), (after, loaded.output_tokenizer.encode("ed"))):
        choices: list[Choice] = branches(loaded, "abcde", path, width=12)
        assert list(panel.rows) == [one.token for one in choices]
        np.testing.assert_allclose(np.asarray(panel.values)[:, 3], [one.drawn for one in choices], atol=1e-5)


@pytest.mark.slow
def test_the_views_of_trees(runs: dict[str, Any], tmp_path: Path) -> None:
    beam = look(runs["writer"], "abc", "tree", beam=3, tokens=4)
    sampled = look(runs["lstm-writer"], "abc", "tree", samples=2, tokens=4, top_k=2)
    translated = look(runs["lstm-translator"], "abcde", "tree")
    drawn = look(runs["lstm-translator"], "abcde", "tree", temperature=1.5, samples=2)
    texts = [runs["lstm-translator"].translate("abcde", temperature=1.5, seed=seed).text for seed in (0, 1)]
    assert [row[1] for row in drawn.panels[1].to_dict()["rows"]] == texts
    for seen in (beam, sampled, translated, drawn):
        tree, table = seen.panels
        assert isinstance(tree, Tree)
        assert isinstance(table, Table)
        assert {one.fate for one in tree.branches} <= {CHOSEN, KEPT, PRUNED}
        seen.save(tmp_path / "tree.png")
    assert len(sampled.panels[1].to_dict()["rows"]) == 2
    assert any(one["why"] == "below top-k 2" for one in sampled.panels[0].to_dict()["branches"])
    text, total, length, divisor, score = beam.panels[1].to_dict()["rows"][0]
    assert isinstance(text, str)
    assert length == divisor
    assert score == pytest.approx(total / length)
    for name, options, words in [
        ("writer", {"beam": 3, "temperature": 0.5}, "--beam shows a beam search"),
        ("translator", {"top_k": 3, "beam": 2}, "--beam shows a beam search"),
        ("translator", {"samples": 2, "beam": 2}, "--beam shows a beam search"),
        ("translator", {"tokens": 3}, "--tokens is for language models"),
        ("writer", {"samples": 0}, "--samples is 0"),
        ("writer", {"tokens": 0}, "--tokens is 0"),
    ]:
        with pytest.raises(GlassformerError, match=words):
            look(runs[name], "abc", "tree", **options)


def test_the_tree_of_greedy_decoding(runs: dict[str, Any]) -> None:
    seen = look(runs["writer"], "abc", "tree", temperature=0.0, tokens=4)
    assert "temperature 0;" in seen.note
    assert seen.panels[0].takeaway == "1 different text from 3 seeds"
    assert len({row[1] for row in seen.panels[1].to_dict()["rows"]}) == 1
