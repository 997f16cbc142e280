"""glassformer tokenizer"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli.options import Parser, add_settings, run_action, settings_of
from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.config.sections import DataSettings, TokenizerSettings

if TYPE_CHECKING:
    from glassformer.text.tokenizer import Tokenizer

KINDS = "char,word,bpe:1000,bpe:4000,bpe:16000"

HELP = """usage: glassformer tokenizer train DATA --out FILE      learn the tokens of a text
       glassformer tokenizer show WHERE TEXT           how a text is cut (WHERE: a run, a tokenizer.json, or data)
       glassformer tokenizer compare DATA              kinds and sizes side by side, on text held out

example:
  glassformer tokenizer compare docstrings --kinds char,word:5000,bpe:1000,bpe:8000
"""


def run(argv: list[str]) -> int:
    return run_action(argv or ["--help"], {"train": train, "show": show, "compare": compare}, HELP)


def _texts(data: str, settings: DataSettings) -> Iterator[str]:
    from glassformer.data.io.source import open_source

    return (chunk.text for chunk in open_source(data, settings).chunks())


def train(argv: list[str]) -> int:
    parser = Parser(
        "tokenizer train",
        "DATA",
        "Learn the tokens of a text.",
        "glassformer tokenizer train docstrings --tokenizer.kind bpe --vocab-size 2000 --out tokens.json",
    )
    parser.add_argument("data", metavar="DATA", help="a text file, a folder, a .jsonl file, or an embedded data set")
    parser.add_argument("--out", metavar="FILE", default="tokenizer.json", help="where to (default tokenizer.json)")
    parser.add_argument("--mask", action="store_true", help="with a <mask> token, for masked language models")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_settings(parser, ("tokenizer", "data"))
    options = parser.read(argv)
    config = resolve({}, settings_of(options))
    if Path(options.out).exists() and not options.overwrite:
        raise Misuse(f"{options.out} is already there: replace it with --overwrite, or name another --out")

    from glassformer.cli.terminal.show import print_json, results, say
    from glassformer.data.io.source import open_source, survey
    from glassformer.data.split.documents import whole
    from glassformer.text.tokenizer import Tokenizer

    part = whole(survey(open_source(options.data, config.data)), "whole")
    texts = (chunk.text for chunk in part.chunks())
    tokenizer = Tokenizer.train(texts, config.tokenizer, say, total_bytes=part.bytes, mask=options.mask)
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(options.out)
    if options.json:
        print_json({"file": options.out, "kind": tokenizer.kind, "vocab_size": tokenizer.vocab_size,
                    "hash": tokenizer.hash})  # fmt: skip
    else:
        results.print(f"{options.out}: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}")
    say(f'next: glassformer tokenizer show {options.out} "A sentence."')
    return 0


def show(argv: list[str]) -> int:
    parser = Parser(
        "tokenizer show",
        "WHERE [TEXT]",
        "How a text is cut into tokens.",
        'glassformer tokenizer show last "unbelievable transformers" --merges',
    )
    parser.add_argument("where", metavar="WHERE", help="a run, a tokenizer.json, or data to train a tokenizer on")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text to cut")
    parser.add_argument("--merges", action="store_true", help="BPE's merges one by one; without a text, those learned")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_settings(parser, ("tokenizer", "data"))
    options = parser.read(argv)
    if options.text is None and not options.merges:
        raise Misuse("TEXT is missing (or --merges, for the merges learned)")

    from rich.text import Text

    from glassformer.cli.terminal.show import print_json, results, table, visible
    from glassformer.text.merging import learned_merges, merges_of

    tokenizer = _find(options.where, settings_of(options))
    if options.text is None:
        if tokenizer.kind != "bpe":
            raise Misuse(f"merges are what bpe does; this tokenizer is of kind {tokenizer.kind}")
        for rank, (left, right) in enumerate(learned_merges(tokenizer), 1):
            results.print(Text(f"{rank:6}  {left!r} + {right!r} → {left + right!r}"))
        return 0
    pieces = tokenizer.encode_with_offsets(options.text)
    steps = merges_of(tokenizer, options.text) if options.merges else []
    if options.json:
        print_json({"tokens": [piece._asdict() for piece in pieces], **(
            {"merges": [step._asdict() for step in steps]} if options.merges else {})})  # fmt: skip
        return 0
    for step in steps:
        merge = "bytes" if step.pair is None or step.rank is None else f"merge {step.rank + 1}"
        pair = "" if step.pair is None else f"{step.pair[0]!r} + {step.pair[1]!r}"
        results.print(Text(f"{merge:>12}  {pair:<24} {'|'.join(visible(piece) for piece in step.pieces)}"))
    if steps:
        results.print()
    results.print(Text("|".join(visible(piece.text) for piece in pieces)))
    shown = table("token", "id", "characters")
    for piece in pieces:
        shown.add_row(Text(repr(piece.text)), str(piece.id), f"{piece.start}–{piece.end}")
    results.print(shown)
    results.print(f"{len(pieces)} tokens for {len(options.text)} characters")
    return 0


def _find(where: str, settings: dict[str, object]) -> "Tokenizer":
    """A run's tokenizer, a file's, or one trained now."""
    from glassformer.cli.terminal.show import say
    from glassformer.text.tokenizer import Tokenizer

    path = Path(where)
    made = where == "last" or (path / "glassformer.json").is_file() or (path.is_file() and path.suffix == ".json")
    if made and settings:
        raise Misuse(f"{where} has its tokenizer already: {next(iter(settings))} would do nothing")
    if where == "last" or (path / "glassformer.json").is_file():
        from glassformer.runs.run import Run

        found = Run.open(where).tokenizer()
        if found is None:
            raise Misuse(f"{where} reads no words: it has no tokenizer")
        return found
    if path.is_file() and path.suffix == ".json":
        return Tokenizer.load(path)
    config = resolve({}, settings)
    say(f"training a {config.tokenizer.kind} tokenizer on {where} (--tokenizer.kind changes that)")
    return Tokenizer.train(_texts(where, config.data), config.tokenizer, say)


def compare(argv: list[str]) -> int:
    parser = Parser(
        "tokenizer compare",
        "DATA",
        "Kinds and sizes of tokenizers side by side: trained on nine tenths of a text, measured on the rest.",
        "glassformer tokenizer compare docstrings --kinds char,word:5000,bpe:1000,bpe:8000",
    )
    parser.add_argument("data", metavar="DATA", help="a text file, a folder, a .jsonl file, or an embedded data set")
    parser.add_argument(
        "--kinds", default=KINDS, metavar="LIST", help=f"kind or kind:size, with commas between (default {KINDS})"
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_settings(parser, ("data",))
    options = parser.read(argv)
    config = resolve({}, settings_of(options))
    kinds = [_kind(word) for word in options.kinds.split(",")]

    from glassformer.cli.terminal.show import print_json, results, table
    from glassformer.text.comparison import compare_tokenizers

    rows = compare_tokenizers(lambda: _texts(options.data, config.data), kinds)
    if options.json:
        print_json({"tokenizers": [row._asdict() for row in rows]})
        return 0
    shown = table("kind", "vocabulary", "tokens per word", "bytes per token", "unknown")
    for row in rows:
        shown.add_row(row.kind, f"{row.vocab_size:,}", f"{row.tokens_per_word:.2f}", f"{row.bytes_per_token:.2f}",
                      f"{row.unknown_rate:.2%}")  # fmt: skip
    results.print(shown)
    return 0


def _kind(word: str) -> TokenizerSettings:
    kind, _, size = word.strip().partition(":")
    if size and not size.isdigit():
        raise Misuse(f"--kinds wants kind or kind:size, not '{word}'")
    return dataclasses.replace(TokenizerSettings(kind=kind), vocab_size=int(size) if size else None)
