"""The playground's questions beside the verbs in this process: one job gives everything that a page shows."""

import base64
import gc
import re
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import glassformer as gf
from glassformer.data.datasets.embedded import open_dataset
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.inspection.attention import without
from glassformer.inspection.capture import capture
from glassformer.inspection.views.registry import views_of
from glassformer.models.weights import put_weights
from glassformer.runs import history
from glassformer.serving import play as module
from glassformer.serving.examples import presets
from glassformer.serving.runs import ServedRuns
from helpers.look_runs import train_kind
from helpers.playing import OTHER, TEXT, ask, play, train_player

KINDS = ("lstm-translator", "gru-classifier", "bag", "patches", "columns", "regressor", "cnn-writer", "pairs-of-bytes")
OFF = {"stack": "self", "layer": 1, "head": 0, "scale": 0}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("playing")


@pytest.fixture(scope="module")
def run(place: Path) -> str:
    return train_player(place)


@pytest.fixture(scope="module")
def loaded(run: str) -> Any:
    return gf.load(run, "cpu")


@pytest.fixture(scope="module")
def kinds(place: Path) -> dict[str, tuple[str, str]]:
    return {name: train_kind(name, place) for name in KINDS}


@pytest.fixture(scope="module")
def url(run: str, kinds: dict[str, tuple[str, str]]) -> Iterator[str]:
    with gf.serve(run, *(path for path, _ in kinds.values()), port=0) as serving:
        yield serving.url


def scores(loaded: Any, text: str = TEXT) -> torch.Tensor:
    """Of every token after a text, computed here; −∞ for those that are never written."""
    with torch.inference_mode():
        found = loaded.model(*encode_example(loaded, text).inputs)[0, -1].clone()
        found[loaded.tokenizer.never(len(found))] = -torch.inf
        return found


def probabilities(loaded: Any, text: str = TEXT) -> list[float]:
    return scores(loaded, text).softmax(-1).tolist()


def same_choices(answer: dict[str, Any], wanted: list[float]) -> None:
    rows = answer["groups"][0]["rows"]
    assert rows
    for row in rows:
        assert row["probability"] == pytest.approx(wanted[row["id"]], abs=1e-6)


@pytest.mark.slow
def test_everything_equals_what_look_shows(url: str, run: str, loaded: Any) -> None:
    views = ["attention", "logit-lens", "attribution", "states", "diagram", "tree", "numbers"]
    names = [name for name in views if name in views_of(loaded)]
    assert {"attention", "logit-lens", "tree", "diagram"} <= set(names)
    answer = play(url, run="player", views=names)
    for name in names:
        assert answer["views"][name] == gf.look(run, TEXT, view=name).packed(), name
    assert [token["text"] for token in answer["tokens"]] == encode_example(loaded, TEXT).tokens
    assert [token["id"] for token in answer["tokens"]] == encode_example(loaded, TEXT).ids
    same_choices(answer["prediction"], probabilities(loaded))
    assert answer["before"] is None


def test_a_choice_can_be_appended(url: str, loaded: Any) -> None:
    for row in play(url, run="player")["prediction"]["groups"][0]["rows"]:
        if row["id"] in loaded.tokenizer.specials:
            assert row["text"] is None
        else:
            assert row["text"] == TEXT + loaded.tokenizer.token(row["id"])


def test_sampling_cuts_as_generate_does(url: str, loaded: Any) -> None:
    rows = play(url, run="player", temperature=0.5, top_k=3)["prediction"]["groups"][0]["rows"]
    assert [bool(row["cut"]) for row in rows] == [False] * 3 + [True] * (len(rows) - 3)
    wanted = (scores(loaded).topk(3).values / 0.5).softmax(-1).tolist()
    assert [row["drawn"] for row in rows[:3]] == pytest.approx(wanted, abs=1e-6)


def test_a_dial_at_one_changes_nothing(url: str) -> None:
    plain = play(url, run="player", views=["attention", "logit-lens"])
    assert play(url, run="player", views=["attention", "logit-lens"], changes=[{**OFF, "scale": 1}]) == plain


def test_a_dial_at_zero_is_the_ablated_head(url: str, loaded: Any) -> None:
    answer = play(url, run="player", changes=[OFF])
    before = probabilities(loaded)
    with without(loaded.model, [("self", 1, 0)]):
        after = probabilities(loaded)
    assert max(abs(one - other) for one, other in zip(before, after, strict=True)) > 1e-4
    same_choices(answer["prediction"], after)
    same_choices(answer["before"], before)
    ids = [{row["id"] for row in answer[side]["groups"][0]["rows"]} for side in ("prediction", "before")]
    assert ids[0] == ids[1]


def test_several_dials_are_turned_at_once(url: str, loaded: Any) -> None:
    """Two heads of a layer and one of another."""
    heads = [("self", 0, 0), ("self", 0, 1), ("self", 1, 1)]
    changes = [{"stack": stack, "layer": layer, "head": head, "scale": 0} for stack, layer, head in heads]
    with without(loaded.model, heads):
        wanted = probabilities(loaded)
    same_choices(play(url, run="player", changes=changes)["prediction"], wanted)


def test_a_state_of_the_other_text_comes_in(url: str, loaded: Any) -> None:
    """Beside a forward pass whose block is made to give the other's vector at that token."""
    at, model = 3, loaded.model
    other = encode_example(loaded, OTHER)
    with torch.inference_mode(), capture(model, ["encoder.blocks.0.output"]) as seen:
        model(*other.inputs)
        theirs = seen["encoder.blocks.0.output"][0, at].clone()

    def put(block: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        output = output.clone()
        output[0, at] = theirs
        return output

    hook = model.encoder.blocks[0].register_forward_hook(put)
    try:
        wanted = probabilities(loaded)
    finally:
        hook.remove()
    assert wanted != pytest.approx(probabilities(loaded), abs=1e-6)
    answer = play(url, run="player", other=OTHER, patch={"layer": 1, "position": at})
    same_choices(answer["prediction"], wanted)
    same_choices(answer["before"], probabilities(loaded))


def test_another_moment_of_the_training(url: str, run: str, loaded: Any) -> None:
    for step in history.steps_of(loaded.run):
        moment: Loaded = replace(loaded, model=gf.load(run, "cpu").model)
        put_weights(moment.model, history.weights_at(loaded.run, step), "a moment")
        same_choices(play(url, run="player", update=step)["prediction"], probabilities(moment))
    assert len(history.steps_of(loaded.run)) > 2
    same_choices(play(url, run="player")["prediction"], probabilities(loaded))


@pytest.mark.slow
def test_one_moment_is_held_beside_the_run(run: str) -> None:
    """And is counted with it; it goes with it."""
    moments, loaded = module.Moments(), gf.load(run, "cpu")
    models = [moments.at(loaded, step).model for step in history.steps_of(loaded.run)]
    assert all(model is models[0] is not loaded.model for model in models)
    held, gone = models[0].head.weight.data_ptr(), weakref.ref(models[0])
    assert held != loaded.model.head.weight.data_ptr()
    del models, loaded
    gc.collect()
    assert gone() is None
    served = ServedRuns([run], device="cpu", precision="fp32", memory=None, waiting=1)
    assert served.bytes_of("player") > 2 * 4 * gf.load(run, "cpu").parameters


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_run_can_be_played_with(url: str, kinds: dict[str, tuple[str, str]], name: str) -> None:
    path, example = kinds[name]
    given: Any = example
    if name == "patches":
        given = base64.b64encode(Path(example).read_bytes()).decode()
    _, facts = ask(url, f"/api/play?run={name}")
    run = gf.load(path, "cpu")
    assert list(facts["views"]) == views_of(run)
    assert facts["reads"] == {"patches": "image", "columns": "row", "regressor": "row"}.get(name, "text")
    views = [one for one in module.CODE if one in facts["views"]]
    answer = play(url, given, run=name, views=[*views, "diagram"])
    for view in views:
        panels = gf.look(run, example, view=view).packed()["panels"]
        for panel in panels:
            if panel["kind"] == "gallery":  # an image that came over the network has no name of its own
                panel["captions"] = ["image-0"]
        assert answer["views"][view]["panels"] == panels, view
    said = answer["prediction"]
    if name == "regressor":
        assert said["value"] == pytest.approx(run.predict(example).value)
    elif name == "lstm-translator":
        assert said["text"] == run.translate(example).text
    elif said["kind"] == "classes":
        rows = {row["name"]: row["probability"] for row in said["groups"][0]["rows"]}
        assert rows == pytest.approx(run.predict(example).probabilities)
    else:
        same_choices(said, probabilities(run, example))


def test_what_is_told_of_a_run_once(url: str, run: str, loaded: Any) -> None:
    status, facts = ask(url, "/api/play")  # the first of several
    assert (status, facts["run"], facts["runs"]) == (200, "player", ["player", *KINDS])
    assert facts["heads"] == {"self": [2, 2]}
    assert facts["updates"] == history.steps_of(loaded.run)
    assert [step for step, _ in facts["curve"]] == [1, 2, 3, 4]
    assert [one["example"] for one in facts["presets"]] == list(presets()["copy"].values())


def test_a_tree_grows(url: str, loaded: Any) -> None:
    status, answer = ask(url, "/api/play/grow", run="player", example=TEXT, path=[], width=4)
    assert status == 200
    wanted = probabilities(loaded)
    assert [one["probability"] for one in answer["branches"]] == pytest.approx(
        [wanted[one["id"]] for one in answer["branches"]], abs=1e-6
    )
    first = next(one["id"] for one in answer["branches"] if one["id"] not in loaded.tokenizer.specials)
    _, deeper = ask(url, "/api/play/grow", run="player", example=TEXT, path=[first], width=3)
    wanted = probabilities(loaded, TEXT + loaded.tokenizer.token(first))
    for one in deeper["branches"]:
        assert one["probability"] == pytest.approx(wanted[one["id"]], abs=1e-6)


def test_code_is_the_packages_own(url: str) -> None:
    for panel in module.CODE:
        status, answer = ask(url, f"/api/play/code?panel={panel}")
        assert status == 200
        assert "def " in answer["code"]
    status, answer = ask(url, "/api/play/code?panel=../../etc/passwd")
    assert status == 400
    assert "unknown panel" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"example": "  "}, "there is no text to look at"),
        ({"views": ["nonsense"]}, "unknown view"),
        ({"options": {"attention": {"links": "/etc/passwd"}}, "views": ["attention"]}, "unknown option"),
        ({"changes": [{**OFF, "layer": 7}]}, "there is no head 7.0"),
        ({"changes": [{**OFF, "stack": "cross"}]}, "unknown attention"),
        ({"changes": [{**OFF, "scale": 2.5}]}, "changes.0.scale"),
        ({"patch": {"layer": 1, "position": 0}}, "give other"),
        ({"patch": {"layer": 9, "position": 0}, "other": OTHER}, "between 0 and 2"),
        ({"patch": {"layer": 1, "position": 6}, "other": "ab"}, "there is no token 6"),
        ({"update": 77}, "kept no update 77"),
        ({"temperature": -1}, "temperature"),
        ({"weights": 1}, "unknown field"),
        ({"run": "bag", "changes": [OFF], "example": "good"}, "no heads to turn"),
        ({"run": "bag", "patch": {"layer": 0, "position": 0}, "other": "bad", "example": "good"}, "no states to patch"),
    ],
)
def test_what_cannot_be_asked_is_one_line(url: str, wrong: dict[str, Any], told: str) -> None:
    status, answer = ask(url, "/api/play", **{"run": "player", "example": TEXT, **wrong})
    message = answer["error"]["message"]
    assert status == 400, answer
    assert told in message
    assert "\n" not in message
    assert "/" not in message.replace("'/etc/passwd'", "")


def test_a_path_of_no_tokens_is_refused(url: str) -> None:
    status, answer = ask(url, "/api/play/grow", run="player", example=TEXT, path=[10**6])
    assert (status, "there is no token 1000000" in answer["error"]["message"]) == (400, True)
    status, answer = ask(url, "/api/play/grow", run="bag", example="good", path=[])
    assert (status, answer["error"]["message"]) == (400, "bag writes nothing: it has no tree")


@pytest.mark.slow
def test_changes_leave_a_text_that_is_being_written_alone(url: str, run: str) -> None:
    """Heads are turned, states patched and moments changed while others write."""
    wanted = gf.load(run, "cpu").generate("ab", tokens=60, temperature=1.0, seed=5)
    asked = {"model": "player", "prompt": "ab", "max_tokens": 60, "seed": 5}
    texts, over = [], threading.Event()

    def write() -> None:
        for _ in range(4):
            texts.append(httpx.post(f"{url}/v1/completions", json=asked, timeout=300).json()["choices"][0]["text"])
        over.set()

    thread = threading.Thread(target=write)
    thread.start()
    count = 0
    while not over.is_set() or count < 3:
        more = {"changes": [{**OFF, "scale": count % 3}], "update": [None, 1, 2][count % 3]}
        play(url, run="player", views=["attention"], other=OTHER, patch={"layer": 1, "position": 2}, **more)
        count += 1
    thread.join()
    assert texts == [wanted] * 4


@pytest.mark.parametrize("name", ["opinions", "pronouns"])
def test_a_model_knows_the_words_of_its_presets(name: str) -> None:
    known = {word for row in open_dataset(name).rows() for word in re.findall(r"\w+|[^\w\s]", str(row[0]))}
    for text in presets()[name].values():
        assert set(re.findall(r"\w+|[^\w\s]", text)) <= known
