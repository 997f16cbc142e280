"""Rows that join and leave: what stands beside a text changes nothing of it, whatever comes, goes and is looked at."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import repeat
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from glassformer.config.progress import counted_batches
from glassformer.decoding.options import Sampling
from glassformer.families.language import LoadedLanguageModel
from glassformer.serving import worker as module
from glassformer.serving.worker import ROWS, Busy, Piece, Stopping, Ticket, Worker, Yielded, rows_of
from helpers.look_runs import train_kind
from helpers.running import PATIENCE

LETTERS = "abcdefghijkl>"
WILD = Sampling(0.9)


class Text:
    """What comes of a ticket."""

    def __init__(self, draft: Any) -> None:
        self.pieces: list[Piece] = []
        self.over: Future[None] = Future()
        self.begun = threading.Event()
        self.ticket = Ticket(draft, self._take)

    def _take(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.begun.set()
        if piece.finish is not None:
            self.over.set_result(None)

    @property
    def exactly(self) -> list[Any]:
        """Tokens and their log-probabilities to the last digit."""
        self.over.result(PATIENCE)
        return [piece.written for piece in self.pieces]


@pytest.fixture(scope="module", params=["writer", "lstm-writer", "cnn-writer"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedLanguageModel:
    return gf.load(train_kind(request.param, tmp_path_factory.mktemp(request.param))[0], "cpu")


@pytest.fixture(scope="module")
def worker(loaded: LoadedLanguageModel) -> Iterator[Worker]:
    one = Worker(lambda: loaded, waiting=100, name="test")
    yield one
    one.stop()


def draft_of(loaded: LoadedLanguageModel, prompt: str, seed: int, most: int, how: Sampling = WILD) -> Any:
    return loaded.draft(loaded.prompt_ids(prompt), how, most=most, seed=seed, logprobs=True)


asked = st.tuples(
    st.text(LETTERS, min_size=1, max_size=20),
    st.integers(0, 1000),
    st.integers(1, 60),
    st.sampled_from(
        [Sampling(0.0), Sampling(), Sampling(0.7, 5), Sampling(1.2, top_p=0.8), Sampling(1.0, 4, 0.9, 1.3)]
    ),
)


@pytest.mark.slow
@settings(max_examples=6)
@given(st.lists(asked, min_size=2, max_size=24), st.randoms(use_true_random=False))
def test_batched_is_alone_under_random_arrival(
    loaded: LoadedLanguageModel, worker: Worker, requests: list[Any], random: Any
) -> None:
    """To the last digit of every log-probability, past the context too."""

    def wait_a_little() -> None:
        if random.random() < 0.5:
            worker.call(lambda loaded: None).result(PATIENCE)  # a step passes

    texts = []
    for prompt, seed, most, how in requests:
        text = Text(draft_of(loaded, prompt, seed, most, how))
        texts.append(text)
        worker.write([text.ticket])
        wait_a_little()
    for (prompt, seed, most, how), text in zip(requests, texts, strict=True):
        together = text.exactly
        alone = Text(draft_of(loaded, prompt, seed, most, how))
        worker.write([alone.ticket])
        assert alone.exactly == together
        tokens = [one.token for one in together if one is not None]
        written = loaded.stream(
            prompt,
            tokens=most,
            seed=seed,
            temperature=how.temperature,
            top_k=how.top_k,
            top_p=how.top_p,
            repetition_penalty=how.repetition_penalty,
        )
        list(written)
        assert written.ids[-len(tokens) :] == tokens or not tokens
    while not worker.idle:  # the checks of types in its thread draw random numbers, and would disturb hypothesis
        time.sleep(0.001)


def test_streams_are_unchanged_while_looks_hammer_the_same_run(loaded: LoadedLanguageModel, worker: Worker) -> None:
    def written(hammered: bool) -> list[Any]:
        text = Text(draft_of(loaded, "abc>", 3, 120))
        worker.write([text.ticket])
        while hammered and not text.over.done():
            worker.call(lambda run: gf.look(run, "abcdef", view="next")).result(PATIENCE)
        return text.exactly

    assert written(True) == written(False)


def test_whoever_goes_away_frees_the_row(loaded: LoadedLanguageModel, worker: Worker) -> None:
    texts = [Text(draft_of(loaded, "a", seed, 4000)) for seed in range(2 * ROWS)]
    worker.write([text.ticket for text in texts])
    texts[0].begun.wait(PATIENCE)
    for text in texts:
        text.ticket.cancelled = True
    after = Text(draft_of(loaded, "a", 1, 3))
    worker.write([after.ticket])
    assert len(after.exactly) <= 3
    assert not any(text.over.done() for text in texts[ROWS:])
    assert worker.idle or after.over.done()


def test_more_than_can_wait_is_refused(loaded: LoadedLanguageModel) -> None:
    worker = Worker(lambda: loaded, waiting=3, name="test")
    gate = threading.Event()
    begun = threading.Event()

    def hold(run: Any) -> None:
        begun.set()
        gate.wait(PATIENCE)

    worker.call(hold)
    assert begun.wait(PATIENCE)
    worker.write([Text(draft_of(loaded, "a", 1, 2)).ticket for _ in range(3)])
    with pytest.raises(Busy):
        worker.write([Text(draft_of(loaded, "a", 1, 2)).ticket])
    jobs = [worker.call(lambda run: 1) for _ in range(3)]
    with pytest.raises(Busy):
        worker.call(lambda run: 1)
    gate.set()
    assert [job.result(PATIENCE) for job in jobs] == [1, 1, 1]
    worker.stop()
    with pytest.raises(Stopping):
        worker.call(lambda run: 1)


def long_work(begun: threading.Event) -> Callable[[Any], None]:
    """Work that never ends by itself, in small batches."""

    def work(run: Any) -> None:
        begun.set()
        for _ in counted_batches(repeat(1), int, 0, "batch"):
            time.sleep(0.001)

    return work


def test_work_that_is_cancelled_ends_between_two_batches(loaded: LoadedLanguageModel) -> None:
    worker, begun = Worker(lambda: loaded, waiting=3, name="test"), threading.Event()
    job = worker.call(long_work(begun))
    assert begun.wait(PATIENCE)
    assert not job.cancel()
    assert isinstance(job.exception(PATIENCE), TimeoutError)
    assert worker.call(lambda run: 1).result(PATIENCE) == 1
    stopped = worker.call(long_work(begun))
    worker.stop(PATIENCE)
    assert isinstance(stopped.exception(PATIENCE), Stopping)


def test_long_work_ends_where_others_wait(loaded: LoadedLanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for work that may take long as well, and not before its turn is over."""
    worker, begun = Worker(lambda: loaded, waiting=3, name="test"), threading.Event()
    job = worker.call(long_work(begun), yields=True)
    assert begun.wait(PATIENCE)
    second = worker.call(lambda run: 2, yields=True)
    monkeypatch.setattr("glassformer.serving.worker.TURN", 0.0)
    with pytest.raises(TimeoutError):
        job.result(0.05)
    text = Text(draft_of(loaded, "a", 1, 2))
    worker.write([text.ticket])
    assert isinstance(job.exception(PATIENCE), Yielded)
    assert text.exactly
    assert second.result(PATIENCE) == 2
    worker.stop()


def test_one_whose_pass_fails_says_so_and_the_next_is_written(loaded: LoadedLanguageModel) -> None:
    worker = Worker(lambda: loaded, waiting=3, name="test")

    def broken(*inputs: Any) -> None:
        raise RuntimeError("a broken pass")

    before = Text(draft_of(loaded, "a", 1, 3))
    worker.write([before.ticket])
    wanted = before.exactly
    hook = worker.call(lambda run: run.model.head.register_forward_hook(broken)).result(PATIENCE)
    failed = Text(draft_of(loaded, "a", 1, 3))
    worker.write([failed.ticket])
    failed.over.result(PATIENCE)
    assert str(failed.pieces[-1].error) == "a broken pass"
    hook.remove()
    after = Text(draft_of(loaded, "a", 1, 3))
    worker.write([after.ticket])
    assert after.exactly == wanted
    with pytest.raises(RuntimeError, match="of a job"):
        worker.call(lambda run: (_ for _ in ()).throw(RuntimeError("of a job"))).result(PATIENCE)
    worker.stop()


def test_rows_that_cannot_be_made_are_told_of(loaded: LoadedLanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*arguments: Any, **more: Any) -> None:
        raise MemoryError("not enough memory")

    worker = Worker(lambda: loaded, waiting=3, name="test")
    monkeypatch.setattr("glassformer.serving.worker.RunningBatch", no_room)
    text = Text(draft_of(loaded, "a", 1, 3))
    worker.write([text.ticket])
    text.over.result(PATIENCE)
    assert isinstance(text.pieces[-1].error, MemoryError)
    monkeypatch.undo()
    after = Text(draft_of(loaded, "a", 1, 3))
    worker.write([after.ticket])
    assert len(after.exactly) <= 4
    worker.stop()


def test_what_waits_is_told_when_it_is_over(loaded: LoadedLanguageModel) -> None:
    worker = Worker(lambda: loaded, waiting=100, name="test")
    texts = [Text(draft_of(loaded, "a", seed, 4000)) for seed in range(2 * ROWS)]
    worker.write([text.ticket for text in texts])
    texts[0].begun.wait(PATIENCE)
    worker.stop()
    for text in texts:
        text.over.result(PATIENCE)
        assert isinstance(text.pieces[-1].error, Stopping) or text.pieces[-1].finish == "stop"


def test_a_run_that_cannot_be_loaded_says_why() -> None:
    def broken() -> Any:
        raise gf.GlassformerError("damaged")

    worker = Worker(broken, waiting=3, name="test")
    with pytest.raises((gf.GlassformerError, Stopping)):
        worker.call(lambda run: 1).result(PATIENCE)
    assert worker.failed


def test_a_text_is_the_same_in_every_row(loaded: LoadedLanguageModel, worker: Worker) -> None:
    """Kernels compute rows by tiles: the last tile must not add up in an order of its own."""
    texts = [Text(draft_of(loaded, ">", 274, 46, Sampling(0.0))) for _ in range(ROWS)]
    worker.write([text.ticket for text in texts])
    assert all(text.exactly == texts[0].exactly for text in texts)


def test_one_large_cache_leaves_fewer_rows(loaded: LoadedLanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    room = loaded.model.encoder.limit or 64
    rows, fixed = rows_of(loaded.model, room)
    assert 1 < rows <= ROWS
    assert fixed
    monkeypatch.setattr("glassformer.serving.worker.CACHE", 1)
    assert rows_of(loaded.model, room) == (1, True)
    with torch.inference_mode():
        assert loaded.generate("a", tokens=1, seed=1) is not None


def test_one_core_for_a_small_model_and_no_fewer_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "THREADS", 2)
    seen: list[int] = []

    def small() -> None:
        module._set_threads(1)
        seen.append(torch.get_num_threads())

    for work in (small, lambda: seen.append(torch.get_num_threads())):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [1, 2]
    torch.set_num_threads(1)
