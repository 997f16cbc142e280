"""glassformer translate"""

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli.options import DEVICE, FILE_ENCODING, PRECISION, RUN, Option, Parser, flag
from glassformer.cli.terminal.inputs import blocks, blocks_of, check_lines, check_out, lines_of, refuse_files, writer_to
from glassformer.cli.terminal.screen import Screen
from glassformer.cli.terminal.show import say, visible
from glassformer.config.errors import Misuse
from glassformer.config.progress import counting_on
from glassformer.data.wording import counted
from glassformer.decoding.options import Search
from glassformer.text.escaping import TEXT, json_line

if TYPE_CHECKING:
    from glassformer.families.translation import Translation

TOGETHER = 1024
"""Lines of a file that are translated at once: of so many, some are of like length, and little is padded."""

PARSER = Parser(
    "translate",
    "RUN [TEXT …]",
    "Translate texts, a line each, in their order; blank lines stay blank.",
    'glassformer translate last "le 14 juillet 1989" --beam 5',
    [
        RUN,
        Option("texts", nargs="*", default=[], metavar="TEXT", help="what to translate (default: each line of stdin)"),
        Option("--file", check=check_lines, metavar="FILE", help="translate every line of a text file"),
        FILE_ENCODING,
        Option("--out", metavar="FILE", help="where to write (default: stdout)"),
        Option("--beam", type=int, default=5, metavar="N", help="translations followed at once; 1 is greedy "
               "(default 5)"),
        Option("--length-penalty", type=float, default=1.0, metavar="X", help="translations are ranked by their "
               "log-probability over length to this power: below 1 prefers short ones (default 1)"),
        Option("--nbest", type=int, default=1, metavar="N", help="print so many for each text, with line number and "
               "the score that ranks them (default 1: the text alone)"),
        DEVICE,
        PRECISION,
        flag("--json", "print one JSON object a line"),
    ],
)  # fmt: skip


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    Search(options.beam, options.length_penalty, options.nbest)  # refuse at once
    check_out(options.out)
    if None not in (options.file, options.out) and Path(options.file).resolve() == Path(options.out).resolve():
        raise Misuse(f"--out {options.out} is the file that is translated: give it another name")

    refuse_files(options.texts)
    # a file is read now: one that is not there is told before a model is loaded
    file = [] if options.file is None else lines_of(options.file, options.encoding)
    some_texts = blocks_of(options.texts) if options.file is None else blocks(file, TOGETHER)

    from glassformer.cli.terminal.rows import RowProgress
    from glassformer.families.load import load_for

    loaded = load_for("translate", options.run, options.device, say, precision=options.precision)
    line = 0
    with (
        RowProgress(printed=options.out is None) if file else contextlib.nullcontext(),
        writer_to(options.out) as to,
    ):
        screen = Screen(to, TEXT)
        for block in some_texts:
            with counting_on(line, len(file), "line"):
                translations = loaded.translate(
                    block, beam=options.beam, length_penalty=options.length_penalty, nbest=options.nbest, say=say
                )
            for text in _lines(translations, options.nbest, line, as_json=options.json):
                screen.write(f"{text}\n")
            to.flush()
            line += len(translations)
    if options.out is not None:
        say(f"{counted(line, 'line')} written to {options.out}")


def _lines(translations: "Iterable[Translation]", nbest: int, before: int, *, as_json: bool) -> Iterable[str]:
    for number, translation in enumerate(translations, before + 1):
        if as_json:
            yield json_line(translation.to_dict(), sys.stdout.encoding)
        elif nbest == 1:
            yield visible(translation.text)
        else:
            yield from (f"{number}\t{best.score:.4f}\t{visible(best.text)}" for best in translation.best)
