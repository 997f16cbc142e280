"""glassformer demo"""

from pathlib import Path
from typing import Any

from glassformer.cli.options import Parser
from glassformer.config.errors import Misuse

SETTINGS: dict[str, Any] = {
    "tokenizer.vocab_size": 2048,
    "model.context": 96,
    "training.batch_size": 16,
    "training.samples": False,
}
MODELS = {"a Transformer": "transformer", "an LSTM of like size": "lstm"}
PROMPT = "Return the"


def run(words: list[str]) -> int:
    parser = Parser("demo", "", "The main job on the embedded data: two models, their numbers and their writing.",
                    "glassformer demo --minutes 1 --out runs/demo")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=1.5, metavar="X", help="of training for each (default 1.5)")
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help="where to (default runs/demo)")
    options = parser.read(words)
    if options.minutes <= 0:
        raise Misuse(f"--minutes is {options.minutes:g}, but must be above 0")

    from rich.text import Text

    from glassformer.cli.show import Watcher, results, say, table
    from glassformer.verbs.load import load
    from glassformer.verbs.train import train

    shown = table("model", "parameters", "updates", "loss", "perplexity", "bits per byte")
    writings = {}
    for number, (name, encoder) in enumerate(MODELS.items(), 1):
        say(f"[{number}/{len(MODELS)}] {name}, {options.minutes:g} minutes, on the docstrings of this Python's library")
        watcher = Watcher()
        try:
            trained = train(
                "docstrings",
                out=Path(options.out) / encoder,
                overwrite=True,
                listen=watcher,
                **{**SETTINGS, "model": encoder, "minutes": options.minutes},
            )
        finally:
            watcher.close()
        if trained.reason == "interrupted":
            return 1
        metrics = trained.validation
        shown.add_row(name, f"{trained.parameters:,}", f"{trained.steps:,}", f"{metrics['loss']:.3f}",
                      f"{metrics['perplexity']:.1f}", f"{metrics['bits_per_byte']:.3f}")  # fmt: skip
        writings[name] = load(trained.run).generate(PROMPT, tokens=60, temperature=0.7)
    results.print(Text("\nOn the modules held out:", style="bold"))
    results.print(shown)
    for name, text in writings.items():
        results.print(Text(f"\n{name} goes on from “{PROMPT}”:", style="bold"))
        results.print(Text(f"{PROMPT}{text}".strip()))
    results.print(Text(f"\nThe runs, with curves, model card and weights: {options.out}/"))
    say(f'next: glassformer generate {options.out}/transformer "Create a" --probabilities')
    return 0
