"""A process that reads, packs and draws windows from a corpus, and may take only so many more megabytes:
python large_corpus.py FOLDER MEGABYTES.
"""

import resource
import sys
from pathlib import Path

import numpy as np

from glassformer.config.sections import DataSettings, TokenizerSettings
from glassformer.data.io import source
from glassformer.data.io.source import open_source
from glassformer.data.packing import packer, store
from glassformer.data.packing.store import Shards, how_often, pack
from glassformer.data.packing.windows import WindowOrder
from glassformer.data.split.documents import split_texts
from glassformer.text.tokenizer import Tokenizer

PIECE, TOGETHER, SHARD = 2**14, 2**15, 2**21
"""Characters, far fewer than usual, so that a small corpus is a large one."""


def main(folder: str, megabytes: int) -> None:
    source.CHUNK, packer.TOGETHER, packer.SHARD = PIECE, TOGETHER, SHARD
    store.COUNTED_TOKENS = TOGETHER
    tokenizer = Tokenizer.train(["a few words, 0123456789"], TokenizerSettings(kind="char"))
    tokenizer.encode_batch(["a few words"] * 1000)  # its threads have their memory
    lines = Path("/proc/self/status").read_text().splitlines()
    taken = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (taken + megabytes * 10**6,) * 2)
    part = split_texts(open_source(folder, DataSettings(path=folder)), DataSettings(path=folder)).parts["train"]
    ids = pack(part, tokenizer).ids
    assert isinstance(ids, Shards)
    order = WindowOrder(len(ids), 64, 32, seed=0)
    for step in range(200):
        assert ids[order.starts(step)[:, None] + np.arange(65)].shape == (32, 65)
    assert how_often(ids, tokenizer.vocab_size).sum() == len(ids)
    print(len(ids))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
