"""Small pipelines as other houses make them, learned from nasty texts; and transformers' view of each."""

import json
from collections.abc import Callable

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from helpers.nasty import NASTY

TEXTS = [*NASTY, *("the quick brown fox jumped over the lazy dogs, jumping and jumping" for _ in range(9))]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
CHAT = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]


def bytes_whole() -> tokenizers.Tokenizer:
    """Byte pairs over the whole text: no stretches at all."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return _trained_bytes(made)


def bytes_split() -> tokenizers.Tokenizer:
    """As Llama 3 and Qwen have it: composed letters, stretches by a pattern, then bytes; places are trimmed."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    return _trained_bytes(made)


def _trained_bytes(made: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=401, special_tokens=CHAT, initial_alphabet=alphabet, show_progress=False, max_token_length=30
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


def word_pieces() -> tokenizers.Tokenizer:
    """As BERT has it."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=307, special_tokens=names, show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    return made


def unigram(scheme: str = "always") -> tokenizers.Tokenizer:
    """As XLM-R and T5 have it."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    made.decoder = decoders.Metaspace(prepend_scheme=scheme)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=293, special_tokens=names, unk_token="<unk>", show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    return made


def byte_fallback() -> tokenizers.Tokenizer:
    """As Llama 2 has it: characters merged, and bytes of those that are no tokens."""
    learned = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    learned.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=150, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    learned.train_from_iterator(["the quick brown fox jumped over the lazy dogs, jumping"] * 9, trainer)
    model = json.loads(learned.to_str())["model"]
    vocabulary = {**model["vocab"], **{f"<0x{byte:02X}>": len(model["vocab"]) + byte for byte in range(256)}}
    merges = [tuple(pair) for pair in model["merges"]]
    made = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    joined = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(joined)
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    return made


PIPELINES: dict[str, Callable[[], tokenizers.Tokenizer]] = {
    "bytes whole": bytes_whole,
    "bytes split": bytes_split,
    "word pieces": word_pieces,
    "unigram": unigram,
    "byte fallback": byte_fallback,
}


def reference(rust: tokenizers.Tokenizer, **more: str) -> PreTrainedTokenizerFast:
    """Transformers' own, over a copy of the pipeline."""
    return PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(rust.to_str()), **more)
