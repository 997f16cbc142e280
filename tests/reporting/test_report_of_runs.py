"""The page that every training leaves: whole, small, offline, and true to the run."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor, nn

from glassformer.cli.options import settings_of
from glassformer.cli.train import PARSER
from glassformer.families.build import prepare
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.load import load
from glassformer.families.recognition import infer_config
from glassformer.inspection.attention import attention_of
from glassformer.rendering.panels import Gallery, Heads, Panel, Patches, Table, Tokens, Words
from glassformer.rendering.view import View
from glassformer.reporting.papers import leave_report
from glassformer.reporting.report import command_of, report
from glassformer.runs.run import Run
from glassformer.training.events import Event, Noted
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import Trained, train
from helpers.kinds import bars, rows_of, write_bars, write_rows
from helpers.running import DATA, StopAfter, labelled, tiny
from helpers.tables import amounts, opinions, write_table
from helpers.translating import mirrored, translating

NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML", "http-equiv")
"""A name, not a place: browsers never ask for it."""


@pytest.fixture(autouse=True)
def errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_STRICT", "1")
    monkeypatch.setattr("glassformer.reporting.papers.leave_report", leave_report)


class Own(nn.Module):
    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, 5)
        self.out = nn.Linear(5, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.out((self.table(tokens) * mask.unsqueeze(-1)).sum(1))


def mixed(folder: Path) -> Path:
    write_bars(folder / "bars", 40)
    kinds, texts = ("lying", "standing"), [text for text, _ in opinions(40)]
    rows = [
        {"text": texts[n], "file": f"bars/{kinds[n % 2]}/{n}.png", "n": str(n % 7), "label": kinds[n % 2]}
        for n in range(40)
    ]
    return write_rows(folder / "mixed.csv", rows)


HELD = {"data.validation_fraction": 0.3}
QUICK = {"training.steps": 3, "training.batch_size": 8, **HELD}
SMALL = {"model.width": 12, "model.layers": 2, "model.heads": 2}

Make = Callable[[Path, Path], Trained]
MAKERS: dict[str, Make] = {
    "language-model": lambda folder, out: train(
        DATA, out=out, **tiny(training__steps=8, training__validate_every=2, training__samples=True)
    ),
    "texts": lambda folder, out: train(
        write_table(folder / "a.csv", opinions(90, classes=3)),
        out=out,
        **labelled("transformer", training__steps=3, data__test_fraction=0.3, model__context=24),
    ),
    "bag": lambda folder, out: train(write_table(folder / "a.csv", opinions(60)), out=out, model="bag", **QUICK),
    "images": lambda folder, out: train(
        write_bars(folder / "bars", 60), out=out, model="transformer", **{**QUICK, **SMALL}
    ),
    "tables": lambda folder, out: train(
        write_rows(folder / "a.csv", rows_of(60)), out=out, model="transformer", **{**QUICK, **SMALL}
    ),
    "mixed": lambda folder, out: train(
        mixed(folder), out=out, model="transformer", extra_columns="n", image="file", **{**QUICK, **SMALL}
    ),
    "numbers": lambda folder, out: train(
        write_table(folder / "a.csv", amounts(60), ("text", "rating")), out=out, model="gru", **QUICK
    ),
    "translation": lambda folder, out: train(
        write_table(folder / "a.csv", mirrored(90), ("source", "target")),
        out=out,
        **translating(training__steps=4, training__validate_every=2, training__samples=True),
    ),
    "own": lambda folder, out: train(write_table(folder / "a.csv", opinions(60)), out=out, model=Own, **QUICK),
}
ATTENDING = {"language-model", "texts", "images", "tables", "mixed", "translation"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of each kind, trained when it is first asked for."""
    folders: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            MAKERS[name](folders[name], folders[name] / "run")
        return folders[name] / "run"

    return make


def page_of(run: Path) -> dict[str, Any]:
    """What the page holds."""
    text = (run / "report.html").read_text(encoding="utf-8")
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    (view,) = json.loads(match.group(1))["views"]
    return dict(view)


def view_of(run: Path) -> View:
    return report(run, model=Own if Run(run).card()["config"]["model"]["encoder"] == "own" else None)


def panel(view: View, title: str) -> Any:
    return next(one for one in view.panels if one.title == title)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MAKERS)
def test_a_page_that_is_small_and_needs_nothing_else(made: Callable[[str], Path], name: str) -> None:
    text = (made(name) / "report.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 2_000_000
    for name in NAMESPACES:
        text = text.replace(name, "")
    assert "http" not in text
    assert "//cdn" not in text


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", MAKERS)
def test_it_holds_the_numbers_of_the_card(made: Callable[[str], Path], name: str) -> None:
    run, card = made(name), Run(made(name)).card()
    tables = {one["title"]: one for one in page_of(run)["panels"] if one["kind"] == "table"}
    scores = tables["How good it is"]
    parts = [part for part in ("validation", "test") if part in card]
    assert scores["columns"] == ["metric", *parts]
    for number, part in enumerate(parts, 1):
        assert [row[number] for row in scores["rows"]] == list(card[part].values())
    trained = dict(tables["What was trained"]["rows"])
    settings = card["config"]
    assert trained["parameters"] == f"{card['parameters']:,}"
    assert trained["updates"] == str(card["steps"])
    assert trained["seconds in updates"] == f"{card['seconds']:.1f}"
    assert (trained["task"], trained["status"]) == (card["task"], "finished")
    assert (trained["model"], trained["seed"]) == (settings["model"]["encoder"], str(settings["training"]["seed"]))
    assert float(trained["learning rate"]) == settings["training"]["lr"]
    assert trained.get("width") == (str(settings["model"]["width"]) if "width" in settings["model"] else None)
    assert trained.get("classes") == (", ".join(card["labels"]) if isinstance(card["labels"], list) else None)
    data = tables[f"Data: {card['data']['name']}"]
    assert card["data"]["report"] in data["note"]
    assert {row[0]: row[2] for row in data["rows"]} == card["data"]["tokens"]
    machine = dict(tables["Where it was trained"]["rows"])
    assert machine["torch"] == card["environment"]["torch"]
    assert (machine["device"], machine["threads"], machine["processes"]) == ("cpu", "1", "1")
    assert card["data"]["name"] in page_of(run)["note"]


@pytest.mark.parametrize("name", MAKERS)
def test_results_come_first_and_settings_are_folded(made: Callable[[str], Path], name: str) -> None:
    panels = {one["title"]: (place, one["folded"]) for place, one in enumerate(page_of(made(name))["panels"])}
    assert panels["How good it is"] == (0, False)
    assert not panels["Loss"][1]
    for folded in ("What was trained", "Learning rate", "Where it was trained"):
        assert panels[folded][1]
        assert panels[folded][0] > panels["Loss"][0]


@pytest.mark.parametrize("name", MAKERS)
def test_made_anew_it_is_the_same(made: Callable[[str], Path], name: str) -> None:
    """So it shows the run's best weights, on the run's own parts."""

    def without_time(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (machine,) = (panel for panel in panels if panel["title"] == "Where it was trained")
        machine["rows"] = [row for row in machine["rows"] if row[0] != "report written"]
        return panels

    view, page = view_of(made(name)), page_of(made(name))
    again = json.loads(json.dumps([one.packed() for one in view.panels]))
    assert without_time(again) == without_time(page["panels"])
    assert (view.title, view.note) == (page["title"], page["note"])


def test_parts_with_their_sizes(made: Callable[[str], Path]) -> None:
    for name, noun, sizes in (("texts", "texts", {"validation", "test"}), ("translation", "pairs", {"validation"})):
        table = next(one for one in view_of(made(name)).panels if one.title.startswith("Data:"))
        assert isinstance(table, Table)
        assert list(table.columns) == ["part", noun, "tokens"]
        counts = {row[0]: row[1] for row in table.rows}
        assert counts.keys() == {"train", *sizes}
        assert sum(counts.values()) == 90


# --- the worst errors ---


def records_of(run: Path) -> list[dict[str, Any]]:
    return evaluate(run).records


def test_the_most_confidently_wrong_texts(made: Callable[[str], Path]) -> None:
    run = made("texts")  # it has a test part: that is where errors are shown
    wrong = [one for one in records_of(run) if one["predicted"] != one["label"]]
    table = panel(view_of(run), "Most confidently wrong")
    assert 0 < len(table.rows) <= 12
    surest = sorted((one["probability"] for one in wrong), reverse=True)[:12]
    assert [row[3] for row in table.rows] == pytest.approx(surest, rel=1e-6)
    texts = {one["text"] for one in wrong}
    assert all(row[0] in texts for row in table.rows)
    card = Run(run).card()
    assert f"{len(wrong)} of {card['test']['texts']} texts are wrong" == table.takeaway
    matrix = panel(view_of(run), "What was taken for what").values
    assert matrix.sum() - np.trace(matrix) == len(wrong)
    assert [row[0] for row in panel(view_of(run), "Class by class").rows] == card["labels"]


def test_wrong_images_are_those_of_the_table(made: Callable[[str], Path]) -> None:
    run = made("images")
    table, gallery = (
        panel(view_of(run), "Most confidently wrong"),
        panel(view_of(run), "Most confidently wrong, as pictures"),
    )
    assert isinstance(gallery, Gallery)
    assert len(gallery.images) == len(table.rows) > 0
    pixels, _ = bars(60)
    for image, row, caption in zip(gallery.images, table.rows, gallery.captions, strict=True):
        number = int(Path(row[0]).stem)
        assert image.tolist() == pixels[number].tolist()
        assert caption.startswith(f"{row[1]}, taken for {row[2]} (")


def test_numbers_farthest_off(made: Callable[[str], Path]) -> None:
    run = made("numbers")
    errors = sorted((abs(one["error"]) for one in records_of(run)), reverse=True)[:12]
    table = panel(view_of(run), "Farthest off")
    assert [abs(row[3]) for row in table.rows] == pytest.approx(errors, rel=1e-6)
    assert all(row[2] - row[1] == pytest.approx(row[3], abs=1e-6) for row in table.rows)


def test_the_worst_translations(made: Callable[[str], Path]) -> None:
    run = made("translation")
    records = evaluate(run, beam=1).records
    scores = sorted(CHRF().sentence_score(one["output"], [one["target"]]).score for one in records)
    table = panel(view_of(run), "Worst translations")
    assert [row[3] for row in table.rows] == pytest.approx(scores[: len(table.rows)])
    assert "nrefs:1" in panel(view_of(run), "How good it is").note


def test_the_most_surprising_passages_of_a_language_model(made: Callable[[str], Path]) -> None:
    run = made("language-model")
    means = [one["loss"] / one["tokens"] for one in records_of(run) if one["tokens"] >= 8]
    assert len(means) > 3
    passages = [one for one in view_of(run).panels if one.title.startswith("Surprising passage")]
    assert len(passages) == 3
    for shown, mean in zip(passages, sorted(means, reverse=True), strict=False):
        assert isinstance(shown, Tokens)
        assert len(shown.tokens) == shown.values.shape[1]
        asked = [token != "<start>" for token in shown.tokens]
        assert shown.values.sum() / sum(asked) == pytest.approx(mean, rel=1e-5)


def test_no_weights_are_learned_from_what_is_held_out(tmp_path: Path) -> None:
    settings = tiny(training__steps=3, training__keep="last", tokenizer__kind="word", tokenizer__min_count=1)
    train(DATA, out=tmp_path / "run", **settings)
    view = view_of(tmp_path / "run")
    (data,) = [one for one in view.panels if one.title.startswith("Data: ")]
    assert data.note.endswith("No weights are learned from validation and test.")  # the last ones are kept


def test_what_validation_is_for(made: Callable[[str], Path]) -> None:
    (data,) = [one for one in view_of(made("bag")).panels if one.title.startswith("Data: ")]
    assert data.note.endswith("from validation and test; validation chooses which weights are kept.")


def test_samples_as_they_went(made: Callable[[str], Path]) -> None:
    for name in ("language-model", "translation"):
        lines = [line for line in Run(made(name)).read_metrics() if line["event"] == "sample"]
        shown = [one for one in view_of(made(name)).panels if one.title.startswith("Sample after")]
        assert len(shown) == min(3, len(lines)) >= 2
        assert shown[0].title == f"Sample after {lines[0]['step']} updates"
        assert shown[-1].title == f"Sample after {lines[-1]['step']} updates"
        assert isinstance(shown[-1], Words)
        assert shown[-1].text == lines[-1]["text"].strip("\n")


# --- attention ---


def looks(run: Path) -> list[Panel]:
    return [one for one in view_of(run).panels if isinstance(one, Heads | Patches)]


@pytest.mark.parametrize("name", MAKERS)
def test_attention_where_there_is_any(made: Callable[[str], Path], name: str) -> None:
    found = looks(made(name))
    assert len(found) == (0 if name not in ATTENDING else 9 if name == "translation" else 3)
    assert all(isinstance(one, Patches) == (name == "images") for one in found)
    for one in found:
        assert isinstance(one, Heads | Patches)
        np.testing.assert_allclose(one.weights.sum(-1), 1, atol=1e-5)
        if isinstance(one, Heads):
            assert one.weights.shape[2:] == (len(one.rows), len(one.columns))
            assert max(one.weights.shape[2:]) <= 48
        else:
            assert one.weights.shape[-1] == one.grid[0] * one.grid[1]
            assert one.pixels.shape == (11, 7, 1)


def test_attention_is_that_of_the_model_on_held_out_texts(made: Callable[[str], Path]) -> None:
    run = made("texts")
    loaded = load(run, "cpu")
    assert isinstance(loaded, LoadedPredictor)
    prepared = prepare(loaded.config, loaded.run)
    examples = prepared.task.parts["validation"]  # type: ignore[attr-defined]
    first = looks(run)[0]
    assert isinstance(first, Heads)
    assert loaded.tokenizer is not None
    rows = [row for row in range(len(examples)) if len(first.rows) == examples.lengths[row]]
    names = {row: [loaded.tokenizer.shown(id) for id in examples.tokens.of(row)] for row in rows}
    row = next(row for row in rows if names[row] == list(first.rows))
    weights = attention_of(loaded.model, examples.take(np.array([row])))["self"]
    np.testing.assert_allclose(first.weights, weights, atol=1e-6)


def test_attention_of_a_translator_names_both_sides(made: Callable[[str], Path]) -> None:
    found = {one.title: one for one in looks(made("translation")) if one.title.startswith("Example 1:")}
    within, cross = found["Example 1: Within the source"], found["Example 1: From the translation to the source"]
    assert isinstance(within, Heads)
    assert isinstance(cross, Heads)
    assert cross.columns == within.rows
    source, output = "".join(cross.columns).removesuffix("<end>"), "".join(cross.rows).removesuffix("<end>")
    assert output == source[::-1].upper()


def test_attention_of_many_heads_stays_small(made: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.reporting.report.MAX_WEIGHTS", 3 * 4 * 10**2)
    found = looks(made("language-model"))
    assert len(found) == 3
    assert all(one.weights.shape[-1] <= 10 for one in found if isinstance(one, Heads))


# --- what goes wrong ---


def test_an_interrupted_training_says_so(tmp_path: Path) -> None:
    settings = tiny(training__steps=50, training__validate_every=3)
    train(DATA, out=tmp_path / "run", listen=StopAfter(5), **settings)
    page = page_of(tmp_path / "run")
    said = next(one for one in page["panels"] if one["title"] == "Not evaluated")["text"]
    assert "The training was interrupted after 5 updates: there is no evaluation yet." in said
    assert f"glassformer train --resume --out {tmp_path / 'run'}" in said
    titles = [one["title"] for one in page["panels"]]
    assert "Loss" in titles
    assert "How good it is" not in titles
    assert [one.title for one in report(tmp_path / "run").panels] == titles
    train(out=tmp_path / "run", resume=True, steps=6)
    assert "How good it is" in [one["title"] for one in page_of(tmp_path / "run")["panels"]]


@pytest.mark.parametrize(("status", "said"), [("failed", "The training failed:"), ("training", "is not finished:")])
def test_a_training_that_never_ended_says_so(tmp_path: Path, status: str, said: str) -> None:
    train(DATA, out=tmp_path / "run", listen=StopAfter(2), **tiny(training__steps=9))
    card = Run(tmp_path / "run").card()
    del card["steps"]
    Run(tmp_path / "run").write_card({**card, "status": status})
    assert said in panel(report(tmp_path / "run"), "Not evaluated").text


def test_a_report_that_cannot_be_made_never_fails_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such\nthing")

    monkeypatch.setattr("glassformer.reporting.papers.report_of", broken)
    with pytest.raises(ValueError, match="no such"):
        train(DATA, out=tmp_path / "strict", **tiny(training__steps=1))
    monkeypatch.delenv("GLASSFORMER_STRICT")
    events: list[Event] = []
    assert train(DATA, out=tmp_path / "run", listen=events.append, **tiny(training__steps=1)).reason == "finished"
    said = [event.text for event in events if isinstance(event, Noted) and "report" in event.text]
    assert said == ["no report.html, though the run itself is whole: ValueError: no such"]
    assert Run(tmp_path / "run").card()["status"] == "finished"


def test_nothing_is_evaluated_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.tasks.prediction import Classification

    judged = []
    plain = Classification.judge

    def counted(self: Classification, *args: Any) -> Any:
        judged.append(args)
        return plain(self, *args)

    monkeypatch.setattr(Classification, "judge", counted)
    table = write_table(tmp_path / "a.csv", opinions(60))
    train(table, out=tmp_path / "run", **labelled("rnn", training__steps=2, training__validate_every=2))
    assert len(judged) == 2  # at the end of the training, and of its best weights


# --- how to do it again ---


def test_the_command_that_was_typed(tmp_path: Path) -> None:
    typed = "glassformer train reverse --steps 1"
    train(DATA, out=tmp_path / "run", command=typed, **tiny(training__steps=1))
    again = panel(report(tmp_path / "run"), "Train it again")
    assert (again.text, again.code) == (typed, True)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "own"])
def test_a_command_that_asks_for_the_same(made: Callable[[str], Path], name: str) -> None:
    """Of a run trained from Python."""
    config = Run(made(name)).config()
    text = panel(view_of(made(name)), "Train it again").text
    assert text == command_of(config)
    program, verb, *words = shlex.split(text)
    assert (program, verb) == ("glassformer", "train")
    options = PARSER.read(words)
    flags = {**settings_of(options), "task": options.task, "data.path": options.data}
    assert infer_config({}, flags)[0] == config


def test_a_model_of_ones_own_is_trained_from_python(made: Callable[[str], Path]) -> None:
    text = panel(view_of(made("own")), "Train it again").text
    path = Run(made("own")).config().data.path
    settings = eval(text.replace("model=…", "model=None").replace("gf.train", "dict").replace(f"{path!r}, ", ""))
    assert text.startswith(f"gf.train({path!r}, model=…, ")
    assert settings["training.steps"] == 3
    assert settings["task"] == "classification"
    assert {key: settings[key] for key in QUICK if key in settings}.items() <= QUICK.items()
