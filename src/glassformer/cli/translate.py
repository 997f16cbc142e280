"""glassformer translate"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import blocks_of, check_out
from glassformer.config.errors import Misuse

if TYPE_CHECKING:
    from glassformer.families.translation import Translation

EXAMPLE = 'glassformer translate last "le 14 juillet 1989" --beam 5'


def parser() -> Parser:
    made = Parser("translate", "RUN [TEXT …]", "Translate texts, a line each, in their order; blank lines stay blank.",
                  EXAMPLE)  # fmt: skip
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("texts", nargs="*", metavar="TEXT", help="what to translate (default: each line of stdin)")
    made.add_argument("--file", metavar="FILE", help="translate every line of a text file")
    made.add_argument("--out", metavar="FILE", help="where to write (default: stdout)")
    made.add_argument("--beam", type=int, default=5, metavar="N", help="translations followed at once; 1 is greedy "
                      "(default 5)")  # fmt: skip
    made.add_argument("--length-penalty", type=float, default=1.0, metavar="X", help="translations are ranked by score "
                      "over length to this power: below 1 prefers short ones (default 1)")  # fmt: skip
    made.add_argument("--nbest", type=int, default=1, metavar="N", help="print so many for each text, with line number "
                      "and score (default 1: the text alone)")  # fmt: skip
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--json", action="store_true", help="print one JSON object a line")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    check_out(options.out)
    if None not in (options.file, options.out) and Path(options.file).resolve() == Path(options.out).resolve():
        raise Misuse(f"--out {options.out} is the file that is translated: give it another name")

    from glassformer.cli.terminal.show import say
    from glassformer.decoding.translate import Search
    from glassformer.families.load import load_for

    Search(options.beam, options.length_penalty, options.nbest)  # refuse before a model is loaded
    blocks = blocks_of(options.texts, options.file)
    loaded = load_for("translate", options.run, options.device)
    to = sys.stdout if options.out is None else open(options.out, "w", encoding="utf-8")  # noqa: SIM115
    line = 0
    try:
        for block in blocks:
            found = loaded.translate(
                block, beam=options.beam, length_penalty=options.length_penalty, nbest=options.nbest, say=say
            )
            for text in _lines(found, options.nbest, line, as_json=options.json):
                print(text, file=to)
            to.flush()
            line += len(found)
    finally:
        if options.out is not None:
            to.close()
    if options.out is not None:
        say(f"{line:,} line{'s' * (line != 1)} written to {options.out}")
    return 0


def _lines(found: "Iterable[Translation]", nbest: int, before: int, *, as_json: bool) -> Iterable[str]:
    import json

    from glassformer.cli.terminal.show import printable, visible

    for number, translation in enumerate(found, before + 1):
        if as_json:
            yield json.dumps(translation.to_dict(), ensure_ascii=False)
        elif nbest == 1:
            yield visible(printable(translation.text))
        else:
            yield from (f"{number}\t{one.score:.4f}\t{visible(printable(one.text))}" for one in translation.best)
