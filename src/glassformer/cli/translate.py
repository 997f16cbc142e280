"""glassformer translate"""

import sys
from pathlib import Path

from glassformer.cli.options import DEVICE, FILE_ENCODING, PRECISION, RUN, TEXT_COLUMN, Option, Parser, flag, values_of
from glassformer.cli.terminal.inputs import blocks_of, check_lines, refuse_files, writer_to
from glassformer.cli.terminal.parts import answer_parts, part_options, takes_parts
from glassformer.cli.terminal.show import print_json, say
from glassformer.config.errors import Misuse
from glassformer.data.wording import counted
from glassformer.decoding.options import SEARCH_OPTIONS, Search

PARSER = Parser(
    "translate",
    "RUN [TEXT …]",
    "Translate texts, a line each, in their order; blank lines stay blank.",
    'glassformer translate last "le 14 juillet 1989" --beam 5\n'
    "  glassformer translate last --file parts --out translated",
    [
        RUN,
        Option("texts", nargs="*", metavar="TEXT", help="what to translate (default: each line of stdin)"),
        Option("--file", check=check_lines, metavar="FILE", help="translate every line of a text file, or every row of "
               "a table (.csv, .tsv, .jsonl, .parquet), which comes out with its translation added; a folder of such "
               "parts becomes a folder of parts, and what is done there is not done again"),
        TEXT_COLUMN,
        FILE_ENCODING,
        Option("--out", metavar="FILE", help="where to write (default: stdout): .csv, .tsv, .jsonl or .parquet, or "
               "text with one translation per line; of a folder of parts, a folder"),
        Option("--beam", type=int, metavar="N", help="keep N hypotheses in beam search for the most probable "
               "translation; 1 is greedy (default 5)"),
        Option("--length-penalty", type=float, default=1.0, metavar="X", help="translations are ranked by their "
               "log-probability over length to this power: below 1 prefers short ones (default 1)"),
        Option("--nbest", type=int, default=1, metavar="N", help="print N translations per text, with line number and "
               "the score that ranks them (default 1: the text alone)"),
        Option("--temperature", type=float, metavar="X", help="sample instead of searching; below 1 less random, above "
               "1 more random (with --top-k or --top-p: default 1)"),
        Option("--top-k", type=int, metavar="K", help="sample only among the K likeliest tokens"),
        Option("--top-p", type=float, metavar="P", help="sample only among the likeliest tokens that together reach P"),
        Option("--seed", type=int, metavar="N", help="seed of the sampling, the same for every text (default 0)"),
        DEVICE,
        PRECISION,
        flag("--json", "print one JSON object per line; with --file and --out, print one object with the number of "
             "rows and of rows without a translation"),
    ],
    groups=part_options("txt", "csv", "tsv", "jsonl", "parquet"),
)  # fmt: skip


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if options.text is not None and options.file is None:
        raise Misuse("--text goes with --file")
    how = values_of(options, tuple(SEARCH_OPTIONS))
    Search.of(**how)  # refuse wrong options before anything is loaded
    is_folder = takes_parts(options)
    if None not in (options.file, options.out) and Path(options.file).resolve() == Path(options.out).resolve():
        raise Misuse(f"--out {options.out} is the file that is translated: give it another name")
    refuse_files(options.texts)

    from glassformer.cli.terminal.show import RowProgress
    from glassformer.families.load import load_for
    from glassformer.verbs.files import translate_file, translation_lines

    reading = values_of(options, ("text", "encoding", "precision"))
    if is_folder:
        answer_parts(options, translate_file, **how, **reading)
        return
    loaded = load_for("translate", options.run, options.device, say, precision=options.precision)
    written = None
    if options.file is not None:
        with RowProgress(printed=options.out is None):
            kind, out = "jsonl" if options.json and options.out is None else None, options.out or sys.stdout
            written = translate_file(loaded, options.file, out, format=kind, **how, **reading, say=say)
        count = written.rows
    else:
        count = 0
        with writer_to(options.out) as to:
            for block in blocks_of(options.texts):
                translations = loaded.translate(block, **how, say=say)
                to.writelines(translation_lines(translations, to, count, options.nbest, as_json=options.json))
                to.flush()
                count += len(translations)
    if options.out is not None:
        say(f"{counted(count, 'line')} written to {options.out}")
        if options.json and written is not None:
            print_json(written.to_dict())
