"""glassformer demo"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Option, Parser
from glassformer.cli.terminal.show import say, show_table, show_text
from glassformer.config.errors import Misuse

if TYPE_CHECKING:
    from glassformer.rendering.view import View
    from glassformer.verbs.train import Trained

RUNGS = ("bag", "lstm", "transformer")
"""The models of the ladder that are compared on opinions."""
JOBS = 2
WRITING: dict[str, Any] = {
    "tokenizer.vocab_size": 2048,
    "model.context": 96,
    "training.batch_size": 16,
    "training.samples": False,
}
PROMPT = "Return the"
DATES = {
    "le 14 juillet 1989": "1989-07-14",
    "Freitag, 9. November 1989": "1989-11-09",
    "2011年3月11日": "2011-03-11",
    "20 июля 1969 г.": "1969-07-20",
    "July 4, 2026": "2026-07-04",
    "١٧ ديسمبر ٢٠١٠": "2010-12-17",
}
"""Dates as people write them, and the same day as it should be written."""
DATE_COLUMNS = ("a date", "translated", "right")
ALIGNED = "Freitag, 9. November 1989"
STORY = "carl met olga behind the house . in summer he sails ."
STORY_UPDATES = 800
DATE_UPDATES = 1400
"""Updates for each minute that was asked for: what it takes on two cores that have nothing else to do, and what dates
need."""
REPORT = "report.html"


PARSER = Parser(
    "demo",
    "",
    "The main job on the embedded data: a short ladder of classifiers side by side, a translator of dates, two "
    "language models, what each of them learned, and one report of it all.",
    "glassformer demo --minutes 1 --out runs/demo",
    [
        Option("--minutes", type=float, default=1.0, metavar="X", help="of training for each (default 1)"),
        Option("--out", default="runs/demo", metavar="DIR", help="where to (default runs/demo)"),
    ],
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if options.minutes <= 0:
        raise Misuse(f"--minutes is {options.minutes:g}, but must be above 0")
    if Path(options.out).exists() and not Path(options.out).is_dir():
        raise Misuse(f"--out {options.out} is a file, but must be a folder, or a name that is free")

    from glassformer.rendering.view import Views

    out, minutes = Path(options.out), options.minutes
    views = [
        _compare(out, minutes),
        *_translate(out, minutes),
        _write(out, minutes),
        _look_inside(out, minutes),
    ]
    Views("What the demo found", views, about="Trained on embedded data").save(out / REPORT)
    show_text(f"\nAll of it on one page: {out / REPORT}")
    show_text(f"The runs, with curves, model cards, weights and a report each: {out}/")
    say(f'next: glassformer generate {out / "writer"} "Create a" --probabilities')


def _train(data: str, out: Path, **settings: Any) -> "Trained":
    from glassformer.cli.terminal.progress import Watcher
    from glassformer.verbs.train import train

    with Watcher() as watcher:
        trained = train(data, out=out, overwrite=True, listen=watcher, **settings)
    if trained.reason == "interrupted":
        raise SystemExit(1)
    return trained


def _compare(out: Path, minutes: float) -> "View":
    """Classifiers side by side, and what each says of sentences with the same words in another order."""
    from glassformer.cli.terminal.progress import Board
    from glassformer.cli.terminal.view import show_view
    from glassformer.data.datasets.opinions import ORDER_PAIRS
    from glassformer.families.load import load_for
    from glassformer.trials.compare import compare

    say("which model suits restaurant opinions? A bag of words, an LSTM and a Transformer side by side")
    folder = out / "compare"
    with Board() as board:
        comparison = compare(
            "opinions",
            models=RUNGS,
            seeds=1,
            minutes=minutes,
            jobs=JOBS,
            out=folder,
            overwrite=True,
            listen=board,
            say=board.say,
        )
    view = comparison.view()
    show_view(view)
    sentences = [sentence for pair in ORDER_PAIRS for sentence in pair]
    columns = {"sentence": [text for text, _ in sentences], "is": [label for _, label in sentences]}
    for row in comparison.rows:
        if row.is_trained and row.outcomes:
            predictions = load_for("predict", folder / str(row.outcomes[0].run)).predict(columns["sentence"])
            columns[row.label] = [
                f"{prediction.label} {'✓' if prediction.label == label else '✗'}"
                for prediction, label in zip(predictions, columns["is"], strict=True)
            ]
    show_text("The same words, and only their order tells which is which:", "bold")
    show_table(list(columns), zip(*columns.values(), strict=True))
    return view


def _write(out: Path, minutes: float) -> "View":
    """A language model goes on from a few words."""
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Words
    from glassformer.rendering.view import View

    say(f"a Transformer, {minutes:g} minutes, on the docstrings of this Python's library")
    trained = _train("docstrings", out / "writer", **WRITING, model="transformer", minutes=minutes)
    text = f"{PROMPT}{load_for('generate', trained.run).generate(PROMPT, tokens=60, temperature=0.7)}".strip()
    note = f"{trained.parameters:,} parameters, {trained.steps:,} updates; on the modules held out: {trained.summary}."
    show_text("\nA language model of docstrings", "bold")
    show_text(f"{note}\nIt goes on from “{PROMPT}”:\n{text}")
    return View("A language model of docstrings", [Words(title=f"It goes on from “{PROMPT}”", text=text)], note=note)


def _translate(out: Path, minutes: float) -> "list[View]":
    """Dates of many languages into one, and a picture of where the translator looks."""
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Table
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    say("an LSTM with attention on dates in thirty languages")
    trained = _train("dates", out / "dates", model="lstm", steps=max(1, round(DATE_UPDATES * minutes)))
    assert trained.test is not None
    loaded = load_for("translate", trained.run)
    exact = f"{trained.test['exact_match']:.1%} exact"
    show_text("\nDates of years that were held out, written as people write them:", "bold")
    show_text(f"{trained.parameters:,} parameters, {trained.steps:,} updates; {exact}")
    rows = dates_judged([translation.text for translation in loaded.translate(list(DATES))])
    show_table(DATE_COLUMNS, rows)
    picture = out / "alignment.png"
    alignment = look(loaded, ALIGNED, view="alignment")
    assert isinstance(alignment, View)
    alignment = replace(alignment, title=f"Where the translator looks: {ALIGNED}")
    alignment.save(picture)
    show_text(f"\nWhere it looks while it writes “{ALIGNED}” anew: {picture}")
    dates = Table(columns=list(DATE_COLUMNS), rows=rows)
    note = f"{trained.parameters:,} parameters, {trained.steps:,} updates; on years held out: {exact}."
    return [View("A translator of dates", [dates], note=note), alignment]


def dates_judged(translated: Sequence[str]) -> list[list[str]]:
    """Each date, what was made of it, and whether that is the day."""
    pairs = zip(DATES.items(), translated, strict=True)
    return [[date, written, "✓" if written == day else f"✗ {day}"] for (date, day), written in pairs]


def _look_inside(out: Path, minutes: float) -> "View":
    """A head that finds whom a pronoun means, and pages to look around in."""
    from glassformer.families.load import load_for
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    say("a Transformer on stories in which she and he mean somebody")
    steps = max(1, round(STORY_UPDATES * minutes))
    trained = _train("pronouns", out / "pronouns", steps=steps, keep_checkpoints=True)
    loaded = load_for("generate", trained.run)
    links = look(loaded, links="pronouns")
    assert isinstance(links, View)
    links = replace(links, title="Whom a pronoun means: what each head looks at")
    show_text("\nWhom does a pronoun mean? What each head looks at, on stories held out:", "bold")
    show_text(links.note)
    pages = {
        "pronouns.html": links,
        "look.html": look(loaded, STORY, view="all"),
        "learning.html": look(loaded, STORY, view="learning"),
    }
    for name, page in pages.items():
        page.save(out / name)
    show_text(f"Pages to look around in: {', '.join(str(out / name) for name in pages)}")
    return links
