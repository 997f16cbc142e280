"""Damaged and hostile files, many in one process with bounded memory and time: `python fuzzing.py SEEDS KIND NUMBERS`.

A file is a seed with a few bytes or values changed, as its number says (`600`: 0 to 599; `600-1200`). What reads it may
answer, or refuse it in one line; anything else is an error here. Prints how many were tried, and how many refused.
"""

import contextlib
import copy
import json
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEMORY = 3 << 29
"""Bytes that reading may take beside the program itself: 1.5 GiB."""
SECONDS = 60
"""Seconds that a file may take; each takes a fraction of one, but a machine may be busy."""
ODD = [None, True, -1, 0, 7, 10**6, 10**9, 2**63, 1e308, float("nan"), "", "x", "x" * 5000, [], {}, [[[]]], {"a": []}]
ODD += ["\ud83d", "\x00", "(a+)+$", "a" * 60, [None] * 3, "../../etc/passwd", 10**30]
DEEP = "[" * 3000

Outcome = Callable[[Path], object]


def bytes_changed(seed: bytes, chance: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1) if chance.random() < 0.6 else chance.randrange(min(64, len(data)) + 1)
        until = min(len(data), at + chance.choice([1, 1, 4, 50]))
        how = chance.randrange(6)
        if how == 0:
            data[at:until] = bytes(chance.randrange(256) for _ in range(until - at))
        elif how == 1:
            del data[at:until]
        elif how == 2:
            data[at:at] = data[at:until] * chance.choice([1, 3, 2000])
        elif how == 3:
            data[at:at] = chance.choice([b'"', b"\t", b"\n", b",", b"\xff", b"\0", b"[" * 3000, b"<a>", b"&x;"])
        elif how == 4 and at < len(data):
            data[at] = chance.choice([0, 255, 127, 128])
        elif how == 5:
            del data[at + (len(data) - at) // 2 :]
    return bytes(data)


def json_changed(seed: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.15:
        return bytes_changed(seed, chance)
    value = copy.deepcopy(json.loads(seed))
    for _ in range(chance.randint(1, 3)):
        inner, places = value, list[tuple[Any, Any]]()
        while isinstance(inner, dict | list) and inner:
            key = chance.choice(list(inner)) if isinstance(inner, dict) else chance.randrange(len(inner))
            places.append((inner, key))
            inner = inner[key]
        where, key = chance.choice(places[-3:])
        how = chance.random()
        if how < 0.15:
            del where[key]
        elif how < 0.2:
            where[key] = where
        else:
            where[key] = chance.choice(ODD)
        if how < 0.2:
            break
    try:
        return json.dumps(value).encode()
    except ValueError:  # within itself
        return (seed.decode()[: chance.randrange(len(seed))] + DEEP).encode()


SNIPPETS = [
    "{{ 'a' * 10**9 }}",
    "{% for i in range(10**9) %}x{% endfor %}",
    "{{ messages.__class__.__mro__ }}",
    "{{ x }}",
]
SNIPPETS += [
    "{{ messages[9].content }}",
    "{% include '/etc/passwd' %}",
    "{{ raise_exception(1) }}",
    "{% set x = 1 %}",
    "ä",
]


def template_changed(seed: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return bytes_changed(seed, chance)
    before, sign, after = seed.decode().partition(chance.choice(["{{", "{% for", "{% if"]))
    return (before + chance.choice(SNIPPETS) + sign + after).encode()


def predict(run: Path) -> object:
    import glassformer as gf

    gf.load(run, "cpu", verify=False).predict("the food was good")
    return gf.load(run, "cpu").predict("the food was good")


def tokenize(path: Path) -> object:
    from glassformer.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(path)
    return tokenizer.decode(tokenizer.encode("the fööd was good, 漢字 aaaa <pad>"))


def metrics(path: Path) -> object:
    from glassformer.runs.run import Run

    return Run(path.parent).read_metrics()


def table(path: Path) -> object:
    from glassformer.config.sections import DataSettings
    from glassformer.data.io.aligned import read_pairs
    from glassformer.data.io.source import open_source
    from glassformer.data.io.survey import survey

    if path.suffix != ".tmx":
        survey(open_source(str(path), DataSettings(text="text")))
    return read_pairs(str(path), DataSettings())


def arrays(path: Path) -> object:
    from glassformer.data.io.picture_arrays import read_arrays

    return read_arrays(path)


def image(path: Path) -> object:
    from glassformer.data.io.pictures import read_picture

    return read_picture(path)


def imported(path: Path) -> object:
    from glassformer.exchange.huggingface.importing import import_external
    from glassformer.exchange.source import find

    return import_external(find(str(path)))


def template(path: Path) -> object:
    from glassformer.config.errors import DataError
    from glassformer.text.chat import render_chat

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError("not text") from None
    return render_chat(text, [{"role": "user", "content": "Hello"}], specials={"bos_token": "<s>"})


READERS: dict[str, tuple[Outcome, tuple[str, ...], Callable[[bytes, random.Random], bytes]]] = {
    "cards": (predict, ("run/glassformer.json",), json_changed),
    "weights": (predict, ("run/model.safetensors",), bytes_changed),
    "tokenizers": (tokenize, ("run/tokenizer.json", "hub/tokenizer.json"), json_changed),
    "metrics": (metrics, ("run/metrics.jsonl",), bytes_changed),
    "tables": (table, tuple(f"tables/a.{kind}" for kind in ("csv", "tsv", "jsonl", "tmx", "csv.gz")), bytes_changed),
    "parquet": (table, ("tables/a.parquet",), bytes_changed),
    "arrays": (arrays, ("tables/a.npz",), bytes_changed),
    "images": (
        image,
        tuple(f"images/a.{kind}" for kind in ("png", "jpg", "gif", "bmp", "webp", "tiff")),
        bytes_changed,
    ),
    "configs": (imported, ("hub/config.json", "hub/tokenizer_config.json"), json_changed),
    "gguf": (imported, ("a.gguf",), bytes_changed),
    "templates": (template, ("chat.jinja",), template_changed),
}
"""How each kind of file is read, its seeds, and how these are changed."""
WHOLE_FOLDER = ("cards", "weights", "configs")
"""Kinds whose reader is given the folder."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Memory beyond what the program takes now is bounded, and the time of each file."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError(f"more than {SECONDS} s")))
    yield


def main(seeds: Path, kind: str, numbers: range) -> None:
    import glassformer as gf
    from glassformer.config.errors import GlassformerError

    gf.load(seeds / "run", "cpu")  # what a reader imports is no part of its memory
    read, names, change = READERS[kind]
    copied = Path(shutil.copytree(seeds, seeds.parent / f"changed-{kind}"))
    done, refused = 0, 0

    def attempt(name: str, number: int) -> None:
        nonlocal done, refused
        changed = change((seeds / name).read_bytes(), random.Random(number))
        path, lines = copied / name, [""]
        path.write_bytes(changed)
        signal.alarm(SECONDS)
        try:
            read(path.parent if kind in WHOLE_FOLDER else path)
        except GlassformerError as error:
            refused += 1
            lines = str(error).splitlines()
        except BaseException as error:
            keep = seeds.parent / f"found-{kind}-{number}-{Path(name).name}"
            keep.write_bytes(changed)
            error.add_note(f"{name}, number {number}: {keep}")
            raise
        finally:
            signal.alarm(0)
            shutil.copyfile(seeds / name, path)
        assert len(lines) == 1, (name, number, lines)
        done += 1

    with bounded():
        for number in numbers:
            attempt(names[number % len(names)], number)
    print(json.dumps({"done": done, "refused": refused}))


if __name__ == "__main__":
    *first, last = map(int, sys.argv[3].split("-"))
    main(Path(sys.argv[1]), sys.argv[2], range(*first, last))
