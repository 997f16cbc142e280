"""A student's bricks in models of ours: trained, written with, looked at and checked like ours."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import glassformer as gf
from glassformer.bricks.own import OwnBrick
from glassformer.cli.main import main
from glassformer.config.errors import Misuse
from glassformer.config.resolve import Config, resolve
from glassformer.decoding.running import Request, RunningBatch
from glassformer.decoding.sampling import GREEDY
from glassformer.encoders.registry import Place, build_encoder
from glassformer.inspection.attention import attention_of
from glassformer.inspection.views.registry import views_of
from glassformer.runs.run import Run

ALL: dict[str, Any] = {
    "model.scores": "by-hand", "model.norm": "mean-size", "model.positions": "ramp", "model.context": 24
}  # fmt: skip
ATTENTIONS: dict[str, dict[str, Any]] = {
    "by-hand": {"model.scores": "by-hand"},
    "turned": {"model.scores": "turned"},
    "all": ALL,
}


def config(**settings: Any) -> Config:
    return resolve({}, settings)


def encoder_of(settings: dict[str, Any], *, causal: bool = True) -> Any:
    torch.manual_seed(0)
    made = build_encoder(config(**{"model.width": 8, "model.heads": 2, "model.layers": 2, **settings}).model,
                         Place(input_width=8, causal=causal)).eval()  # fmt: skip
    for weight in made.parameters():
        nn.init.normal_(weight, std=0.5)
    return made


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("writer") / "run"
    gf.train("reverse:rows=200", out=out, size="hand", steps=4, **ALL)
    return out


@pytest.mark.parametrize("settings", ATTENTIONS.values(), ids=ATTENTIONS)
@torch.inference_mode()
def test_pieces_equal_the_whole(settings: dict[str, Any]) -> None:
    encoder = encoder_of(settings)
    x = torch.randn(3, 7, 8)
    whole, state = encoder(x), encoder.init_state(3, 7)
    pieces = [encoder.extend(x[:, a:b], state) for a, b in ((0, 3), (3, 4), (4, 7))]
    assert torch.allclose(torch.cat(pieces, 1), whole, atol=1e-5)


@pytest.mark.parametrize("settings", ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize("fixed", [False, True])
@torch.inference_mode()
def test_rows_of_different_lengths(settings: dict[str, Any], fixed: bool) -> None:
    """Each row goes on as it would alone, also in the place of another, and in another order."""
    encoder = encoder_of(settings)
    x, lengths = torch.randn(3, 9, 8), torch.tensor([5, 2, 4])
    alone = [encoder(x[row : row + 1, : length + 2]) for row, length in enumerate(lengths)]
    first = encoder.init_state(3, 9)
    encoder.extend(x[:, :5], first, torch.arange(5) < lengths.unsqueeze(1))
    state = encoder.init_state(3, 9)
    state.put(torch.tensor([2, 0, 1]), first)
    if fixed:
        assert state.fix(9)
    state = state.reorder(torch.tensor([2, 0, 1]))
    for step in range(2):
        new = x[torch.arange(3), lengths + step].unsqueeze(1)
        out = encoder.extend(new, state)
        for row, length in enumerate(lengths):
            assert torch.allclose(out[row, 0], alone[row][0, length + step], atol=1e-5)


@torch.inference_mode()
def test_documents_are_apart() -> None:
    encoder = encoder_of({"model.scores": "turned"})
    x, segments = torch.randn(1, 6, 8), torch.tensor([[0, 0, 1, 1, 1, 1]])
    apart = encoder(x, segments=segments)
    assert torch.allclose(apart[:, 2:], encoder(x[:, 2:]), atol=1e-5)
    with pytest.raises(Misuse, match=r'"by-hand" of student_bricks\.py cannot keep documents apart'):
        config(**{"model.scores": "by-hand", "data.documents_apart": True})


def test_its_weights_start_as_it_starts_them() -> None:
    torch.manual_seed(0)
    made: Any = build_encoder(config(**ALL).model, Place(input_width=128, causal=True))
    made.init_weights("gpt2")
    own = [module for module in made.modules() if isinstance(module, OwnBrick)]
    assert {module.part.kind for module in own} == {"attention", "norm", "positions"}
    assert (made.norm.own.gain == 0.5).all()
    bound = 128**-0.5  # as torch starts a linear map
    assert 0.9 * bound < made.blocks[0].attend.own.query.weight.abs().max() <= bound
    assert float(made.blocks[0].feed.input.weight.detach().std()) == pytest.approx(0.02, rel=0.1)


def test_rotary_positions_are_for_those_who_take_them() -> None:
    assert config(**{"model.scores": "by-hand"}).model.positions == "learned"
    assert config(**{"model.scores": "by-hand", "model.style": "llama"}).model.positions == "learned"
    assert config(**{"model.scores": "turned"}).model.positions == "rotary"
    with pytest.raises(Misuse, match="takes no rotary positions: choose others"):
        config(**{"model.scores": "by-hand", "model.positions": "rotary"})
    with pytest.raises(Misuse, match=r"model\.qk_norm does nothing with attention .by-hand"):
        config(**{"model.scores": "by-hand", "model.qk_norm": True})


def batched(model: Any, prompts: list[list[int]], tokens: int, *, fixed: bool) -> list[list[int]]:
    batch = RunningBatch(model, len(prompts), room=24, fixed=fixed)
    batch.join({row: Request(prompt, GREEDY, tokens) for row, prompt in enumerate(prompts)})
    texts: list[list[int]] = [[] for _ in prompts]
    while len(batch.free) < len(prompts):
        for row, one in batch.step().items():
            texts[row].append(one.token)
    return texts


@pytest.mark.parametrize("fixed", [False, True])
def test_texts_written_together_are_those_without_a_cache(writer: Path, fixed: bool) -> None:
    loaded: Any = gf.load(writer, "cpu")
    prompts = [[1, 5, 6, 7], [1, 9]]
    for prompt, written in zip(prompts, batched(loaded.model, prompts, 5, fixed=fixed), strict=True):
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            for _ in range(5):
                ids = torch.cat([ids, loaded.model(ids)[:, -1:].argmax(-1)], 1)
        assert ids[0, len(prompt) :].tolist() == written


@pytest.mark.slow
def test_writes_and_is_checked(writer: Path) -> None:
    found = gf.check(writer, only="cached,batched,padded,looked-at,saved,resumed", device="cpu")
    assert [check.passed for check in found.checked] == [True] * 6, found.words
    assert gf.load(writer, "cpu", precision="int8").generate("abc", tokens=3)


def test_is_looked_at(writer: Path) -> None:
    loaded: Any = gf.load(writer, "cpu")
    ids = torch.tensor([[1, 5, 6, 7]])
    weights = attention_of(loaded.model, (ids,))["self"]
    with gf.capture(loaded.model) as seen:
        loaded.model(ids)
    attend = loaded.model.encoder.blocks[0].attend
    expected = attend.own(seen["encoder.blocks.0.attend.input"])[1][0].detach().numpy()
    assert weights.shape == (1, 2, 4, 4)
    assert weights[0] == pytest.approx(expected, abs=1e-6)
    assert seen["encoder.blocks.0.attend.own.value.output"].shape == (1, 4, 4)  # its parts, too
    for view in ("attention", "roles", "numbers", "diagram", "next", "tree", "shortest"):
        assert gf.look(loaded, "abc", view=view).panels, view
    assert gf.look(loaded, view="positions").panels
    assert "head-ablation" not in views_of(loaded)


@pytest.mark.slow
def test_attention_that_tells_no_weights_has_no_view_of_them(tmp_path: Path) -> None:
    run = gf.train("reverse:rows=60", out=tmp_path / "run", size="hand", steps=2, **{"model.scores": "turned"})
    loaded: Any = gf.load(run, "cpu")
    assert "attention" not in views_of(loaded)
    assert gf.look(loaded, "abc", view="next").panels
    found = gf.check(run, only="cached,padded", device="cpu")
    assert [check.passed for check in found.checked] == [True] * 2, found.words


def test_a_classifier_from_the_command_line(
    table: Path, tmp_path: Path, student: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    chosen = {**ALL, "model.pool": "middle", "size": "hand", "steps": 3, "model": "transformer"}
    flags = [word for key, value in chosen.items() for word in (f"--{key}", str(value))]
    assert main(["train", str(table), "--out", str(out), "--brick", str(student), *flags]) == 0
    assert main(["predict", str(out), "the soup was good", f"--brick={student}"]) == 0
    assert "the soup was good" in capsys.readouterr().out
    loaded: Any = gf.load(out, "cpu")
    one, other = ("the soup was good", "the film which I saw was awful and long")
    together = loaded.predict([one, other])
    assert together[0].probabilities == pytest.approx(loaded.predict(one).probabilities, abs=1e-5)
    assert {part["kind"] for part in Run.open(out).card()["bricks"]} == {"attention", "norm", "positions", "pooling"}
    found = gf.check(out, only="batched,padded,saved", device="cpu")
    assert [check.passed for check in found.checked] == [True] * 3, found.words


@pytest.mark.slow
def test_a_translator(tmp_path: Path) -> None:
    small = {**ALL, "model.context": 64, "model.width": 8, "model.heads": 2, "model.layers": 1}
    run = gf.train("reverse-pairs:rows=60", out=tmp_path / "run", task="translation", steps=2, **small)
    found = gf.check(run, only="cached,batched,padded", device="cpu")
    assert [check.passed for check in found.checked] == [True] * 3, found.words
    loaded: Any = gf.load(run, "cpu")
    assert loaded.translate("abc", beam=3).best[0].text


def test_a_convolutional_network_with_an_own_norm(tmp_path: Path) -> None:
    settings = {"model.norm": "mean-size", "model.width": 8, "model.layers": 1}
    run = gf.train("reverse:rows=60", out=tmp_path / "run", model="cnn", steps=2, **settings)
    found = gf.check(run, only="cached,padded", device="cpu")
    assert [check.passed for check in found.checked] == [True] * 2, found.words


def test_a_whole_model_by_name(table: Path, tmp_path: Path, student: Path) -> None:
    out = tmp_path / "run"
    assert (
        main(["train", str(table), "--model", "sums", "--steps", "3", "--out", str(out), "--brick", str(student)]) == 0
    )
    loaded = gf.load(out, "cpu")
    assert type(loaded.model).__name__ == "Sums"
    assert gf.evaluate(out, device="cpu").metrics == pytest.approx(Run.open(out).card()["validation"])
    found = gf.check(out, only="batched,padded,saved,resumed", device="cpu")
    assert [check.passed for check in found.checked] == [True] * 4, found.words
    assert gf.look(out, "the soup was good", view="attribution").panels
    with pytest.raises(Misuse, match=r"Sums returned .*, but must return"):
        gf.train("reverse:rows=60", out=tmp_path / "no", model="sums", steps=2)


def test_export_to_hugging_face_is_refused(writer: Path, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r'attention "by-hand" of student_bricks\.py is unknown to transformers'):
        gf.export(writer, to="hf", folder=tmp_path / "hf")


@pytest.mark.slow
def test_is_exported_as_a_graph(writer: Path, tmp_path: Path) -> None:
    assert tmp_path / "onnx" / "model.onnx" in gf.export(writer, to="onnx", folder=tmp_path / "onnx")


@pytest.mark.slow
def test_is_compared_in_processes_of_its_own(table: Path, tmp_path: Path) -> None:
    found = gf.compare(
        table, models="transformer", vary={"model.norm": ["rms", "mean-size"]}, seeds=1, jobs=2,
        out=tmp_path / "compared", size="hand", steps=2,
    )  # fmt: skip
    assert len(found.rows) >= 2
    runs = [Run.open(path.parent).card() for path in (tmp_path / "compared").rglob("glassformer.json")]
    assert sorted(len(card.get("bricks", ())) for card in runs) == [0, 1]


@pytest.mark.slow
def test_is_tuned_in_processes_of_its_own(table: Path, tmp_path: Path) -> None:
    small: dict[str, Any] = {"size": "hand", "steps": 2, "model.norm": "mean-size"}
    space = {"model.pool": ["mean", "middle"]}
    gf.tune(table, model="transformer", space=space, trials=2, jobs=2, out=tmp_path / "tuned", **small)
    assert "norm" in {part["kind"] for part in Run.open(tmp_path / "tuned" / "best").card()["bricks"]}
