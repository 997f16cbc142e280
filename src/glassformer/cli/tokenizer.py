"""The command `glassformer tokenizer`."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli.options import Parser, run_action, settings_of
from glassformer.cli.terminal.show import print_json, say, show_table, show_text, visible
from glassformer.config.errors import Misuse
from glassformer.config.resolve import resolve
from glassformer.config.sections import DataSettings, TokenizerSettings

if TYPE_CHECKING:
    from glassformer.text.analysis import Merge
    from glassformer.text.tokenizer import Piece, Tokenizer

TRAIN, SHOW, COMPARE = [Parser(f"tokenizer {action}") for action in ("train", "show", "compare")]


def run(argv: list[str]) -> None:
    run_action("tokenizer", argv or ["--help"], {"train": train, "show": show, "compare": compare})


def _texts(data: str, settings: DataSettings) -> Iterator[str]:
    from glassformer.data.io.source import open_source

    return (chunk.text for chunk in open_source(data, settings).chunks())


def train(argv: list[str]) -> None:
    options = TRAIN.read(argv)
    config = resolve({}, settings_of(options))
    if Path(options.out).exists() and not options.overwrite:
        raise Misuse(f"{options.out} is already there: replace it with --overwrite, or name another --out")

    from glassformer.data.io.source import open_source
    from glassformer.data.io.survey import survey
    from glassformer.data.split.documents import whole_text
    from glassformer.text.tokenizer import Tokenizer

    part = whole_text(survey(open_source(options.data, config.data)), "whole")
    texts = (chunk.text for chunk in part.chunks())
    tokenizer = Tokenizer.train(texts, config.tokenizer, total_bytes=part.bytes, mask=options.mask)
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(options.out)
    if options.json:
        print_json({"file": options.out, "kind": tokenizer.kind, "vocab_size": tokenizer.vocab_size,
                    "hash": tokenizer.hash})  # fmt: skip
    else:
        show_text(f"{options.out}: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}")
    say(f'next: glassformer tokenizer show {options.out} "A sentence."')


def show(argv: list[str]) -> None:
    options = SHOW.read(argv)
    if not options.texts and not options.merges:
        raise Misuse("TEXT is missing (or --merges, for the merges learned)")

    from glassformer.text.analysis import learned_merges, merges_of

    tokenizer, framed = _find(options.where, settings_of(options))
    if not options.texts:
        if tokenizer.kind != "bpe":
            raise Misuse(f"merges are what bpe does; this tokenizer is of kind {tokenizer.kind}")
        for rank, (left, right) in enumerate(learned_merges(tokenizer), 1):
            show_text(f"{rank:6}  {left!r} + {right!r} → {left + right!r}")
    for number, text in enumerate(options.texts):
        steps = merges_of(tokenizer, text) if options.merges else []
        pieces = tokenizer.encode_with_offsets(text, framed=framed)
        if options.json:
            merges = {"merges": [step._asdict() for step in steps]} if options.merges else {}
            print_json({"text": text, "tokens": [piece._asdict() for piece in pieces], **merges})
            continue
        if number:
            show_text()
        _show_pieces(text, pieces, steps)


def _show_pieces(text: str, pieces: "list[Piece]", steps: "list[Merge]") -> None:
    for step in steps:
        merge = "bytes" if step.pair is None or step.rank is None else f"merge {step.rank + 1}"
        pair = "" if step.pair is None else f"{step.pair[0]!r} + {step.pair[1]!r}"
        show_text(f"{merge:>12}  {pair:<24} {'|'.join(visible(piece) for piece in step.pieces)}")
    if steps:
        show_text()
    show_text("|".join(visible(piece.text) for piece in pieces))
    rows = [[repr(piece.text), str(piece.id), f"{piece.start}–{piece.end}"] for piece in pieces]
    show_table(["token", "id", "characters"], rows)
    show_text(f"{len(pieces)} tokens for {len(text)} characters")


def _find(where: str, settings: dict[str, object]) -> "tuple[Tokenizer, bool]":
    """Return the tokenizer of a run or a file, or one trained now; and whether texts are framed by START and END."""
    from glassformer.text.tokenizer import Tokenizer

    path = Path(where)
    is_run = where == "last" or (path / "glassformer.json").is_file()
    is_file = path.is_file() and path.suffix == ".json"
    if (is_run or is_file) and settings:
        raise Misuse(f"{where} has its tokenizer already: {next(iter(settings))} would do nothing")
    if is_file:
        return Tokenizer.load(path), True
    if is_run:
        from glassformer.runs.run import Run

        run = Run.open(where)
        tokenizer = run.tokenizer()
        if tokenizer is None:
            raise Misuse(f"{where} reads no words: it has no tokenizer")
        return tokenizer, run.config().framed
    config = resolve({}, settings)
    say(f"training a {config.tokenizer.kind} tokenizer on {where} (--tokenizer.kind changes that)")
    return Tokenizer.train(_texts(where, config.data), config.tokenizer), True


def compare(argv: list[str]) -> None:
    options = COMPARE.read(argv)
    config = resolve({}, settings_of(options))
    kinds = [_kind(word) for word in options.kinds.split(",")]

    from glassformer.text.analysis import compare_tokenizers

    compared = compare_tokenizers(lambda: _texts(options.data, config.data), kinds)
    if options.json:
        print_json({"tokenizers": [row._asdict() for row in compared]})
        return
    rows = [
        [row.kind, f"{row.vocab_size:,}", f"{row.tokens_per_word:.2f}", f"{row.bytes_per_token:.2f}",
         f"{row.unknown_rate:.2%}"]
        for row in compared
    ]  # fmt: skip
    show_table(["kind", "vocabulary", "tokens per word", "bytes per token", "unknown"], rows)


def _kind(word: str) -> TokenizerSettings:
    kind, _, size = word.strip().partition(":")
    if size and not size.isdigit():
        raise Misuse(f"--kinds wants kind or kind:size, not '{word}'")
    return dataclasses.replace(TokenizerSettings(kind=kind), vocab_size=int(size) if size else None)
