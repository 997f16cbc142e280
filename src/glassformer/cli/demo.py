"""The command `glassformer demo`."""

import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import say, show_text
from glassformer.config.messages import listening, silent
from glassformer.config.units import duration

if TYPE_CHECKING:
    from glassformer.rendering.view import View
    from glassformer.verbs.train import Trained

PLAN = tomllib.loads(files("glassformer.cli").joinpath("demo.toml").read_text("utf-8"))
"""Data, models and settings of each part."""
OPINIONS, DATES, WRITER, STORIES = PLAN["opinions"], PLAN["dates"], PLAN["writer"], PLAN["stories"]
REPORT = "report.html"

PARSER = Parser("demo", checks={"out": check_folder})


def run(argv: list[str]) -> None:
    out = Path(PARSER.read(argv).out)

    from glassformer.cli.terminal.view import show_view
    from glassformer.rendering.view import Views

    began, views = time.monotonic(), []
    whole = duration(sum(seconds for _, seconds, _ in PARTS))
    say(f"{len(PARTS)} parts, about {whole} on two quiet cores of a server")
    for number, (title, seconds, show) in enumerate(PARTS, 1):
        say(f"\n{number} of {len(PARTS)} · {title} · about {duration(seconds)}", "bold")
        with listening(silent):
            views.append(show(out))
        show_view(views[-1])
    Views("What the demo shows", views, about="Trained on embedded data").save(out / REPORT)
    show_text(f"\nAll of it on one page: {out / REPORT}")
    show_text(f"The runs, with curves, model cards, weights and a report each: {out}/")
    say(f"it took {duration(time.monotonic() - began)}")
    say(f'next: glassformer generate {out / "writer"} "Create a" --probabilities')


def _train(part: Mapping[str, Any], out: Path) -> "tuple[Trained, Any]":
    """Train a model; return the result and the loaded run."""
    from glassformer.cli.terminal.progress import Watcher
    from glassformer.families.load import load
    from glassformer.verbs.train import train

    with Watcher() as watcher:
        trained = train(part["data"], out=out, overwrite=True, listen=watcher, **part["settings"])
    if trained.reason == "interrupted":
        raise SystemExit(1)
    return trained, load(trained.run)


def _compare(out: Path) -> "View":
    """Compare classifiers, and show their predictions for sentences with the same words in different order."""
    from glassformer.cli.terminal.progress import Board
    from glassformer.data.datasets.opinions import ORDER_PAIRS
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Table
    from glassformer.trials.compare import compare

    folder = out / "compare"
    with Board() as board:
        comparison = compare(
            OPINIONS["data"],
            models=OPINIONS["models"],
            seeds=1,
            jobs=OPINIONS["jobs"],
            references=False,  # they need scikit-learn, which the demo must not require
            out=folder,
            overwrite=True,
            listen=board,
            say=board.say,
            **OPINIONS["settings"],
        )
    view = comparison.view()
    sentences = [sentence for pair in ORDER_PAIRS for sentence in pair]
    columns = {"sentence": [text for text, _ in sentences], "is": [label for _, label in sentences]}
    for row in comparison.rows:
        if row.is_trained and row.outcomes:
            predictions = load_for("predict", folder / str(row.outcomes[0].run)).predict(columns["sentence"])
            columns[row.label] = [
                f"{prediction.label}\N{NO-BREAK SPACE}{'✓' if prediction.label == label else '✗'}"
                for prediction, label in zip(predictions, columns["is"], strict=True)
            ]
    right = {name: sum(cell.endswith("✓") for cell in cells) for name, cells in columns.items()}
    counts = ", ".join(f"{name} {right[name]}" for name in list(columns)[2:])
    pairs = Table(
        title="The same words, and only their order tells which is which",
        takeaway=f"Right of {len(sentences)}: {counts}" if counts else "",
        columns=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
    )
    return replace(view, title="Which model?", panels=[*view.panels[:2], pairs, *view.panels[2:]])


def _translate(out: Path) -> "View":
    """Translate dates of many languages into one format, and save a picture of the alignment."""
    from glassformer.rendering.panels import Table
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    trained, loaded = _train(DATES, out / "dates")
    assert trained.test is not None
    note = f"{_size(trained)}; on years held out: {trained.test['exact_match']:.1%} exact."
    rows = dates_judged([translation.text for translation in loaded.translate(list(DATES["answers"]))])
    title = f"Where it looks while it writes “{DATES['aligned']}” again"
    alignment = look(loaded, DATES["aligned"], view="alignment")
    assert isinstance(alignment, View)
    alignment.save(out / "alignment.png")
    right = sum(row[-1] == "✓" for row in rows)
    dates = Table(
        title="Dates of years held out, as people write them",
        takeaway=f"{right} of {len(rows)} are right",
        columns=["a date", "translated", "right"],
        rows=rows,
    )
    looks = [replace(panel, title=title) for panel in alignment.panels]
    return View("A translator of dates", [dates, *looks], note=note)


def dates_judged(translated: Sequence[str]) -> list[list[str]]:
    """Return a row per date: the date, its translation, and whether that is correct."""
    pairs = zip(DATES["answers"].items(), translated, strict=True)
    return [[date, written, "✓" if written == day else f"✗ {day}"] for (date, day), written in pairs]


def _write(out: Path) -> "View":
    """Continue some prompts with a language model."""
    from glassformer.rendering.panels import Words
    from glassformer.rendering.view import View

    trained, loaded = _train(WRITER, out / "writer")
    note = f"{_size(trained)}; on the modules held out: {trained.summary}."
    panels = []
    for seed, prompt in enumerate(WRITER["prompts"]):
        text = whole_paragraphs(f"{prompt}{loaded.generate(prompt, tokens=60, temperature=0.5, seed=seed)}")
        panels.append(Words(title=f"It goes on from “{prompt}”", text=text))
    return View("A writer of docstrings", panels, note=note)


def whole_paragraphs(text: str) -> str:
    """Return a text without its last paragraph, which is incomplete; the whole text if it has only one paragraph."""
    return (text.rpartition("\n\n")[0] or text).strip()


def _look_inside(out: Path) -> "View":
    """Find the head that links a pronoun to its name, and write pages for exploring the model."""
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    _, loaded = _train(STORIES, out / "pronouns")
    links = look(loaded, links=STORIES["data"])
    assert isinstance(links, View)
    links = replace(links, title="Whom a pronoun means")
    pages = {
        "pronouns.html": links,
        "look.html": look(loaded, STORIES["story"], view="all"),
        "learning.html": look(loaded, STORIES["story"], view="learning"),
    }
    for name, page in pages.items():
        page.save(out / name)
    show_text(f"Pages to look around in: {', '.join(str(out / name) for name in pages)}")
    return links


def _size(trained: "Trained") -> str:
    return f"{trained.parameters:,} parameters, {trained.steps:,} updates"


PARTS: Sequence[tuple[str, float, "Callable[[Path], View]"]] = (
    ("which model suits restaurant opinions? A bag of words, an LSTM and a Transformer", 40, _compare),
    ("a translator of dates in ten languages: an LSTM with attention", 25, _translate),
    ("a writer: a Transformer on the docstrings of this Python's library", 50, _write),
    ("whom does a pronoun mean? A look into a Transformer that reads stories", 15, _look_inside),
)
"""Title, usual duration in seconds, and function of each part."""
