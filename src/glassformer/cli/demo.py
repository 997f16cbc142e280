"""glassformer demo"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser
from glassformer.config.errors import Misuse

if TYPE_CHECKING:
    from glassformer.verbs.train import Trained

WRITING: dict[str, Any] = {
    "tokenizer.vocab_size": 2048,
    "model.context": 96,
    "training.batch_size": 16,
    "training.samples": False,
}
WRITERS = {"a Transformer": "transformer", "an LSTM of like size": "lstm"}
PROMPT = "Return the"
READERS: dict[str, dict[str, Any]] = {
    "a bag of words": {"model": "bag", "epochs": 5},
    "a Transformer": {"model": "transformer", "model.width": 64},
}


DATES = (
    "le 14 juillet 1989",
    "Freitag, 9. November 1989",
    "2011年3月11日",
    "20 июля 1969 г.",
    "July 4, 2026",
    "١٧ ديسمبر ٢٠١٠",
)
ALIGNED = "Freitag, 9. November 1989"
STORY = "carl met olga behind the house . in summer he sails ."
STORY_UPDATES = 800
DATE_UPDATES = 1400
"""For each minute that was asked for: what it takes on two cores that have nothing else to do, and what dates need."""


class Stopped(Exception):
    """The person pressed Ctrl-C."""


def run(words: list[str]) -> int:
    parser = Parser("demo", "", "The main job on the embedded data: six models, their numbers, and what they say.",
                    "glassformer demo --minutes 1 --out runs/demo")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=1.0, metavar="X", help="of training for each (default 1)")
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help="where to (default runs/demo)")
    options = parser.read(words)
    if options.minutes <= 0:
        raise Misuse(f"--minutes is {options.minutes:g}, but must be above 0")

    from rich.text import Text

    from glassformer.cli.show import results, say

    try:
        _write(Path(options.out), options.minutes)
        _judge(Path(options.out), options.minutes)
        _translate(Path(options.out), options.minutes)
        _look_inside(Path(options.out), options.minutes)
    except Stopped:
        return 1
    results.print(Text(f"\nThe runs, with curves, model card and weights: {options.out}/"))
    results.print(
        Text(f"The report of each is a page of its own, such as {options.out}/opinions-transformer/report.html")
    )
    say(f'next: glassformer generate {options.out}/transformer "Create a" --probabilities')
    return 0


def _train(data: str, out: Path, **settings: Any) -> "Trained":
    from glassformer.cli.show import Watcher
    from glassformer.verbs.train import train

    watcher = Watcher()
    try:
        trained = train(data, out=out, overwrite=True, listen=watcher, **settings)
    finally:
        watcher.close()
    if trained.reason == "interrupted":
        raise Stopped
    return trained


def _write(out: Path, minutes: float) -> None:
    """Two language models go on from the same words."""
    from rich.text import Text

    from glassformer.cli.show import results, say, table
    from glassformer.verbs.load import load_writer

    shown = table("model", "parameters", "updates", "loss", "perplexity", "bits per byte")
    writings = {}
    for name, encoder in WRITERS.items():
        say(f"{name}, {minutes:g} minutes, on the docstrings of this Python's library")
        trained = _train("docstrings", out / encoder, **WRITING, model=encoder, minutes=minutes)
        metrics = trained.validation
        shown.add_row(name, f"{trained.parameters:,}", f"{trained.steps:,}", f"{metrics['loss']:.3f}",
                      f"{metrics['perplexity']:.1f}", f"{metrics['bits_per_byte']:.3f}")  # fmt: skip
        writings[name] = load_writer(trained.run).generate(PROMPT, tokens=60, temperature=0.7)
    results.print(Text("\nOn the modules held out:", style="bold"))
    results.print(shown)
    for name, text in writings.items():
        results.print(Text(f"\n{name} goes on from “{PROMPT}”:", style="bold"))
        results.print(Text(f"{PROMPT}{text}".strip()))


def _judge(out: Path, minutes: float) -> None:
    """Two classifiers on sentences with the same words in another order."""
    from rich.text import Text

    from glassformer.cli.show import results, say, table
    from glassformer.data.opinions import ORDER_PAIRS
    from glassformer.verbs.load import LoadedPredictor, load

    shown = table("model", "parameters", "updates", "accuracy", "macro F1")
    answers = {}
    sentences = [sentence for pair in ORDER_PAIRS for sentence, _ in pair]
    for name, settings in READERS.items():
        say(f"{name} on restaurant opinions")
        budget = {} if "epochs" in settings else {"minutes": minutes}
        trained = _train("opinions", out / f"opinions-{settings['model']}", **settings, **budget)
        assert trained.test is not None
        shown.add_row(name, f"{trained.parameters:,}", f"{trained.steps:,}", f"{trained.test['accuracy']:.3f}",
                      f"{trained.test['macro_f1']:.3f}")  # fmt: skip
        loaded = load(trained.run)
        assert isinstance(loaded, LoadedPredictor)
        answers[name] = [prediction.label for prediction in loaded.predict(sentences)]
    results.print(Text("\nOn opinions with sentence patterns and nouns that were held out:", style="bold"))
    results.print(shown)
    results.print(Text("\nThe same words, and only their order tells which is which:", style="bold"))
    pairs = table("sentence", "is", *answers)
    for number, (sentence, label) in enumerate(one for pair in ORDER_PAIRS for one in pair):
        verdicts = [f"{said[number]} {'✓' if said[number] == label else '✗'}" for said in answers.values()]
        pairs.add_row(Text(sentence), label, *verdicts, end_section=number % 2 == 1)
    results.print(pairs)


def _translate(out: Path, minutes: float) -> None:
    """Dates of many languages into one, and a picture of where the translator looks."""
    from rich.text import Text

    from glassformer.cli.show import results, say, table
    from glassformer.verbs.load import load_translator
    from glassformer.verbs.look import look

    say("an LSTM with attention on dates in thirty languages")
    trained = _train("dates", out / "dates", model="lstm", steps=max(1, round(DATE_UPDATES * minutes)))
    assert trained.test is not None
    loaded = load_translator(trained.run)
    results.print(Text("\nDates of years that were held out, written as people write them:", style="bold"))
    results.print(
        f"{trained.parameters:,} parameters, {trained.steps:,} updates; {trained.test['exact_match']:.1%} exact"
    )
    shown = table("a date", "translated")
    for translation in loaded.translate(DATES):
        shown.add_row(Text(translation.source), Text(translation.text))
    results.print(shown)
    picture = out / "alignment.png"
    look(loaded, ALIGNED, view="alignment").save(picture)
    results.print(Text(f"\nWhere it looks while it writes “{ALIGNED}” anew: {picture}"))


def _look_inside(out: Path, minutes: float) -> None:
    """A head that finds whom a pronoun means, and pages to look around in."""
    from rich.text import Text

    from glassformer.cli.show import results, say
    from glassformer.inside.view import View
    from glassformer.verbs.load import load_writer
    from glassformer.verbs.look import look

    say("a Transformer on stories in which she and he mean somebody")
    steps = max(1, round(STORY_UPDATES * minutes))
    trained = _train("pronouns", out / "pronouns", steps=steps, keep_checkpoints=True)
    loaded = load_writer(trained.run)
    found = look(loaded, links="pronouns")
    assert isinstance(found, View)
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
