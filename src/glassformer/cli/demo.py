"""glassformer demo"""

import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import say, show_text
from glassformer.config.units import duration

if TYPE_CHECKING:
    from glassformer.rendering.view import View
    from glassformer.verbs.train import Trained

PLAN = tomllib.loads(files("glassformer.cli").joinpath("demo.toml").read_text("utf-8"))
"""The data, models and settings of each part."""
OPINIONS, DATES, WRITER, STORIES = PLAN["opinions"], PLAN["dates"], PLAN["writer"], PLAN["stories"]
REPORT = "report.html"

PARSER = Parser("demo", checks={"out": check_folder})


@dataclass(frozen=True)
class Part:
    """A part of the demo."""

    title: str
    seconds: float
    """How long it takes where `PROBE_SECONDS` were measured."""
    show: "Callable[[Path], View]"
    """Does it in a folder, and shows what came of it."""


def run(argv: list[str]) -> None:
    out = Path(PARSER.read(argv).out)

    from glassformer.rendering.view import Views

    began = time.monotonic()
    views = show_parts(PARTS, out, slowness())
    Views("What the demo found", views, about="Trained on embedded data").save(out / REPORT)
    show_text(f"\nAll of it on one page: {out / REPORT}")
    show_text(f"The runs, with curves, model cards, weights and a report each: {out}/")
    say(f"it took {duration(time.monotonic() - began)}")
    say(f'next: glassformer generate {out / "writer"} "Create a" --probabilities')


def show_parts(parts: Sequence[Part], out: Path, slower: float) -> "list[View]":
    """One after the other, and beforehand how long each will take on a machine that is so many times slower."""
    from glassformer.cli.terminal.view import show_view

    whole = duration(slower * sum(part.seconds for part in parts))
    say(f"{len(parts)} parts, about {whole} on this machine")
    views = []
    for number, part in enumerate(parts, 1):
        say(f"\n{number} of {len(parts)} · {part.title} · about {duration(slower * part.seconds)}", "bold")
        view = part.show(out)
        show_view(view)
        views.append(view)
    return views


PROBE_SECONDS = 0.025
"""What the middle one of the probes takes where the parts were measured: two quiet cores of an x86 server."""


def slowness() -> float:
    """How many times longer a little training takes here, on one core, than where the parts were measured."""
    import torch

    layer, numbers = torch.nn.LSTM(64, 64), torch.zeros(32, 32, 64)
    threads, tries = torch.get_num_threads(), []
    torch.set_num_threads(1)  # several would wait for each other on a busy machine
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(5):
            layer(numbers)[0].sum().backward()
        tries.append(time.perf_counter() - began)
    torch.set_num_threads(threads)
    return median(tries) / PROBE_SECONDS


def _train(part: Mapping[str, Any], out: Path) -> "Trained":
    from glassformer.cli.terminal.progress import Watcher
    from glassformer.verbs.train import train

    with Watcher() as watcher:
        trained = train(part["data"], out=out, overwrite=True, listen=watcher, **part["settings"])
    if trained.reason == "interrupted":
        raise SystemExit(1)
    return trained


def _compare(out: Path) -> "View":
    """Classifiers side by side, and what each says of sentences with the same words in another order."""
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
            references=False,  # they need scikit-learn, which the demo does without
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
    """Dates of many languages into one, and a picture of where the translator looks."""
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Table
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    trained = _train(DATES, out / "dates")
    assert trained.test is not None
    loaded = load_for("translate", trained.run)
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
    """Each date, what was made of it, and whether that is the day."""
    pairs = zip(DATES["answers"].items(), translated, strict=True)
    return [[date, written, "✓" if written == day else f"✗ {day}"] for (date, day), written in pairs]


def _write(out: Path) -> "View":
    """A language model goes on from a few words."""
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Words
    from glassformer.rendering.view import View

    trained = _train(WRITER, out / "writer")
    loaded = load_for("generate", trained.run)
    note = f"{_size(trained)}; on the modules held out: {trained.summary}."
    panels = []
    for seed, prompt in enumerate(WRITER["prompts"]):
        text = whole_paragraphs(f"{prompt}{loaded.generate(prompt, tokens=60, temperature=0.5, seed=seed)}")
        panels.append(Words(title=f"It goes on from “{prompt}”", text=text))
    return View("A writer of docstrings", panels, note=note)


def whole_paragraphs(text: str) -> str:
    """A text without its last paragraph, which nobody ended; all of it where there is no other."""
    return (text.rpartition("\n\n")[0] or text).strip()


def _look_inside(out: Path) -> "View":
    """A head that finds whom a pronoun means, and pages to look around in."""
    from glassformer.families.load import load_for
    from glassformer.rendering.panels import Heads
    from glassformer.rendering.view import View
    from glassformer.verbs.look import look

    trained = _train(STORIES, out / "pronouns")
    loaded = load_for("generate", trained.run)
    story, pronoun, meant = STORIES["story"], STORIES["pronoun"], STORIES["meant"]
    links = look(loaded, links=STORIES["data"])
    assert isinstance(links, View)
    best = str(links.panels[0].to_dict()["rows"][0][0])
    layer, head = map(int, best.split("."))
    attention = look(loaded, story, view="attention", layer=layer, head=head)
    assert isinstance(attention, View)
    (shown,) = attention.panels
    assert isinstance(shown, Heads)
    row, column = list(shown.rows).index(pronoun), list(shown.columns).index(meant)
    share = float(shown.weights[layer, head, row, column])
    told = f"Head {best} gives {share:.2f} of what “{pronoun}” looks at to “{meant}”"
    heads = [replace(shown, title=f"Where the heads look in “{story}”", takeaway=told)]
    links = replace(links, title="Whom a pronoun means", panels=[*links.panels, *heads])
    pages = {
        "pronouns.html": links,
        "look.html": look(loaded, story, view="all"),
        "learning.html": look(loaded, story, view="learning"),
    }
    for name, page in pages.items():
        page.save(out / name)
    show_text(f"Pages to look around in: {', '.join(str(out / name) for name in pages)}")
    return links


def _size(trained: "Trained") -> str:
    return f"{trained.parameters:,} parameters, {trained.steps:,} updates"


PARTS = (
    Part("which model suits restaurant opinions? A bag of words, an LSTM and a Transformer", 40, _compare),
    Part("a translator of dates in ten languages: an LSTM with attention", 25, _translate),
    Part("a writer: a Transformer on the docstrings of this Python's library", 50, _write),
    Part("whom does a pronoun mean? A look into a Transformer that reads stories", 15, _look_inside),
)
