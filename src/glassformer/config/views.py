"""The views of a run, by name: what each shows, of how many texts, and which options it takes."""

from dataclasses import dataclass

ENDINGS = (".html", ".png", ".svg", ".pdf", ".json")
"""What views can be written as."""
ALL = "all"
MODES = ("heat", "lines", "all")
"""How attention is drawn."""

HEADS = ("layer", "head", "mode")
WRITTEN = ("target", "beam")
"""Of a translator: what it is to write, or how it finds that itself."""


@dataclass(frozen=True)
class ViewInfo:
    summary: str
    uses: tuple[str, ...] = ()
    """Options that mean something to it."""
    texts: str = "one"
    """How many it is of: one, several, any number (without any, the validation part), or none."""
    quick: bool = False
    """Made of one text in a moment: part of the page of everything."""


VIEWS = {
    "alignment": ViewInfo(
        "which tokens of the source a translator looks at while it writes each token", (*HEADS, *WRITTEN)
    ),
    "attention": ViewInfo(
        "the weights of every layer and head: heat map, lines between tokens, all heads at once",
        (*HEADS, *WRITTEN),
        quick=True,
    ),
    "patches": ViewInfo("attention over the patches of an image", ("layer", "head"), quick=True),
    "lens": ViewInfo("the next token as it would be guessed after every layer", WRITTEN, quick=True),
    "next": ViewInfo("the likeliest next tokens", quick=True),
    "decided": ViewInfo("which words decided: gradient × input, and leave-one-out as its check", WRITTEN, quick=True),
    "states": ViewInfo("recurrent states and gates, or convolutions, over time", WRITTEN, quick=True),
    "pooling": ViewInfo("how much of each token goes into the vector of the text", quick=True),
    "numbers": ViewInfo("every formula, number by number, for a short text", ("layer", "head", "position", *WRITTEN)),
    "step": ViewInfo(
        "one training step on one example (--answer): loss → gradient → update", ("position", "answer", *WRITTEN)
    ),
    "roles": ViewInfo("what each head does, over texts, or without any over the validation part", WRITTEN, "any"),
    "links": ViewInfo("which head finds links that somebody annotated (--links FILE)", ("links",), "none"),
    "worth": ViewInfo(
        "what each head is worth: the loss without it (--without 2.3: of some heads), on texts or the validation part",
        ("without", "answer", *WRITTEN),
        "any",
    ),
    "word": ViewInfo("the vector of a word in several texts, layer by layer (--word)", ("word",), "several"),
    "nearest": ViewInfo("the nearest words of each word given", texts="several"),
    "versus": ViewInfo("two texts side by side (--versus), in one run or two (--beside)", ("versus", "beside", "beam")),
    "positions": ViewInfo("position encodings", texts="none"),
    "merges": ViewInfo("byte pairs merged one by one"),
    "pairs": ViewInfo("a text as its training pairs: prefix → next token"),
    "learning": ViewInfo("a slider over the moments of training that were kept (train --keep-checkpoints)", WRITTEN),
    "report": ViewInfo("the run's report, made anew", texts="none"),
}

IMPLIED = {"word": "word", "versus": "versus", "links": "links", "without": "worth", "answer": "step"}
"""Options that are asked for one view: they choose it."""
