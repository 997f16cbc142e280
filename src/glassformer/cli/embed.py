"""glassformer embed"""

import sys

from glassformer.cli.options import DEVICE, ENCODING, RUN, TEXT_COLUMN, Option, Parser, flag, values_of
from glassformer.cli.terminal.inputs import check_rows, held_texts, refuse_files
from glassformer.cli.terminal.parts import answer_parts, part_options, takes_parts
from glassformer.cli.terminal.show import say
from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT
from glassformer.data.wording import counted

PARSER = Parser(
    "embed",
    "RUN [TEXT …]",
    "Texts as vectors: what the run's head sees of each (of a linear bag, its scores); of a language model or "
    "translator, the mean over its tokens.",
    'glassformer embed last "the soup was good" "the soup was bad" --out vectors.npy\n'
    "  glassformer embed last --file parts --out vectors --format npy --on ray",
    [
        RUN,
        Option("texts", nargs="*", metavar="TEXT", help="what to embed (default: each line of stdin)"),
        Option("--file", metavar="FILE", help="embed the texts of a table (.csv, .tsv, .jsonl, .parquet), or every "
               "line of a text file; a folder of such parts becomes a folder of parts, and what is done there is not "
               "done again", check=check_rows),
        TEXT_COLUMN,
        ENCODING,
        flag("--tokens", "a vector for each token, instead of one for the text"),
        Option("--out", metavar="FILE", help="a .npy or .jsonl file (default: JSON lines on stdout); of a folder "
               "of parts, a folder"),
        DEVICE,
        flag("--json", "of a folder of parts, print a JSON object that says how many rows, how fast"),
    ],
    groups=part_options("jsonl", "npy"),
)  # fmt: skip


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    is_folder = takes_parts(options, (".npy", ".jsonl"))
    if options.json and not is_folder:
        raise Misuse("--json is for a folder of parts: vectors are JSON lines anyway")

    from glassformer.cli.terminal.show import RowProgress
    from glassformer.families.load import load
    from glassformer.verbs.files import embed_file, write_vectors

    how = values_of(options, ("text", "encoding", "tokens"))
    if is_folder:
        answer_parts(options, embed_file, **how)
        return
    loaded = load(options.run, options.device, say=say)
    if loaded.config.data.kind == TEXT:
        refuse_files(options.texts)
    with RowProgress(printed=options.out is None):
        if options.file is None:
            texts = held_texts(options.texts)
            if not texts:
                raise Misuse("there is no text to embed")
            counts = write_vectors(loaded, iter([texts]), len(texts), options.out or sys.stdout, tokens=options.tokens)
            if blank := sum(counts.unanswered.values()):
                say(f"{counted(blank, 'text is', 'texts are')} empty, and so without a vector")
            count = counts.rows
        else:
            count = embed_file(loaded, options.file, options.out or sys.stdout, **how, say=say).rows
    if options.out is not None:
        say(f"{options.out}: {_amount(options.out, count)}")


def _amount(out: str, count: int) -> str:
    """What was written, in words: of an array its shape."""
    if not out.endswith(".npy"):
        return counted(count, "text")
    import numpy as np

    return f"{' × '.join(map(str, np.load(out, mmap_mode='r').shape))} numbers"
