"""glassformer embed"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import DEVICE, ENCODING, RUN, TEXT_COLUMN, Option, Parser, flag
from glassformer.cli.terminal.inputs import check_out, held_texts, refuse_files, writer_to
from glassformer.cli.terminal.show import say
from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT
from glassformer.data.wording import counted
from glassformer.text.escaping import json_line

if TYPE_CHECKING:
    from glassformer.families.requests import Embedded

PARSER = Parser(
    "embed",
    "RUN [TEXT …]",
    "Texts as vectors: what the run's head sees of each (of a linear bag, its scores); of a language model or "
    "translator, the mean over its tokens.",
    'glassformer embed last "the soup was good" "the soup was bad" --out vectors.npy',
    [
        RUN,
        Option("texts", nargs="*", default=[], metavar="TEXT", help="what to embed (default: each line of stdin)"),
        Option("--file", metavar="FILE", help="embed the texts of a table (.csv, .tsv, .jsonl, .parquet), or every "
               "line of a text file"),
        TEXT_COLUMN,
        ENCODING,
        flag("--tokens", "a vector for each token, instead of one for the text"),
        Option("--out", metavar="FILE", help="a .npy or .jsonl file (default: JSON lines on stdout)"),
        DEVICE,
    ],
)  # fmt: skip


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    check_out(options.out, (".npy", ".jsonl"))

    import numpy as np

    from glassformer.families.load import load
    from glassformer.runs.files import aside
    from glassformer.verbs.predict_file import read_texts

    loaded = load(options.run, options.device, say=say)
    if loaded.config.data.kind == TEXT:
        refuse_files(options.texts)
    if options.file is None:
        texts = held_texts(options.texts)
    else:
        _, texts = read_texts(loaded, options.file, text=options.text, encoding=options.encoding, say=say)
    if not texts:
        raise Misuse("there is no text to embed")
    array = options.out is not None and options.out.endswith(".npy")
    if array and options.tokens and len(texts) > 1:
        raise Misuse(f"{len(texts)} texts of different lengths make no array: with --tokens, use .jsonl")
    embedded = loaded.embed(texts, tokens=options.tokens)
    if array:
        vectors = embedded[0].vectors
        if vectors is None:
            vectors = np.stack([text.vector for text in embedded])
        with aside(Path(options.out)) as part, open(part, "wb") as file:
            np.save(file, vectors)
        say(f"{options.out}: {' × '.join(map(str, vectors.shape))} numbers")
        return
    with writer_to(options.out) as to:
        to.writelines(json_line(_row(text), to.encoding) + "\n" for text in embedded)
    if options.out is not None:
        say(f"{options.out}: {counted(len(embedded), 'text')}")


def _row(embedded: "Embedded") -> dict[str, Any]:
    if embedded.vectors is not None:
        return {"text": embedded.text, "tokens": embedded.tokens, "vectors": embedded.vectors.tolist()}
    return {"text": embedded.text, "vector": embedded.vector.tolist()}
