"""The command `glassformer generate`."""

import itertools
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_lines, lines_of, text_of_stdin
from glassformer.cli.terminal.show import print_json, say, show_table
from glassformer.config.errors import Misuse
from glassformer.decoding.options import Sampling, check_writing

if TYPE_CHECKING:
    from glassformer.families.generate import Likely

PARSER = Parser("generate", checks={"file": check_lines})


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
    sampling = {**arguments_of(options, Sampling), "temperature": temperature}
    how = Sampling(**{**sampling, "temperature": 0.0} if options.greedy else sampling)
    check_writing(how, **arguments_of(options, check_writing))

    from glassformer.families.load import load_for
    from glassformer.families.requests import say_unknown

    loaded: Any = load_for("generate", options.run, options.device, precision=options.precision)
    if not loaded.model.encoder.causal:
        say("this model was trained with model.causal_mask false: it learned to read the next token, not to guess it")
    if options.chat and loaded.chat_template is None:
        raise Misuse(f"{options.run} was not taught to chat (it has no chat_template.jinja): leave --chat out")
    writing_options = {
        **sampling,
        **arguments_of(options, check_writing),
        "greedy": options.greedy,
        "stop": [_unescaped(stop) for stop in options.stop],
        "say": cache(say),  # report what applies to every prompt only once
    }
    prompts = _prompts(options.prompt, options.file, options.encoding)
    say_unknown(loaded.tokenizer, [id for prompt in prompts for id in loaded.tokenizer.encode(prompt)])
    for prompt in prompts:
        chat = _messages(prompt, options.system) if options.chat else None
        stream = partial(loaded.stream, prompt) if chat is None else partial(loaded.stream_chat, chat)
        writing = stream(**writing_options)
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
    r"""Replace \n and \t by a newline and a tab, which are hard to type in a shell."""
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
