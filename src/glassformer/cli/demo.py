"""glassformer demo"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser
from glassformer.config.errors import Misuse

if TYPE_CHECKING:
    from glassformer.rendering.view import View
    from glassformer.verbs.train import Trained

RUNGS = ("bag", "lstm", "transformer")
"""Of the ladder, compared on opinions."""
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
"""As people write them, and the same day as it should be written."""
DATE_COLUMNS = ("a date", "translated", "right")
ALIGNED = "Freitag, 9. November 1989"
STORY = "carl met olga behind the house . in summer he sails ."
STORY_UPDATES = 800
DATE_UPDATES = 1400
"""For each minute that was asked for: what it takes on two cores that have nothing else to do, and what dates need."""
REPORT = "report.html"


class Stopped(Exception):
    """The person pressed Ctrl-C."""


def run(argv: list[str]) -> int:
    parser = Parser("demo", "", "The main job on the embedded data: a short ladder of classifiers side by side, a "
                    "translator of dates, two language models, what each of them learned, and one report of it all.",
                    "glassformer demo --minutes 1 --out runs/demo")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=1.0, metavar="X", help="of training for each (default 1)")
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help="where to (default runs/demo)")
    options = parser.read(argv)
    if options.minutes <= 0:
        raise Misuse(f"--minutes is {options.minutes:g}, but must be above 0")
    if Path(options.out).exists() and not Path(options.out).is_dir():
        raise Misuse(f"--out {options.out} is a file, but must be a folder, or a name that is free")

    from rich.text import Text

    from glassformer.cli.terminal.show import results, say
    from glassformer.rendering.view import Views

    out, minutes = Path(options.out), options.minutes
    try:
        views = [
            _compare(out, minutes),
            *_translate(out, minutes),
            _write(out, minutes),
            _look_inside(out, minutes),
        ]
    except Stopped:
        return 1
    Views("What the demo found", views, about="Trained on embedded data").save(out / REPORT)
    results.print(Text(f"\nAll of it on one page: {out / REPORT}"))
    results.print(Text(f"The runs, with curves, model cards, weights and a report each: {out}/"))
    say(f'next: glassformer generate {out / "writer"} "Create a" --probabilities')
    return 0


def _train(data: str, out: Path, **settings: Any) -> "Trained":
    from glassformer.cli.terminal.show import Watcher
    from glassformer.verbs.train import train

    watcher = Watcher()
    try:
        trained = train(data, out=out, overwrite=True, listen=watcher, **settings)
    finally:
        watcher.close()
    if trained.reason == "interrupted":
        raise Stopped
    return trained


def _compare(out: Path, minutes: float) -> "View":
    """Classifiers side by side, and what each says of sentences with the same words in another order."""
    from rich.text import Text

    from glassformer.cli.terminal.board import Board
    from glassformer.cli.terminal.show import results, say, table
    from glassformer.cli.terminal.view import show_view
    from glassformer.data.datasets.opinions import ORDER_PAIRS
    from glassformer.families.load import load_for
    from glassformer.trials.compare import compare

    say("which model suits restaurant opinions? A bag of words, an LSTM and a Transformer side by side")
    folder = out / "compare"
    with Board() as board:
        found = compare(
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
    view = found.view()
    show_view(view)
    answers = {}
    sentences = [sentence for pair in ORDER_PAIRS for sentence, _ in pair]
    for row in found.rows:
        if row.is_trained and row.outcomes:
            loaded = load_for("predict", folder / str(row.outcomes[0].run))
            answers[row.label] = [prediction.label for prediction in loaded.predict(sentences)]
    results.print(Text("The same words, and only their order tells which is which:", style="bold"))
    pairs = table("sentence", "is", *answers)
    for number, (sentence, label) in enumerate(one for pair in ORDER_PAIRS for one in pair):
        verdicts = [f"{said[number]} {'✓' if said[number] == label else '✗'}" for said in answers.values()]
        pairs.add_row(Text(sentence), label, *verdicts, end_section=number % 2 == 1)
    results.print(pairs)
    return view


def _write(out: Path, minutes: float) -> "View":
    """A language model goes on from a few words."""
    from rich.text import Text

    from glassformer.cli.terminal.show import results, say
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Words
    from glassformer.rendering.view import View

    say(f"a Transformer, {minutes:g} minutes, on the docstrings of this Python's library")
    trained = _train("docstrings", out / "writer", **WRITING, model="transformer", minutes=minutes)
    text = f"{PROMPT}{load_for('generate', trained.run).generate(PROMPT, tokens=60, temperature=0.7)}".strip()
    note = f"{trained.parameters:,} parameters, {trained.steps:,} updates; on the modules held out: {trained.summary}."
    results.print(Text("\nA language model of docstrings", style="bold"))
    results.print(Text(f"{note}\nIt goes on from “{PROMPT}”:"))
    results.print(Text(text))
    return View("A language model of docstrings", [Words(title=f"It goes on from “{PROMPT}”", text=text)], note=note)


def _translate(out: Path, minutes: float) -> "list[View]":
    """Dates of many languages into one, and a picture of where the translator looks."""
    from rich.text import Text

    from glassformer.cli.terminal.show import results, say, table
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Table
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    say("an LSTM with attention on dates in thirty languages")
    trained = _train("dates", out / "dates", model="lstm", steps=max(1, round(DATE_UPDATES * minutes)))
    assert trained.test is not None
    loaded = load_for("translate", trained.run)
    exact = f"{trained.test['exact_match']:.1%} exact"
    results.print(Text("\nDates of years that were held out, written as people write them:", style="bold"))
    results.print(f"{trained.parameters:,} parameters, {trained.steps:,} updates; {exact}")
    rows = dates_judged([translation.text for translation in loaded.translate(list(DATES))])
    shown = table(*DATE_COLUMNS)
    for row in rows:
        shown.add_row(*map(Text, row))
    results.print(shown)
    picture = out / "alignment.png"
    alignment = look(loaded, ALIGNED, view="alignment")
    assert isinstance(alignment, View)
    alignment = replace(alignment, title=f"Where the translator looks: {ALIGNED}")
    alignment.save(picture)
    results.print(Text(f"\nWhere it looks while it writes “{ALIGNED}” anew: {picture}"))
    dates = Table(columns=list(DATE_COLUMNS), rows=rows)
    note = f"{trained.parameters:,} parameters, {trained.steps:,} updates; on years held out: {exact}."
    return [View("A translator of dates", [dates], note=note), alignment]


def dates_judged(translated: Sequence[str]) -> list[list[str]]:
    """Each date, what was made of it, and whether that is the day."""
    pairs = zip(DATES.items(), translated, strict=True)
    return [[date, said, "✓" if said == day else f"✗ {day}"] for (date, day), said in pairs]


def _look_inside(out: Path, minutes: float) -> "View":
    """A head that finds whom a pronoun means, and pages to look around in."""
    from rich.text import Text

    from glassformer.cli.terminal.show import results, say
    from glassformer.families.load import load_for
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    say("a Transformer on stories in which she and he mean somebody")
    steps = max(1, round(STORY_UPDATES * minutes))
    trained = _train("pronouns", out / "pronouns", steps=steps, keep_checkpoints=True)
    loaded = load_for("generate", trained.run)
    found = look(loaded, links="pronouns")
    assert isinstance(found, View)
    found = replace(found, title="Whom a pronoun means: what each head looks at")
    results.print(Text("\nWhom does a pronoun mean? What each head looks at, on stories held out:", style="bold"))
    results.print(Text(found.note))
    pages = {
        "pronouns.html": found,
        "look.html": look(loaded, STORY, view="all"),
        "learning.html": look(loaded, STORY, view="learning"),
    }
    for name, seen in pages.items():
        seen.save(out / name)
    results.print(Text(f"Pages to look around in: {', '.join(str(out / name) for name in pages)}"))
    return found
