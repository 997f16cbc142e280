"""glassformer embed"""

import sys

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_rows, held_texts, refuse_files
from glassformer.cli.terminal.parts import answer_parts, takes_parts
from glassformer.cli.terminal.show import say
from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT
from glassformer.data.wording import counted
from glassformer.verbs.parts.options import Shard

PARSER = Parser("embed", checks={"file": check_rows, "shard": Shard.parse})


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    is_folder = takes_parts(options, (".npy", ".jsonl"))
    if options.json and not is_folder:
        raise Misuse("--json is for a folder of parts: vectors are JSON lines anyway")

    from glassformer.cli.terminal.show import RowProgress
    from glassformer.families.load import load
    from glassformer.verbs.files import embed_file, write_vectors

    if is_folder:
        answer_parts(options, embed_file)
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
            arguments = {**arguments_of(options, embed_file), "run": loaded, "out": options.out or sys.stdout}
            count = embed_file(**arguments, say=say).rows
    if options.out is not None:
        say(f"{options.out}: {_amount(options.out, count)}")


def _amount(out: str, count: int) -> str:
    """What was written, in words: of an array its shape."""
    if not out.endswith(".npy"):
        return counted(count, "text")
    import numpy as np

    return f"{' × '.join(map(str, np.load(out, mmap_mode='r').shape))} numbers"
