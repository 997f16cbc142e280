"""glassformer generate"""

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import DEVICE, FILE_ENCODING, PRECISION, RUN, Option, Parser, flag, values_of
from glassformer.cli.terminal.inputs import check_lines, lines_of, text_of_stdin
from glassformer.cli.terminal.show import print_json, say, show_table
from glassformer.config.errors import Misuse
from glassformer.decoding.options import Sampling, check_writing

if TYPE_CHECKING:
    from glassformer.families.generate import Likely

PARSER = Parser(
    "generate",
    "RUN [PROMPT]",
    "Let a run go on writing. Control characters that it writes are shown as ·; --json keeps them.",
    'glassformer generate last "To be, or" --tokens 100 --temperature 0.8',
    [
        RUN,
        Option("prompt", nargs="?", metavar="PROMPT", help="what to go on from (default: the start of a text; - reads "
               "it from stdin)"),
        Option("--file", check=check_lines, metavar="FILE", help="one prompt a line; one text each"),
        FILE_ENCODING,
        flag("--chat", "PROMPT is a message, to be answered: for models that were taught to chat"),
        Option("--system", metavar="TEXT", help="with --chat: what the model is told before the message"),
        Option("--tokens", type=int, default=200, metavar="N", help="tokens at most (default 200)"),
        flag("--greedy", "always the likeliest token"),
        Option("--beam", type=int, metavar="N", help="the most probable of N texts that are followed at once; 1 is "
               "greedy"),
        Option("--temperature", type=float, metavar="X", help="below 1 tamer, above 1 wilder"),
        Option("--top-k", type=int, metavar="K", help="only among the K likeliest tokens"),
        Option("--top-p", type=float, metavar="P", help="only among the likeliest that together reach P"),
        Option("--repetition-penalty", type=float, default=1.0, metavar="X", help="above 1: fewer repetitions"),
        Option("--presence-penalty", type=float, default=0.0, metavar="X", help="above 0: taken off the score of each "
               "token written before"),
        Option("--frequency-penalty", type=float, default=0.0, metavar="X", help="the same, each time it was written"),
        Option("--stop", action="append", default=[], metavar="TEXT", help="end before this text; can be repeated"),
        Option("--seed", type=int, default=0, metavar="N", help="of the sampling (default 0)"),
        flag("--probabilities", "show the five likeliest tokens at each position"),
        DEVICE,
        PRECISION,
        flag("--json", "print each result as one JSON object"),
    ],
)  # fmt: skip
SAMPLING = ("top_k", "top_p", "repetition_penalty", "presence_penalty", "frequency_penalty")


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    if options.greedy and any(value is not None for value in (options.temperature, options.top_k, options.top_p)):
        raise Misuse("--greedy takes the likeliest token: --temperature, --top-k and --top-p do not go with it")
    if options.file is not None and options.prompt is not None:
        raise Misuse("give a PROMPT or --file, not both")
    if options.system is not None and not options.chat:
        raise Misuse("--system is what a model is told before a message: it goes with --chat")
    if options.chat and not options.prompt and options.file is None:
        raise Misuse("--chat answers a message: give it as PROMPT, or - to read it from stdin")
    temperature = 1.0 if options.temperature is None else options.temperature
    sampling = {**values_of(options, SAMPLING), "temperature": temperature}
    how = Sampling(**{**sampling, "temperature": 0.0} if options.greedy else sampling)
    check_writing(how, **values_of(options, ("tokens", "beam", "seed")))

    from glassformer.families.load import load_for
    from glassformer.families.requests import say_unknown

    loaded: Any = load_for("generate", options.run, options.device, say, precision=options.precision)
    if not loaded.model.encoder.causal:
        say(
            "this model was trained without its mask (model.causal_mask false): it learned to read the answer, not to "
            "guess it"
        )
    if options.chat and loaded.chat_template is None:
        raise Misuse(
            f"{options.run} was not taught to chat (it has no chat_template.jinja): "
            "without --chat it goes on with a text"
        )
    writing_options = {
        **sampling,
        **values_of(options, ("tokens", "greedy", "beam", "seed")),
        "stop": [_unescaped(stop) for stop in options.stop],
        "say": cache(say),  # what holds of every prompt, once
    }
    prompts = _prompts(options.prompt, options.file, options.encoding)
    say_unknown(loaded.tokenizer, [id for prompt in prompts for id in loaded.tokenizer.encode(prompt)], say)
    for prompt in prompts:
        chat = _messages(prompt, options.system) if options.chat else None
        writing = (
            loaded.stream(prompt, **writing_options) if chat is None else loaded.stream_chat(chat, **writing_options)
        )
        if options.json:
            request = {"prompt": prompt} if chat is None else {"messages": chat}
            result: dict[str, object] = {**request, "text": "".join(writing)}
            if options.probabilities:
                result["probabilities"] = [vars(likely) for likely in loaded.probabilities(writing.ids)]
            print_json(result)
            continue
        for piece in itertools.chain([prompt] if chat is None else [], writing):
            print(piece, end="", flush=True)
        print(flush=True)
        if options.probabilities:
            columns = ("token", "its probability", "the five likeliest at this place")
            show_table(columns, map(_cells, loaded.probabilities(writing.ids)), left=(0, 2))


def _unescaped(text: str) -> str:
    """A newline or tab, as a shell lets one type it."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _prompts(prompt: str | None, file: str | None, encoding: str) -> list[str]:
    if file is not None:
        return lines_of(file, encoding)
    return [text_of_stdin() if prompt == "-" else prompt or ""]


def _messages(message: str, system: str | None) -> list[dict[str, str]]:
    before = [] if system is None else [{"role": "system", "content": system}]
    return [*before, {"role": "user", "content": message}]


def _cells(likely: "Likely") -> list[str]:
    return [
        "(next)" if likely.token is None else repr(likely.token),
        "" if likely.probability is None else f"{likely.probability:.1%}",
        "   ".join(f"{token!r} {value:.1%}" for token, value in likely.expected),
    ]
