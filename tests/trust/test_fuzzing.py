"""Fuzzing: whatever is in a file, it is read or refused in one line, within the memory and time that are stated."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

import glassformer as gf
from glassformer.config.limits import VARIABLE
from helpers.gguf_files import tiny as small_llama
from helpers.gguf_files import write
from helpers.running import labelled, tiny
from helpers.tables import opinions, write_table

TIMES = {
    "cards": 250,
    "weights": 150,
    "tokenizers": 300,
    "metrics": 300,
    "tables": 600,
    "parquet": 150,
    "arrays": 200,
    "images": 300,
    "configs": 150,
    "gguf": 150,
    "templates": 40,
}
HERE = Path(__file__).parent
LIMITS = "unpacked_bytes=100MB,field_bytes=4MB,json_bytes=16MB,pixels=4M"
"""Lower than they are, as is the memory: so that little is much, and takes little time."""
TMX = """<?xml version="1.0"?>
<tmx version="1.4"><header srclang="en" segtype="sentence"/><body>
<tu><tuv xml:lang="en"><seg>a <bpt i="1">b</bpt> cat</seg></tuv><tuv xml:lang="de"><seg>eine Katze</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>a dog</seg></tuv><tuv xml:lang="de"><seg>ein Hund &amp; mehr</seg></tuv></tu>
</body></tmx>
"""
TEMPLATE = """{{ bos_token }}{% for message in messages %}
{% if message.role == 'user' %}[{{ message['content'] | trim }}]
{% else %}{{ raise_exception('no') }}{% endif %}
{% endfor %}{% if add_generation_prompt %}>{% endif %}"""


TOKENS: dict[str, Any] = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "<0x0A>", "<user>", "aba"],
    "scores": [0.0, 0.0, 0.0, -5.0, -6.0, -7.0, -1.0, -2.0, 0.0, 0.0, -3.0],
    "token_type": [2, 3, 3, 1, 1, 1, 1, 1, 6, 4, 1],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "unknown_token_id": 0,
}


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file of each kind."""
    folder = tmp_path_factory.mktemp("fuzzing") / "seeds"
    for name in ("tables", "images"):
        (folder / name).mkdir(parents=True)
    rows = opinions(30)
    table = write_table(folder / "tables" / "a.csv", rows)
    gf.train(table, out=folder / "run", **labelled("transformer", training__steps=2))
    text = folder / "a.txt"
    text.write_text("the cat sat on the mat, and the dog did not\n" * 60)
    gf.train(text, out=folder / "writer", **tiny(training__steps=1))
    gf.export(folder / "writer", to="hf", folder=folder / "hub")
    lines = table.read_bytes()
    (folder / "tables" / "a.csv.gz").write_bytes(gzip.compress(lines, mtime=0))
    (folder / "tables" / "a.tsv").write_text("text\tlabel\n" + "".join(f'"{text}"\t{label}\n' for text, label in rows))
    objects = (json.dumps({"text": text, "label": label, "more": [1, {"a": None}]}) for text, label in rows)
    (folder / "tables" / "a.jsonl").write_text("\n".join(objects))
    (folder / "tables" / "a.tmx").write_text(TMX)
    columns = {"text": [row[0] for row in rows], "label": [str(row[1]) for row in rows]}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "tables" / "a.parquet")
    chance = np.random.default_rng(0)
    pixels = chance.integers(0, 256, (20, 8, 9, 3), dtype=np.uint8)
    np.savez_compressed(folder / "tables" / "a.npz", images=pixels, labels=np.arange(20) % 3)
    for kind in ("png", "jpg", "gif", "bmp", "webp", "tiff"):
        Image.fromarray(pixels[0]).save(folder / "images" / f"a.{kind}")
    (folder / "chat.jinja").write_text(TEMPLATE)
    sizes = {"hidden_size": 4, "intermediate_size": 3, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = small_llama(**sizes, vocab_size=len(TOKENS["tokens"]), num_key_value_heads=1, head_dim=2)
    write(folder / "a.gguf", model, TOKENS)
    return folder


@pytest.mark.trust
@pytest.mark.parametrize("kind", TIMES)
def test_files(seeds: Path, kind: str, tried: Callable[[str, str, int, str], None]) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzzing.py"), str(seeds), kind, str(TIMES[kind])],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, VARIABLE: LIMITS, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["done"] == TIMES[kind]
    how = "bytes or values of valid files changed, under RLIMIT_AS and a time limit"
    tried(f"damaged files: {kind}", how, TIMES[kind], "a result or a one-line error, within the memory limit")
