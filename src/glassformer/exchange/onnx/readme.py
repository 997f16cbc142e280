"""The page beside exported graphs: what goes in, what comes out, and a program that runs them."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.config.presets import VECTORS
from glassformer.config.resolve import Config
from glassformer.data.features.build import MixedFeatures, TextFeatures
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.inputs import Features
from glassformer.data.features.pairs import source_room
from glassformer.data.features.tables import TableFeatures
from glassformer.exchange.onnx.graph import Graph
from glassformer.tasks.answers import Answers, Labels, Scale
from glassformer.text.tokenizer import Tokenizer

OPEN_TOKENS = """\
tokenizer = Tokenizer.from_file("{file}")
tokenizer.encode_special_tokens = True  # a text that says "<pad>" is text"""


@dataclass(frozen=True)
class Scored:
    """Of a model of language."""

    rows: int = 0
    """How many scores there are; of those beyond the tokens, none is one of a token."""
    causal: bool = True
    """The scores at a token are those of the next one, and not of what stands there."""


def readme(
    graphs: Sequence[Graph],
    tokenizer: Tokenizer | None,
    target_tokenizer: Tokenizer | None,
    features: Features | None,
    answers: Answers | None,
    config: Config,
    scored: Scored,
) -> str:
    """`target_tokenizer`: where it is another than that of the sources."""
    parts = [f"# A model of {config.task} ({config.model.encoder}), for ONNX Runtime", *map(_graph, graphs)]
    if answers is not None:
        assert features is not None
        parts += [_says(answers), _program(_reads(features), _answer(answers))]
    elif len(graphs) == 2:
        assert tokenizer is not None
        parts += [_translates(tokenizer, target_tokenizer or tokenizer, config)]
        parts += [_translating(tokenizer, target_tokenizer, config, scored)]
    else:
        assert tokenizer is not None
        parts.append(_around(tokenizer, True, config.model.context))
        if config.task == VECTORS:
            parts.append(_embedding(tokenizer, config.model.context))
        else:
            parts.append(_writing(tokenizer, config, scored) if scored.causal else _guessing(tokenizer))
    return "\n\n".join(parts) + "\n"


def _graph(graph: Graph) -> str:
    lines = [f"## {graph.file}", "", "In:", *(f"- {port.words}" for port in graph.ports)]
    kinds = {name: "float64" if name == "values" else "float32" for name in graph.outputs}
    lines += ["", "Out:", *(f"- `{name}`: {kinds[name]}, {what}" for name, what in graph.outputs.items())]
    return "\n".join(lines)


def _program(*pieces: str) -> str:
    names = {"Tokenizer.": "from tokenizers import Tokenizer", "Image.": "from PIL import Image"}
    whole = "\n".join(pieces)
    imports = ["import numpy as np", "import onnxruntime"]
    imports += [line for name, line in names.items() if name in whole]
    head = ["import json", "from pathlib import Path", "", *imports] if "json." in whole else imports
    return "\n".join(["```python", *head, "", whole, "```"])


# --- texts ---


def _around(tokenizer: Tokenizer, framed: bool, context: int) -> str:
    before, after = (tokenizer.roles.opening, tokenizer.roles.closing) if framed else ((), ())
    said = [f"{_named(tokenizer, before)} before a text", f"{_named(tokenizer, after)} after it"]
    padding = f"Rows are filled up at their end with {tokenizer.pad or 0}, where `mask` is False."
    return f"Ids: {said[0]}, {said[1]}; at most {context} in all. {padding}"


def _named(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    return ", ".join(f"{id} (`{tokenizer.token(id)}`)" for id in ids) or "nothing"


def _text_input(tokenizer: Tokenizer, framed: bool, context: int) -> str:
    before, after = (tokenizer.roles.opening, tokenizer.roles.closing) if framed else ((), ())
    room = context - len(before) - len(after)
    cut = f"tokenizer.encode(text, add_special_tokens=False).ids[:{room}]"
    row = ", ".join([*map(str, before), f"*{cut}", *map(str, after)])
    return "\n".join(
        [
            OPEN_TOKENS.format(file="tokenizer.json"),
            f"rows = [[{row}] for text in texts]",
            "length = max(1, *map(len, rows))",
            f"tokens = np.array([row + [{tokenizer.pad or 0}] * (length - len(row)) for row in rows], np.int64)",
            "mask = np.array([[place < len(row) for place in range(length)] for row in rows])",
            'inputs |= {"tokens": tokens, "mask": mask}',
        ]
    )


def _embedding(tokenizer: Tokenizer, context: int) -> str:
    return _program(
        'texts = ["a text", "another, longer text"]',
        "inputs = {}",
        _text_input(tokenizer, True, context),
        'session = onnxruntime.InferenceSession("model.onnx")',
        "(vectors,) = session.run(None, inputs)",
        "unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)",
        "print(unit @ unit.T)  # how alike they are: cosines",
    )


# --- readers ---


def _reads(features: Features) -> str:
    text = features if isinstance(features, TextFeatures) else None
    table = features if isinstance(features, TableFeatures) else None
    image = features if isinstance(features, ImageFeatures) else None
    if isinstance(features, MixedFeatures):
        text, table, image = features.text, features.table, features.image
    inside = isinstance(features, MixedFeatures)
    pieces = ["inputs = {}"]
    if text is not None:
        given = ["a text"] if inside else ["a text", "another, longer text"]
        pieces += [f"texts = {given!r}".replace("'", '"'), _text_input(text.tokenizer, text.framed, text.context)]
    if table is not None:
        pieces.append(_table_input(table, '["table"]' if inside else ""))
    if image is not None:
        pieces.append(_image_input(image, '["image"]' if inside else ""))
    return "\n".join(pieces)


def _table_input(table: TableFeatures, part: str) -> str:
    lines = [
        f'features = json.loads(Path("features.json").read_text(encoding="utf-8")){part}',
        "row = {}  # values by column, as text; a number that is missing is left out",
    ]
    if table.numbers:
        lines += [
            'columns = features["numbers"]',
            'known = {c["name"]: row.get(c["name"], "").strip() for c in columns}',
            'numbers = [(float(known[c["name"]] or c["mean"]) - c["mean"]) / c["spread"] for c in columns]',
            'numbers += [float(not known[c["name"]]) for c in columns if c["flag"]]  # is it missing?',
            'inputs["numbers"] = np.array([numbers], np.float32)',
        ]
    if table.categories:
        lines += [
            'places = [{v: n for n, v in enumerate(c["values"], 1)} for c in features["categories"]]  # 0: unknown',
            'said = [row.get(c["name"], "").strip() for c in features["categories"]]',
            'inputs["categories"] = np.array([[p.get(v, 0) for p, v in zip(places, said)]], np.int64)',
        ]
    return "\n".join(lines)


def _image_input(image: ImageFeatures, part: str) -> str:
    height, width = image.size
    mode = "L" if len(image.mean) == 1 else "RGB"
    return "\n".join(
        [
            f'how = json.loads(Path("features.json").read_text(encoding="utf-8")){part}',
            f'picture = Image.open("image.png").convert("{mode}")',
            f"picture = picture.resize(({width}, {height}), Image.Resampling.BILINEAR)",
            f"pixels = np.asarray(picture, np.float32).reshape({height}, {width}, {len(image.mean)}) / 255",
            'pixels = (pixels - np.array(how["mean"])) / np.array(how["spread"])',
            'inputs["pixels"] = pixels.transpose(2, 0, 1)[None].astype(np.float32)',
        ]
    )


def _says(answers: Answers) -> str:
    if isinstance(answers, Scale):
        return f"labels.json: the mean {answers.mean:g} and the spread {answers.spread:g} of what was learned."
    some = ", ".join(f"`{name}`" for name in answers.names[:20]) + (", …" if len(answers.names) > 20 else "")
    if isinstance(answers, Labels):
        return f"labels.json: {some}. A label is said where its probability is above {answers.threshold:g}."
    shared = " There is one score, that of the second against the first." if answers.outputs == 1 else ""
    return f"labels.json: {some}.{shared}"


def _answer(answers: Answers) -> str:
    run = 'session = onnxruntime.InferenceSession("model.onnx")'
    if isinstance(answers, Scale):
        return f"{run}\nscores, values = session.run(None, inputs)\nprint(*values)"
    names = "labels" if isinstance(answers, Labels) else "classes"
    lines = [
        run,
        "scores, probabilities = session.run(None, inputs)",
        f'names = json.loads(Path("labels.json").read_text(encoding="utf-8"))["{names}"]',
        "for row in probabilities:",
    ]
    if isinstance(answers, Labels):
        return "\n".join([*lines, f"    print([name for name, p in zip(names, row) if p > {answers.threshold:g}])"])
    return "\n".join([*lines, "    print(names[row.argmax()], row.max())"])


# --- models of language ---


def _forbidden(tokenizer: Tokenizer, scored: Scored) -> list[str]:
    never = tokenizer.never(tokenizer.vocab_size)
    lines = [f"    scores[{never}] = -np.inf  # these stand for no text"] if never else []
    if scored.rows > tokenizer.vocab_size:
        lines.append(f"    scores[{tokenizer.vocab_size}:] = -np.inf  # and these for no token")
    return lines


def _writing(tokenizer: Tokenizer, config: Config, scored: Scored) -> str:
    first = ", ".join([*map(str, tokenizer.roles.opening), '*tokenizer.encode("A", add_special_tokens=False).ids'])
    return _program(
        OPEN_TOKENS.format(file="tokenizer.json"),
        'session = onnxruntime.InferenceSession("model.onnx")',
        f"ids = [{first}]",
        "for _ in range(20):",
        f"    tokens = np.array([ids[-{config.model.context}:]], np.int64)",
        '    (logits,) = session.run(None, {"tokens": tokens, "mask": np.ones_like(tokens, bool)})',
        "    scores = logits[0, -1]",
        *_forbidden(tokenizer, scored),
        "    ids.append(int(scores.argmax()))",
        f"    if ids[-1] in {list(tokenizer.roles.ends)}:",
        "        break",
        "print(tokenizer.decode(ids))",
    )


def _guessing(tokenizer: Tokenizer) -> str:
    mask = tokenizer.mask if tokenizer.mask is not None else tokenizer.unk or 0
    roles = tokenizer.roles
    row = ", ".join([*map(str, roles.opening), "*ids", f"{mask}", *map(str, roles.closing)])
    return _program(
        OPEN_TOKENS.format(file="tokenizer.json"),
        'session = onnxruntime.InferenceSession("model.onnx")',
        'ids = tokenizer.encode("A text with a gap", add_special_tokens=False).ids',
        f"tokens = np.array([[{row}]], np.int64)  # {mask} is to be guessed",
        '(logits,) = session.run(None, {"tokens": tokens, "mask": np.ones_like(tokens, bool)})',
        f"best = logits[0, {len(roles.opening)} + len(ids)].argsort()[::-1][:5]",
        "print([tokenizer.decode([id]) for id in best])",
    )


def _translates(source: Tokenizer, target: Tokenizer, config: Config) -> str:
    around = f"{_named(source, source.roles.source)} before it, {_named(source, source.roles.closing)} after it"
    return (
        f"Ids of a source: {around}; at most {config.model.context} in all. Of a target: "
        f"{_named(target, target.roles.opening)} before it, and it is written until "
        f"{_named(target, target.roles.ends)}. Rows are filled up at their end, where `source_mask` is False."
    )


def _translating(source: Tokenizer, apart: Tokenizer | None, config: Config, scored: Scored) -> str:
    """The loop: the source once, then the decoder after each token."""
    target = apart or source
    end = source.roles.closing
    room = source_room(source.roles, config.model.context)
    cut = f"tokenizer.encode(text, add_special_tokens=False).ids[:{room}]"
    row = ", ".join([*map(str, source.roles.source), f"*{cut}", *map(str, end)])
    names = "writes" if apart else "tokenizer"
    second = [OPEN_TOKENS.format(file="target_tokenizer.json").replace("tokenizer =", "writes =").splitlines()[0]]
    return _program(
        'text = "a text"',
        OPEN_TOKENS.format(file="tokenizer.json"),
        *(second if apart else []),
        'encoder, decoder = (onnxruntime.InferenceSession(f"{half}.onnx") for half in ("encoder", "decoder"))',
        f"source = np.array([[{row}]], np.int64)",
        'read = {"source_mask": np.ones_like(source, bool)}',
        'read["memory"] = encoder.run(None, {"source": source, "source_mask": read["source_mask"]})[0]',
        f"target = {list(target.roles.opening)}",
        f"for _ in range({config.model.context}):",
        '    (logits,) = decoder.run(None, {"target": np.array([target], np.int64), **read})',
        "    scores = logits[0, -1]",
        *_forbidden(target, scored),
        "    target.append(int(scores.argmax()))",
        f"    if target[-1] in {list(target.roles.ends)}:",
        "        break",
        f"print({names}.decode(target))",
    )
