"""GGUF files, as llama.cpp reads them: models of Llama's kind, often quantised, with their tokenizer, in one file."""

from pathlib import Path

from glassformer.exchange.external_model import Found
from glassformer.exchange.gguf.config import read_config
from glassformer.exchange.gguf.header import damaged, read_header
from glassformer.exchange.gguf.tokens import read_tokens
from glassformer.exchange.gguf.weights import GgufWeights


def read_gguf(path: Path) -> Found:
    """The model in a file. Its weights are read when they are asked for; all else is checked now."""
    header = read_header(path)
    config = read_config(header)
    weights = GgufWeights(header, config)
    template = header.values.get("tokenizer.chat_template")
    if not isinstance(template, str | None):
        damaged(path, "tokenizer.chat_template is no text")
    tokenizer, specials = read_tokens(header, config["vocab_size"])
    return Found(str(path), "gguf", config, weights, tokenizer, chat_template=template, specials=specials)
