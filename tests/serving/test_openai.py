"""The official client against a server, and streams against what `generate` writes alone."""

import json
import math
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

import glassformer as gf
from glassformer.families.language import LoadedLanguageModel
from helpers.serving import Client, process


@pytest.fixture(scope="module")
def address(writer: str) -> Iterator[str]:
    with process(writer) as (_, url):
        yield url


@pytest.fixture(scope="module")
def api(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as one:
        yield one


@pytest.fixture(scope="module")
def alone(writer: str) -> LoadedLanguageModel:
    return gf.load(writer)


def test_models(api: openai.OpenAI) -> None:
    (model,) = api.models.list().data
    assert (model.id, model.owned_by) == ("writer", "glassformer")
    assert api.models.retrieve("writer").id == "writer"
    with pytest.raises(openai.NotFoundError, match="there is no model 'other' here; there is writer"):
        api.models.retrieve("other")


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ({"temperature": 0}, {"greedy": True}),
        ({"seed": 3}, {"seed": 3}),
        ({"seed": 3, "temperature": 0.7, "top_p": 0.8}, {"seed": 3, "temperature": 0.7, "top_p": 0.8}),
        (
            {"seed": 4, "presence_penalty": 1.5, "frequency_penalty": 0.5},
            {"seed": 4, "presence_penalty": 1.5, "frequency_penalty": 0.5},
        ),
        ({"seed": 5, "extra_body": {"top_k": 4}}, {"seed": 5, "top_k": 4}),
    ],
    ids=str,
)
def test_a_completion_is_what_generate_writes(
    api: openai.OpenAI, alone: LoadedLanguageModel, asked: dict[str, object], same: dict[str, object]
) -> None:
    whole = api.completions.create(model="writer", prompt="abc>", max_tokens=60, **asked)  # type: ignore[call-overload]
    assert whole.choices[0].text == alone.generate("abc>", tokens=60, **same)
    pieces = list(api.completions.create(model="writer", prompt="abc>", max_tokens=60, stream=True, **asked))  # type: ignore[call-overload]
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text
    assert [piece.choices[0].finish_reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def test_several_prompts_and_choices(api: openai.OpenAI, alone: LoadedLanguageModel) -> None:
    """Choice i draws by seed + i; prompts and choices stand in order."""
    answer = api.completions.create(model="writer", prompt=["ab>", "xyz>"], n=3, seed=7, max_tokens=9)
    wanted = [alone.generate(prompt, tokens=9, seed=7 + i) for prompt in ("ab>", "xyz>") for i in range(3)]
    assert [choice.text for choice in answer.choices] == wanted
    assert [choice.index for choice in answer.choices] == list(range(6))
    echoed = api.completions.create(model="writer", prompt=["ab>", "xyz>"], echo=True, seed=7, max_tokens=9)
    assert [choice.text for choice in echoed.choices] == ["ab>" + wanted[0], "xyz>" + wanted[3]]


def test_usage_counts_tokens(api: openai.OpenAI, alone: LoadedLanguageModel) -> None:
    answer = api.completions.create(model="writer", prompt="abc>", max_tokens=5, seed=1)
    assert answer.usage is not None
    read, written = len(alone.stream("abc>").ids), answer.usage.completion_tokens
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (read, read + written)
    assert written == 5 if answer.choices[0].finish_reason == "length" else written <= 5
    *_, last = api.completions.create(
        model="writer", prompt="abc>", max_tokens=5, seed=1, stream=True, stream_options={"include_usage": True}
    )
    assert (last.choices, last.usage) == ([], answer.usage)


def test_a_stop_string_across_token_borders(api: openai.OpenAI, alone: LoadedLanguageModel) -> None:
    """Each letter is a token; what comes before the stop is all that is told."""
    text = alone.generate("abc>", tokens=40, seed=2)
    stop = text[10:13]
    place = text.index(stop)
    answer = api.completions.create(model="writer", prompt="abc>", max_tokens=40, seed=2, stop=["\x00never", stop])
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (text[:place], "stop")
    pieces = api.completions.create(model="writer", prompt="abc>", max_tokens=40, seed=2, stop=stop, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == text[:place]


def test_logprobs(api: openai.OpenAI, alone: LoadedLanguageModel) -> None:
    answer = api.completions.create(model="writer", prompt="abc>", max_tokens=4, seed=1, logprobs=3).choices[0]
    assert answer.logprobs is not None
    assert "".join(answer.logprobs.tokens or []) == answer.text
    expected = alone.probabilities("abc>", k=3)[-1].expected
    first = (answer.logprobs.top_logprobs or [])[0]
    assert list(first) == [token for token, _ in expected]
    assert list(first.values()) == pytest.approx([math.log(value) for _, value in expected], abs=1e-4)
    chat = api.chat.completions.create(
        model="writer",
        messages=[{"role": "user", "content": "ab"}],
        max_tokens=3,
        seed=1,
        logprobs=True,
        top_logprobs=2,
    )
    assert chat.choices[0].logprobs is not None
    content = chat.choices[0].logprobs.content or []
    assert "".join(one.token for one in content) == chat.choices[0].message.content
    assert [len(one.top_logprobs) for one in content] == [2] * len(content)


def test_the_prompt_is_told_again_with_its_scores(api: openai.OpenAI, alone: LoadedLanguageModel) -> None:
    """As tools that measure models ask for it: nothing is written, every token of the prompt is scored."""
    answer = api.completions.create(model="writer", prompt="abc>c", max_tokens=0, echo=True, logprobs=2)
    choice, expected = answer.choices[0], alone.probabilities("abc>c", k=2)
    assert (choice.text, choice.finish_reason) == ("abc>c", "length")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == list("abc>c")
    assert choice.logprobs.text_offset == [0, 1, 2, 3, 4]
    scores, known = choice.logprobs.token_logprobs or [], [one.probability for one in expected if one.token]
    assert scores[-len(known) :] == pytest.approx([math.log(value) for value in known if value], abs=1e-4)
    assert list((choice.logprobs.top_logprobs or [])[-1]) == [token for token, _ in expected[-2].expected]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_of_ids(api: openai.OpenAI, alone: LoadedLanguageModel, stream: bool) -> None:
    def written(prompt: Any) -> list[Any]:
        answer = api.completions.create(
            model="writer", prompt=prompt, max_tokens=3, seed=1, echo=True, logprobs=0, stream=stream
        )
        return [piece.choices[0] for piece in answer] if stream else [answer.choices[0]]  # type: ignore[union-attr]

    texts, ids = written("abc>"), written(alone.prompt_ids("abc>"))
    assert [one.text for one in texts] == [one.text for one in ids]
    offsets = [at for one in texts for at in one.logprobs.text_offset]
    assert offsets == list(range(len("".join(one.text for one in texts))))
    with pytest.raises(openai.BadRequestError, match="there is no token 100000"):
        written([1, 100_000])


def test_a_chat_is_what_the_model_answers_alone(api: openai.OpenAI, alone: LoadedLanguageModel) -> None:
    talk = [{"role": "system", "content": "ab"}, {"role": "user", "content": "cde"}]
    answer = api.chat.completions.create(model="writer", messages=talk, max_completion_tokens=8, seed=2)  # type: ignore[call-overload]
    assert answer.choices[0].message.content == alone.chat(talk, tokens=8, seed=2)
    parts = [{"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "de"}]}]
    pieces = api.chat.completions.create(model="writer", messages=[talk[0], *parts], max_tokens=8, seed=2, stream=True)  # type: ignore[call-overload]
    deltas = [piece.choices[0].delta for piece in pieces]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == answer.choices[0].message.content


def test_embeddings(api: openai.OpenAI, alone: LoadedLanguageModel) -> None:
    """The official client asks for base64."""
    answer = api.embeddings.create(model="writer", input=["abc", "xy"])
    for one, text in zip(answer.data, ("abc", "xy"), strict=True):
        assert one.embedding == pytest.approx(alone.embed(text).vector.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"temperature": -1}, "temperature"),
        ({"n": 0}, "n: "),
        ({"max_tokens": -1}, "max_tokens"),
        ({"prompt": "a" * 1000}, "tokens, and this model reads 32"),
        ({"prompt": ["a"] * 60, "n": 2}, "60 prompts × 2 texts are more than 64"),
        ({"extra_body": {"temprature": 1}}, "unknown field 'temprature'"),
        ({"stop": ["a"] * 9}, "stop"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused_in_one_line(api: openai.OpenAI, asked: dict[str, object], line: str) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        api.completions.create(**{"model": "writer", "prompt": "a", **asked})  # type: ignore[call-overload]
    assert line in error.value.message


def test_curl(address: str, alone: LoadedLanguageModel) -> None:
    body = json.dumps({"prompt": "abc>", "max_tokens": 7, "seed": 1})
    words = ["curl", "-s", f"{address}/v1/completions", "-H", "Content-Type: application/json", "-d", body]
    answer = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert answer["choices"][0]["text"] == alone.generate("abc>", tokens=7, seed=1)


@pytest.mark.slow
def test_many_at_once_are_each_as_if_alone(address: str, alone: LoadedLanguageModel) -> None:
    """More than there are rows, of different lengths, settings and seeds, whole and as streams."""
    asked = [
        {"prompt": "abcdefgh"[: 1 + seed % 8] + ">", "seed": seed, "max_tokens": 3 + 5 * (seed % 7), "top_p": 0.9}
        for seed in range(40)
    ]
    texts: dict[int, str] = {}

    def ask(number: int) -> None:
        client, body = Client(address), asked[number]
        if number % 2:
            pieces = client.stream("/v1/completions", **body)
            assert pieces.pop() == "[DONE]"
            texts[number] = "".join(piece["choices"][0]["text"] for piece in pieces)
        else:
            texts[number] = client.post("/v1/completions", **body).json["choices"][0]["text"]

    threads = [threading.Thread(target=ask, args=[number]) for number in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, body in enumerate(asked):
        wanted = alone.generate(body["prompt"], tokens=body["max_tokens"], seed=body["seed"], top_p=0.9)
        assert texts[number] == wanted
