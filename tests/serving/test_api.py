"""What OpenAI's shape has no word for: /api, beside the verbs in this process; and several runs in one server."""

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import glassformer as gf
from helpers.running import PATIENCE
from helpers.serving import Client, strict_json

ROW = {"height": 11, "weight": -180, "city": "Oslo"}
EXAMPLES: dict[str, Any] = {"writer": "abc>a", "classifier": "good, not bad", "translator": "abc", "table": ROW}
EXPENSIVE = ("report", "learning", "roles", "head-ablation", "links")


@pytest.fixture(scope="module")
def everything(writer: str, others: dict[str, str]) -> Iterator[Client]:
    with gf.serve(writer, *others.values(), port=0) as serving:
        yield Client(serving.url)


@pytest.fixture(scope="module")
def picture(others: dict[str, str], folder: Path) -> Path:
    return next((folder / "pictures" / "lying").iterdir())


def test_labels(everything: Client, others: dict[str, str]) -> None:
    texts = ["good, not bad", "bad, not good"]
    answer = everything.post("/api/predict", run="classifier", examples=texts)
    wanted = [one.to_dict() for one in gf.load(others["classifier"]).predict(texts)]
    assert answer == (200, {"predictions": wanted, "remarks": []})


def test_rows_of_a_table(everything: Client, others: dict[str, str]) -> None:
    answer = everything.post("/api/predict", run="table", examples=[ROW])
    assert answer.json["predictions"] == [gf.load(others["table"]).predict([ROW])[0].to_dict()]
    refused = everything.post("/api/predict", run="table", examples=["no row"])
    assert refused.status == 400
    assert "this run reads rows" in refused.json["error"]["message"]


def test_an_image_by_upload(everything: Client, others: dict[str, str], picture: Path) -> None:
    """In JSON as base64, or as the body itself; a path is never opened."""
    (wanted,) = gf.load(others["patches"]).predict([str(picture)])
    data = base64.b64encode(picture.read_bytes()).decode()
    answer = everything.post("/api/predict", run="patches", examples=[data])
    assert answer.json["predictions"][0]["probabilities"] == wanted.probabilities
    raw = everything.request("POST", "/api/predict/image?run=patches", content=picture.read_bytes())
    assert raw.json()["predictions"][0]["label"] == wanted.label
    refused = everything.post("/api/predict", run="patches", examples=[str(picture)])
    assert (refused.status, refused.json["error"]["message"]) == (400, "an image is the base64 of its file")
    damaged = everything.post("/api/predict", run="patches", examples=[base64.b64encode(b"no image").decode()])
    assert damaged.status == 400
    assert "/tmp" not in damaged.json["error"]["message"]


def test_no_option_of_a_view_opens_a_path(everything: Client, picture: Path) -> None:
    data = base64.b64encode(picture.read_bytes()).decode()
    answer = everything.post("/api/look", run="patches", texts=[data], options={"versus": str(picture)})
    assert (answer.status, answer.json["error"]["message"]) == (400, "an image is the base64 of its file")
    beside = {"versus": "b", "second_run": "patches"}
    mixed = everything.post("/api/look", run="classifier", texts=[str(picture)], options=beside)
    assert (mixed.status, "reads images" in mixed.json["error"]["message"]) == (400, True)
    for option in ("second_run", "versus", "links"):
        body = {"run": "classifier", "example": "good", "views": ["versus"], "options": {"versus": {option: "/tmp"}}}
        assert everything.post("/api/play", **body).status == 400


def test_translations(everything: Client, others: dict[str, str]) -> None:
    translator = gf.load(others["translator"])
    answer = everything.post("/api/translate", run="translator", texts=["abc", ""], beam=3, nbest=2, alignment=True)
    assert answer.status == 200
    for got, wanted in zip(
        answer.json["translations"], translator.translate(["abc", ""], beam=3, nbest=2), strict=True
    ):
        alignment = got.pop("alignment")
        assert got == wanted.to_dict()
        if alignment is not None:
            assert alignment["source"] == ["a", "b", "c", "<end>"]
            assert [sum(row) for row in alignment["weights"]] == pytest.approx(
                [1.0] * len(alignment["written"]), abs=1e-3
            )
    sampled = everything.post("/api/translate", run="translator", texts=["abc"], temperature=1.5, seed=3)
    assert sampled.json["translations"][0]["translation"] == translator.translate("abc", temperature=1.5, seed=3).text
    refused = everything.post("/api/translate", run="classifier", texts=["abc"])
    assert refused.status == 400
    assert refused.json["error"]["message"] == "classifier is a run of classification: it translates nothing"


def test_any_view(everything: Client, writer: str, others: dict[str, str]) -> None:
    """The numbers of `look`, by its options."""
    answer = everything.post("/api/look", run="writer", texts=["abc>"], view="attention", options={"layer": 1})
    wanted = gf.look(writer, "abc>", view="attention", layer=1).to_dict()
    assert answer.json["panels"] == wanted["panels"]
    both = everything.post("/api/look", run="classifier", texts=["good"], view="all", packed=True)
    assert {view["title"] for view in both.json["views"]} == {
        view.title for view in gf.look(others["classifier"], "good", view="all").views
    }
    versus = {"versus": "bad, not good", "second_run": "classifier"}
    twice = everything.post("/api/look", run="classifier", texts=["good, not bad"], options=versus)
    assert twice.status == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "line"),
    [
        ("/api/look", {"run": "writer", "view": "atention", "texts": ["a"]}, 400, "did you mean attention?"),
        ("/api/look", {"run": "writer", "texts": ["a"], "options": {"lair": 1}}, 400, "lair"),
        ("/api/look", {"run": "writer", "texts": ["a"], "options": {"layer": "x"}}, 400, "layer"),
        ("/api/look", {"run": "writer", "texts": ["a"], "options": {"links": "/etc/passwd"}}, 400, "from a file"),
        ("/api/look", {"run": "writer", "texts": ["a"], "options": {"second_run": "/etc"}}, 404, "no model '/etc'"),
        ("/api/look", {"run": "../writer", "texts": ["a"]}, 404, "there is no model"),
        ("/api/look", {"run": "translator", "texts": ["a"], "options": {"beam": 10**6}}, 400, "at most 64"),
        ("/api/look", {"texts": ["a"]}, 404, "one of writer"),
        *(
            ("/api/look", {"run": "writer", "view": view, "texts": ["a"], "options": option}, 400, line)
            for view in ("next", "tree")
            for option, line in (({"temperature": 1e308}, "between 0 and 100"), ({"top_k": 2**63}, "between 1 and 1,"))
        ),
        ("/api/fill", {"run": "writer", "texts": ["a"]}, 400, "it guesses no hidden tokens"),
        ("/v1/completions", {"model": "classifier", "prompt": "a"}, 400, "it writes no texts"),
        ("/v1/chat/completions", {"model": "table", "messages": [{"role": "user", "content": "a"}]}, 400, "writes no"),
        ("/v1/embeddings", {"model": "table", "input": "a"}, 400, "reads no texts"),
        ("/api/predict", {"run": "classifier", "examples": [{"other": "a"}]}, 400, "text"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(everything: Client, path: str, body: dict[str, Any], status: int, line: str) -> None:
    answer = everything.post(path, **body)
    assert answer.status == status, answer
    assert line in answer.json["error"]["message"]


def test_half_a_character_is_no_text(everything: Client) -> None:
    body = rb'{"run": "classifier", "examples": ["half \ud800"]}'
    answer = everything.request("POST", "/api/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("examples.0: Input should be a valid string")


def test_what_is_known_of_a_run(everything: Client, writer: str) -> None:
    facts = everything.get("/api/run?run=writer").json
    assert facts["card"]["task"] == "language-model"
    assert facts["metrics"][0]["step"] == 1
    assert "attention" in facts["views"]


def test_metrics(everything: Client) -> None:
    everything.post("/v1/completions", model="writer", prompt="ab", max_tokens=3)
    everything.get("/nothing")
    lines = everything.request("GET", "/metrics").text.splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(found['glassformer_requests_total{route="/v1/completions",status="200"}']) >= 1
    assert float(found['glassformer_tokens_total{model="writer",kind="completion"}']) >= 1
    assert float(found['glassformer_request_seconds_bucket{le="+Inf"}']) == float(
        found["glassformer_request_seconds_count"]
    )
    assert found['glassformer_models_loaded{model="writer"}'] == "1"


def test_the_least_recently_used_is_let_go(writer: str, others: dict[str, str]) -> None:
    """Within so much memory, one of two fits at a time; both are answered."""
    largest = max(gf.load(run).parameters for run in (writer, others["classifier"]))
    with gf.serve(writer, others["classifier"], port=0, model_memory=1.5 * 4 * largest / 2**30) as serving:
        client = Client(serving.url)
        for _ in range(2):
            for name in ("classifier", "writer"):
                body = {"examples": ["good"], "run": name}
                assert client.post("/api/predict", **body).status == 200
                assert [one["id"] for one in client.get("/v1/models").json["data"] if one["loaded"]] == [name]
    with pytest.raises(gf.GlassformerError, match=r"takes about .* GiB, more than --model-memory .* GiB"):
        gf.serve(writer, model_memory=1e-6)


# --- numbers that are not finite ---


def test_huge_numbers_in_rows_and_options(everything: Client) -> None:
    """A value that single precision cannot hold is refused, and so does not become NaN in the answer."""
    huge = {**ROW, "height": 1e308}
    for route, body in (("/api/predict", {"examples": [ROW, huge]}), ("/api/play", {"example": huge})):
        answer = everything.post(route, run="table", **body)
        row = 1 if route == "/api/predict" else 0
        assert (answer.status, answer.json["error"]["message"]) == (
            400,
            f"given, row {row} (counted from 0), column 'height': 1e+308 is too large for float32: "
            "correct it, or leave it empty",
        )
    unusual = {**ROW, "weight": "-1e9", "city": "Bonn", "zip": 3}
    (found,) = everything.post("/api/predict", run="table", examples=[unusual]).json["predictions"]
    assert (found["outside_range"], found["unseen_categories"]) == (["weight"], ["city"])
    for number in (1e308, 1e-300, 5e-324):
        for option in ("temperature", "top_p"):
            tree = everything.post("/api/look", run="writer", view="next", texts=["abc>"], options={option: number})
            assert tree.status in (200, 400), tree
            played = everything.post("/api/play", run="writer", example="abc>", **{option: number})
            assert played.status in (200, 400), played
            if played.status == 200:
                assert played.json["remarks"] == []


@pytest.fixture(scope="module")
def diverged(writer: str, others: dict[str, str]) -> Iterator[str]:
    """A server of runs all of whose weights are NaN."""
    runs = {"writer": writer, **others}
    with gf.serve(*(runs[name] for name in EXAMPLES), port=0) as serving:
        for name in EXAMPLES:
            Client(serving.url).get(f"/api/run?run={name}")
        for worker in serving._server.runs.loaded.values():
            assert worker.loaded is not None
            for weights in worker.loaded.model.parameters():
                torch.nn.init.constant_(weights, torch.nan)
        yield serving.url


def asked(url: str, route: str, **body: Any) -> Any:
    """A whole answer; a run that cannot answer is named, and nothing failed unforeseen."""
    response = httpx.post(url + route, json=body, timeout=PATIENCE)
    answer = strict_json(response.content)
    if response.status_code != 200:
        assert answer["error"]["code"] != "internal_error", (route, body, answer)
        return None
    return answer


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of NaN
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_view_of_a_model_that_diverged(diverged: str, name: str) -> None:
    known = strict_json(httpx.get(f"{diverged}/api/run?run={name}").content)["views"]
    for view in (one for one in known if one not in EXPENSIVE):
        options = {"versus": EXAMPLES[name]} if view in ("versus", "patching") else {}
        texts = [] if view == "positions" else [EXAMPLES[name]]
        asked(diverged, "/api/look", run=name, texts=texts, view=view, options=options)
        asked(diverged, "/api/play", run=name, example=EXAMPLES[name], views=[view])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_route_of_a_model_that_diverged(diverged: str, name: str) -> None:
    example = EXAMPLES[name]
    asked(diverged, "/api/play/grow", run=name, example=example, path=[])
    for route in ("/api/translate", "/api/fill"):
        asked(diverged, route, run=name, texts=[str(example)])
    asked(diverged, "/v1/embeddings", model=name, input=str(example))
    predicted = asked(diverged, "/api/predict", run=name, examples=[example])
    played = asked(diverged, "/api/play", run=name, example=example)
    if name == "classifier":  # scores that are not finite are never a label
        assert (predicted, played) == (None, None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_stream_of_a_model_that_diverged(diverged: str) -> None:
    body = {"model": "writer", "prompt": "abc>", "max_tokens": 3, "logprobs": 2, "echo": True}
    asked(diverged, "/v1/completions", **body)
    with httpx.stream("POST", f"{diverged}/v1/completions", json={**body, "stream": True}, timeout=PATIENCE) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                strict_json(line.removeprefix("data: "))


def test_a_run_that_is_deleted_while_it_is_served(writer: str, tmp_path: Path) -> None:
    """A run in memory still answers; another one is not listed, and the others are."""
    first, second, third = (str(shutil.copytree(writer, tmp_path / name)) for name in ("first", "second", "third"))
    with gf.serve(first, second, third, port=0) as serving:
        client = Client(serving.url)
        for run in (first, second):
            shutil.rmtree(run)
        assert [one["id"] for one in client.get("/v1/models").json["data"]] == ["first", "third"]
        assert client.get("/api/run?run=first").status == 404  # it reads the folder
        for name, status in (("first", 200), ("second", 404), ("third", 200)):
            answer = client.post("/v1/completions", model=name, prompt="ab", max_tokens=1)
            assert answer.status == status
            assert client.get(f"/v1/models/{name}").status == status
            assert client.post("/api/look", run=name, texts=["ab"], view="next").status == status
        assert "second was moved or deleted" in client.get("/v1/models/second").json["error"]["message"]


def test_line_ends_of_a_masked_text(masked: str) -> None:
    """`text` and `filled` keep line ends; messages are one line."""
    with gf.serve(masked, port=0) as serving:
        answer = Client(serving.url).post("/api/fill", texts=["a\n<mask>\r\nb"], most=1)
        refused = Client(serving.url).post("/api/fill", texts=["a\r\nb"])
    (filled,) = answer.json["texts"]
    assert filled["text"] == "a\n<mask>\r\nb"
    assert filled["filled"] == f"a\n{filled['places'][0][0]['token']}\r\nb"
    assert answer.json["remarks"] == []
    message = "'a␍⏎b' has nothing to guess: write <mask> where a token is missing"
    assert (refused.status, refused.json["error"]["message"]) == (400, message)


def test_an_error_that_quotes_a_request_is_one_line(client: Client) -> None:
    answer = client.get("/v1/models/a%0Ab")
    assert (answer.status, "'a⏎b'" in answer.json["error"]["message"]) == (404, True)
