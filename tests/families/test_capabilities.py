"""What runs and models can do is asked in one way, of ours and of a user's own."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.bricks.capabilities import Capability, capability, parts_with
from glassformer.config.errors import Misuse, NotThisRun, SettingError
from glassformer.config.plugins import VARIABLE, import_file, load_plugins
from glassformer.config.presets import OWN_TASKS
from glassformer.encoders.base import Encoder
from glassformer.families.base import FAMILIES, Loaded
from glassformer.inspection.attention import sizes_of
from glassformer.inspection.views import registry
from glassformer.inspection.views.registry import views_of
from glassformer.inspection.views.word_vectors import word_table
from glassformer.models import capabilities as of_models
from glassformer.models.modules import BagPredictor, MaskedLanguageModel, Predictor, Seq2Seq
from glassformer.models.own import OwnLanguageModel
from glassformer.serving.answers import require
from helpers.beginnings import BODY, quick, write_data
from helpers.loading import TEXTS

FAMILY = Path(__file__).parents[1] / "helpers" / "vowel_family.py"
OF_RUNS = (gf.Generates, gf.Translates, gf.Labels, gf.Fills, gf.Embeds)
OF_MODELS = tuple(
    kind for kind in vars(of_models).values() if isinstance(kind, type) and Capability in kind.__mro__[1:]
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    folder, char = tmp_path_factory.mktemp("runs"), {"tokenizer.kind": "char", **BODY}
    data = write_data(folder)
    made = {
        "writer": quick(data["text"], out=folder / "writer", **char),
        "masked": quick(data["text"], out=folder / "masked", task="masked-language-model", **char),
        "classifier": quick(data["labels"], out=folder / "classifier", **char),
    }
    return {name: gf.load(path, "cpu") for name, path in made.items()}


@pytest.mark.parametrize(
    ("name", "can"), [("writer", gf.Generates), ("masked", gf.Fills), ("classifier", gf.Labels)], ids=str
)
def test_a_run_has_its_capability_and_no_other(name: str, can: Any, runs: dict[str, Loaded]) -> None:
    loaded = runs[name]
    assert [kind for kind in OF_RUNS if loaded.capability(kind) is not None] == [can, gf.Embeds]
    assert loaded.capability(can) is loaded
    assert require(loaded, can, "cannot") is loaded
    with pytest.raises(Misuse, match=rf"{name} is a run of .*: it translates nothing"):
        require(loaded, gf.Translates, "translates nothing")


def test_a_run_has_the_capabilities_of_its_model(runs: dict[str, Loaded]) -> None:
    loaded = runs["writer"]
    assert loaded.capability(of_models.PredictsNext) is loaded.model
    assert loaded.capability(of_models.HasDecoder) is None
    assert not hasattr(loaded, "translate")
    with pytest.raises(NotThisRun, match="which has no translate; it has chat, "):
        loaded.translate("a")


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        (Seq2Seq, {"PredictsNext", "PoolsTokens", "CountsTokens"}),
        (MaskedLanguageModel, {"PredictsNext", "HasDecoder", "PoolsTokens", "CountsTokens"}),
        (Predictor, {"ScoresTokens", "PredictsNext", "HasDecoder", "CountsTokens"}),
        (BagPredictor, {"ScoresTokens", "PredictsNext", "HasDecoder", "LayerOutputs"}),
    ],
)
def test_models_declare(kind: type, lacks: set[str]) -> None:
    assert {one.__name__ for one in OF_MODELS if one not in kind.__mro__} == lacks


# --- a user's own modules ---


class Plain(nn.Module):
    """A classifier that declares nothing."""

    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(vocab, 5), nn.Linear(5, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.out((self.table(tokens) * mask.unsqueeze(-1)).sum(1))

    def word_vectors(self) -> Tensor:
        return self.table.weight


class Declared(Plain, gf.HasWordVectors):
    """The same, with a declared table of word vectors."""


class Sometimes(Declared):
    """The same, without a declared capability."""

    def lacks(self, kind: type) -> bool:
        return kind is gf.HasWordVectors


class First(gf.HasWordVectors, nn.Linear):
    """A capability may stand before the module class."""


def test_only_declarations_count() -> None:
    """A method of the same name is not enough, and a class may take a capability back."""
    assert [capability(made(7, 3), gf.HasWordVectors) is not None for made in (Plain, Declared, Sometimes)] == [
        False,
        True,
        False,
    ]
    assert capability(First(3, 5), gf.HasWordVectors) is not None
    assert First(3, 5).weight.shape == (5, 3)
    assert [path for path, _ in parts_with(nn.Sequential(Plain(7, 3), Declared(7, 3)), gf.HasWordVectors)] == ["1"]


def test_a_declared_capability_gives_a_view(tmp_path: Path) -> None:
    data, settings = write_data(tmp_path)["labels"], {"tokenizer.kind": "char", "training.steps": 2}
    loaded = {}
    for made in (Plain, Declared):
        gf.train(data, out=tmp_path / made.__name__, model=made, draft=True, **settings)
        loaded[made] = gf.load(tmp_path / made.__name__, "cpu", model=made)
        assert loaded[made].capability(gf.Labels) is loaded[made]
        assert loaded[made].capability(gf.Embeds) is None
        with pytest.raises(SettingError, match="a model of your own"):
            loaded[made].embed(TEXTS[0])
    assert ["nearest" in views_of(loaded[made]) for made in (Plain, Declared)] == [False, True]
    assert word_table(loaded[Declared].model).shape[1] == 5
    assert gf.look(loaded[Declared], "a", view="nearest").panels
    with pytest.raises(Misuse, match="Plain is a model of one's own: where its word vectors are, only it knows"):
        word_table(loaded[Plain].model)


class Looks(nn.Module, gf.HasAttention):
    """An attention of a user's own, with one head."""

    heads, is_cross_attention, head_output = 1, False, ""


def test_an_own_attention_is_seen_if_declared() -> None:
    assert sizes_of(nn.Sequential(Looks(), nn.Linear(3, 3))) == {"self": (1, 1)}


def test_an_own_language_model_hides_its_vectors() -> None:
    model = OwnLanguageModel(nn.Embedding(7, 7), vocab=7, context=5)
    assert capability(model, of_models.PredictsNext) is model
    hidden = (of_models.HasVectors, gf.LayerOutputs, gf.HasWordVectors)
    assert [capability(model, kind) for kind in hidden] == [None, None, None]
    assert [path for path, _ in parts_with(model, Encoder)] == ["encoder"]
    assert model(torch.tensor([[1, 2]])).shape == (1, 2, 7)


# --- a user's own family ---


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, str(FAMILY))
    load_plugins()
    yield
    del FAMILIES["count-vowels"], OWN_TASKS["count-vowels"], registry._REGISTERED["letters"]
    del sys.modules[import_file(str(FAMILY)).__name__]  # the next file of tests imports it again


def test_an_own_family_declares_what_its_runs_can(plugin: None, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join("abcdefghij"[: 3 + row % 7] for row in range(40)))
    gf.train(str(lines), out=tmp_path / "run", task="count-vowels", draft=True, steps=2, **{"tokenizer.kind": "char"})
    loaded = gf.load(tmp_path / "run", "cpu")
    assert [kind for kind in OF_RUNS if loaded.capability(kind) is not None] == []

    @dataclass(frozen=True, repr=False)
    class LoadedGenerator(type(loaded), gf.Generates):  # type: ignore[misc]
        def generate(self, prompt: str = "", **how: Any) -> str:
            return prompt + "!"

    facts = {name: getattr(loaded, name) for name in ("tokenizer", "features", "answers", "model", "run", "config")}
    writer = LoadedGenerator(**facts)
    able = writer.capability(gf.Generates)
    assert able is not None
    assert able.generate("a") == "a!"
    with pytest.raises(NotThisRun, match="is a run of count-vowels, which has no fill; it has embed, predict"):
        loaded.fill("a")
