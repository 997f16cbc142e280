"""glassformer embed"""

import sys
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_out, texts_of
from glassformer.config.errors import Misuse

if TYPE_CHECKING:
    from glassformer.families.requests import Embedded

EXAMPLE = 'glassformer embed last "the soup was good" "the soup was bad" --out vectors.npy'


def parser() -> Parser:
    made = Parser("embed", "RUN [TEXT …]", "Texts as vectors: what the run's head sees of each (of a linear bag, its "
                  "scores); of a language model or translator, the mean over its tokens.", EXAMPLE)  # fmt: skip
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("texts", nargs="*", metavar="TEXT", help="what to embed (default: each line of stdin)")
    made.add_argument("--file", metavar="FILE", help="embed the texts of a table (.csv, .tsv, .jsonl, .parquet), or "
                      "every line of a text file")  # fmt: skip
    made.add_argument("--text", metavar="NAME", help="the table's text column (default: as in the run's data)")
    made.add_argument(
        "--encoding",
        "--data.encoding",
        dest="encoding",
        metavar="NAME",
        help="of the file (default: as the run's data)",
    )
    made.add_argument("--tokens", action="store_true", help="a vector for each token, instead of one for the text")
    made.add_argument("--out", metavar="FILE", help="a .npy or .jsonl file (default: JSON lines on stdout)")
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    check_out(options.out, (".npy", ".jsonl"))

    import json

    import numpy as np

    from glassformer.cli.terminal.show import say
    from glassformer.families.load import load
    from glassformer.verbs.predict_file import read_texts

    loaded = load(options.run, options.device)
    if options.file is None:
        texts = list(texts_of(options.texts))
    else:
        _, texts = read_texts(loaded, options.file, text=options.text, encoding=options.encoding)
    if not texts:
        raise Misuse("there is no text to embed")
    array = options.out is not None and options.out.endswith(".npy")
    if array and options.tokens and len(texts) > 1:
        raise Misuse(f"{len(texts)} texts of different lengths make no array: with --tokens, use .jsonl")
    found = loaded.embed(texts, tokens=options.tokens)
    if array:
        vectors = np.stack([one.vector for one in found]) if found[0].vectors is None else found[0].vectors
        np.save(options.out, vectors)
        say(f"{options.out}: {' × '.join(map(str, vectors.shape))} numbers")
        return 0
    lines = (json.dumps(_row(one), ensure_ascii=False) + "\n" for one in found)
    if options.out is None:
        sys.stdout.writelines(lines)
        return 0
    with open(options.out, "w", encoding="utf-8") as file:
        file.writelines(lines)
    say(f"{options.out}: {len(found):,} texts")
    return 0


def _row(one: "Embedded") -> dict[str, Any]:
    if one.vectors is not None:
        return {"text": one.text, "tokens": one.tokens, "vectors": one.vectors.tolist()}
    return {"text": one.text, "vector": one.vector.tolist()}
