"""The views of a run, by name, with what each shows."""

ALL = "all"

VIEWS = {
    "alignment": "which tokens of the source a translator looks at while it writes each token",
    "attention": "the weights of every layer and head: heat map, lines between tokens, all heads at once",
    "patches": "attention over the patches of an image",
    "lens": "the next token as it would be guessed after every layer",
    "next": "the likeliest next tokens",
    "decided": "which words decided: gradient × input, and leave-one-out as its check",
    "states": "recurrent states and gates, or convolutions, over time",
    "pooling": "how much of each token goes into the vector of the text",
    "numbers": "every formula, number by number, for a short text",
    "step": "one training step on one example (--answer): loss → gradient → update",
    "roles": "what each head does, over texts, or without any over the validation part",
    "links": "which head finds links that somebody annotated (--links FILE)",
    "worth": "what each head is worth: the loss without it (--without 2.3: of some heads)",
    "word": "the vector of a word in several texts, layer by layer (--word)",
    "nearest": "the nearest words of each word given",
    "versus": "two texts side by side (--versus), in one run or two (--beside)",
    "positions": "position encodings",
    "merges": "byte pairs merged one by one",
    "pairs": "a text as its training pairs: prefix → next token",
    "learning": "a slider over the moments of training that were kept (train --keep-checkpoints)",
    "report": "the run's report, made anew",
}

QUICK = ("attention", "patches", "lens", "next", "decided", "states", "pooling")
"""Those that are made of one text in a moment: together they are the page of everything."""
