"""A language model that is a user's own `nn.Module`: trained, evaluated, used, saved and loaded."""

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.cli.main import main
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import Request, RunningBatch
from glassformer.inspection.views.registry import all_views, views_of
from glassformer.models.own import OwnLanguageModel
from helpers.running import identical, losses_of, tensors_of

LECTURE = Path(__file__).parents[1] / "helpers" / "lecture_rnn.py"
SETTINGS: dict[str, Any] = {
    "task": "language-model",
    "tokenizer.kind": "char",
    "model.context": 24,
    "training.samples": False,
    "training.optimizer": "adamw",
    "training.lr": 0.05,
    "training.validate_every": 20,
    "training.schedule": "constant",
}


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    before = os.environ.get("GLASSFORMER_PLUGINS")
    gf.use(LECTURE)
    yield
    os.environ.pop("GLASSFORMER_PLUGINS", None)
    if before is not None:
        os.environ["GLASSFORMER_PLUGINS"] = before


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("lecture") / "run"
    return gf.train("copy:rows=200", out=out, model="lecture-rnn", steps=20, **SETTINGS)


class GruWithState(nn.Module):
    """Takes and returns a recurrent state, as `nn.GRU` does."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, 7)
        self.gru = nn.GRU(7, 11, batch_first=True)
        self.out = nn.Linear(11, outputs)

    def forward(self, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h, state = self.gru(self.table(tokens), state)
        return self.out(h), state


class Transformer(GruWithState):
    """Without a causal mask: it reads the answer."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__(vocab, outputs)
        self.layer = nn.TransformerEncoderLayer(11, 1, 13, batch_first=True)

    def forward(self, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h, state = self.gru(self.table(tokens), state)
        return self.out(self.layer(h)), state


def test_it_learns_and_is_evaluated(run: Any) -> None:
    losses = losses_of(Path(run))
    assert losses[-1] < losses[0] - 0.2
    assert gf.evaluate(gf.load(run, "cpu")).metrics["loss"] == pytest.approx(run.validation["loss"])


def test_generated_tokens_are_the_argmax_of_the_modules_own_logits(run: Any) -> None:
    loaded = gf.load(run, "cpu")
    ids = loaded.prompt_ids("abc>")
    for _ in range(6):
        with torch.no_grad():
            logits = loaded.model.encoder.own(torch.tensor([ids]))[0, -1]
        logits[loaded.never_written] = -torch.inf
        ids.append(int(logits.argmax()))
    stream = loaded.stream("abc>", greedy=True, tokens=6)
    "".join(stream)
    written = stream.ids
    assert written == ids[: len(written)]
    assert len(written) == len(ids) or ids[len(written)] in loaded.tokenizer.roles.ends


def test_texts_written_together_are_those_written_alone(run: Any) -> None:
    model = gf.load(run, "cpu").model
    prompts, how = [[1, 5, 6, 7, 8], [1, 9], [1, 4, 4]], Sampling()
    batch = RunningBatch(model, 3, 24)
    batch.join({row: Request(prompt, how, 30, (), seed=row) for row, prompt in enumerate(prompts)})
    together: list[list[int]] = [[], [], []]
    while step := batch.step():
        for row, one in step.items():
            together[row].append(one.token)
    for row, prompt in enumerate(prompts):
        alone = RunningBatch(model, 1, 24)
        alone.join({0: Request(prompt, how, 30, (), seed=row)})
        tokens = []
        while step := alone.step():
            tokens.append(step[0].token)
        assert tokens == together[row]


def test_every_view_and_check_works(run: Any) -> None:
    loaded = gf.load(run, "cpu")
    assert {"next", "tree", "diagram", "pairs"} <= set(views_of(loaded))
    assert "logit-lens" not in views_of(loaded)
    for name in views_of(loaded):
        texts = [] if all_views()[name].texts == "none" else ["abcd>ab"]
        gf.look(loaded, *texts, view=name, **({"versus": "abce>ab"} if name == "versus" else {}))
    assert gf.check(run, only="cached,batched,padded,saved").passed
    assert len(loaded.generate("abc>", tokens=3, beam=3)) <= 3
    assert copy.deepcopy(loaded).generate("ab", tokens=4, seed=1) == loaded.generate("ab", tokens=4, seed=1)
    with pytest.raises(gf.GlassformerError, match="does not know its vectors"):
        loaded.embed("abc")


def test_a_module_given_from_python(tmp_path: Path) -> None:
    """One that returns its state too; resumed, it is the run that was never interrupted."""
    whole = gf.train("copy:rows=200", out=tmp_path / "whole", model=GruWithState, steps=4, **SETTINGS)
    gf.train("copy:rows=200", out=tmp_path / "half", model=GruWithState, steps=2, **SETTINGS)
    gf.train(out=tmp_path / "half", resume=True, model=GruWithState, steps=4)
    identical(tensors_of(tmp_path / "half"), tensors_of(tmp_path / "whole"))
    loaded = gf.load(whole, "cpu", model=GruWithState)
    assert isinstance(loaded.model, OwnLanguageModel)
    assert loaded.generate("abc>", tokens=5, greedy=True) == loaded.generate("abc>", tokens=5, beam=1)
    with pytest.raises(gf.GlassformerError, match="give it again, model=…"):
        gf.load(whole, "cpu")


class OneArgument(GruWithState):
    def __init__(self, vocab: int) -> None:
        super().__init__(vocab, vocab)


class Sized(GruWithState):
    """Its second parameter is not the number of outputs."""

    def __init__(self, vocab: int, hidden_size: int = 13, *, context: int) -> None:
        super().__init__(vocab, vocab)
        self.hidden_size, self.context = hidden_size, context


@pytest.mark.parametrize("own", [OneArgument, Sized])
def test_a_class_gets_the_arguments_that_it_names(own: Any, tmp_path: Path) -> None:
    run = gf.train("copy:rows=200", out=tmp_path / "run", model=own, steps=1, **SETTINGS)
    module = gf.load(run, "cpu", model=own).model.encoder.own
    if own is Sized:
        assert (module.hidden_size, module.context) == (13, 24)


class Misnamed(GruWithState):
    def __init__(self, words: int) -> None:
        super().__init__(words, words)


class Unbuildable(GruWithState):
    def __init__(self, vocab: int) -> None:
        super().__init__(vocab)  # type: ignore[call-arg]


class LastOnly(GruWithState):
    def forward(self, tokens: Tensor, state: Tensor | None = None) -> Tensor:
        return super().forward(tokens, state)[0][:, -1]


class Failing(GruWithState):
    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens.float())


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (LastOnly, r"LastOnly returned 1×31, but must return 1×5×31"),
        (Transformer, "Transformer reads the future: .* use a causal mask"),
        (Failing, "Failing fails on 1×5 tokens: "),
        (Misnamed, 'model "Misnamed" wants words, which its place does not offer: that is vocab, outputs, context'),
        (Unbuildable, 'model "Unbuildable" fails: TypeError: .* missing 1 required positional argument'),
        (lambda vocab: GruWithState(vocab, vocab), "model=… fails: TypeError: .* takes 1 positional argument but 2"),
        (lambda vocab, outputs: "a model", "model=… must be an nn.Module or return one, not a str"),
    ],
)
def test_modules_that_cannot_be_language_models(own: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(gf.GlassformerError, match=message) as caught:
        gf.train("copy:rows=200", out=tmp_path / "run", model=own, steps=1, **SETTINGS)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_from_the_command_line(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["generate", os.fspath(run), "abc>", "--tokens", "4", "--greedy", "--brick", str(LECTURE)])
    assert capsys.readouterr().out.startswith("abc>")
