"""Tiny random twins of Hugging Face's models: the same weights give the same scores."""

from typing import Any

import pytest
import torch
from torch import nn

from glassformer.bricks.embedding import WordVectors
from glassformer.config.resolve import resolve
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel
from helpers.support import randomise, same, tokens

B, T, VOCAB, LAYERS, CONTEXT = 3, 7, 29, 2, 11
Pairs = list[tuple[nn.Module, nn.Module]]


def ours(**flags: Any) -> tuple[LanguageModel, TransformerEncoder]:
    chosen = {"layers": LAYERS, "context": CONTEXT, **flags}
    settings = resolve({}, {f"model.{key}": value for key, value in chosen.items()}).model
    model = build_language_model(settings, vocab=VOCAB).eval()
    assert isinstance(model.encoder, TransformerEncoder)
    return model, model.encoder


def copy(pairs: Pairs) -> None:
    for mine, theirs in pairs:
        mine.load_state_dict(theirs.state_dict())


def check(model: LanguageModel, theirs: nn.Module) -> None:
    """Scores, layer by layer too, for whole texts, in pieces, and with padding."""
    words = tokens(B, T, vocab=VOCAB)
    encoder = model.encoder
    assert isinstance(encoder, TransformerEncoder)
    layers: list[torch.Tensor] = []
    hooks = [block.register_forward_hook(lambda *event: layers.append(event[2])) for block in encoder.blocks]
    scores = model(words)
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        expected = theirs(words, output_hidden_states=True)
    for mine, layer in zip(layers[:-1], expected.hidden_states[1:-1], strict=True):
        same(mine, layer, 1e-4)
    same(scores, expected.logits, 1e-4)
    state = model.init_state(B, T)
    pieces = [model.head(model.extend(piece, state)) for piece in words.split([4, 1, 2], 1)]
    same(torch.cat(pieces, 1), expected.logits, 1e-4)

    mask = torch.arange(T) < torch.tensor([T, 2, 3])[:, None]
    with torch.no_grad():
        padded = theirs(words, attention_mask=mask.long()).logits
    same(model(words, mask)[mask], padded[mask], 1e-4)


def test_gpt2() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    width, heads = 21, 3
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=width, n_layer=LAYERS, n_head=heads, activation_function="gelu",
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    theirs = randomise(GPT2LMHeadModel(config)).eval()
    model, encoder = ours(style="gpt2", width=width, heads=heads)
    assert isinstance(model.embed, WordVectors)
    their_body = theirs.transformer
    copy(
        [
            (model.embed.table, their_body.wte),
            (encoder.positions.table, their_body.wpe),
            (encoder.norm, their_body.ln_f),
        ]
    )
    for mine, block in zip(encoder.blocks, their_body.h, strict=True):
        copy([(mine.around_attend.norm, block.ln_1), (mine.around_feed.norm, block.ln_2)])
        attend = [mine.attend.query, mine.attend.key, mine.attend.value]
        weights, biases = block.attn.c_attn.weight.split(width, 1), block.attn.c_attn.bias.split(width)
        rest = [(mine.attend.output, block.attn.c_proj), (mine.feed.input, block.mlp.c_fc)]
        rest.append((mine.feed.output, block.mlp.c_proj))
        linears = [*zip(attend, weights, biases, strict=True), *((a, b.weight, b.bias) for a, b in rest)]
        with torch.no_grad():
            for linear, weight, bias in linears:
                linear.weight.copy_(weight.T)  # theirs are in × out
                linear.bias.copy_(bias)
    check(model, theirs)


def copy_llama(model: LanguageModel, encoder: TransformerEncoder, theirs: nn.Module) -> None:
    assert isinstance(model.embed, WordVectors)
    copy(
        [
            (model.embed.table, theirs.model.embed_tokens),
            (model.head, theirs.lm_head),
            (encoder.norm, theirs.model.norm),
        ]
    )
    for mine, block in zip(encoder.blocks, theirs.model.layers, strict=True):
        copy(
            [
                (mine.around_attend.norm, block.input_layernorm),
                (mine.around_feed.norm, block.post_attention_layernorm),
                (mine.attend.query, block.self_attn.q_proj),
                (mine.attend.key, block.self_attn.k_proj),
                (mine.attend.value, block.self_attn.v_proj),
                (mine.attend.output, block.self_attn.o_proj),
                (mine.feed.input, block.mlp.gate_proj),
                (mine.feed.gate, block.mlp.up_proj),
                (mine.feed.output, block.mlp.down_proj),
            ]
        )
        if mine.attend.query_norm is not None:
            copy([(mine.attend.query_norm, block.self_attn.q_norm), (mine.attend.key_norm, block.self_attn.k_norm)])


SIZES = {"vocab_size": VOCAB, "num_hidden_layers": LAYERS, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}


@pytest.mark.parametrize("base", [10_000.0, 500.0])
@pytest.mark.parametrize("kv_heads", [6, 2])
def test_llama(kv_heads: int, base: float) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    width, heads, hidden = 36, 6, 13
    config = LlamaConfig(
        **SIZES, hidden_size=width, num_attention_heads=heads, num_key_value_heads=kv_heads, intermediate_size=hidden,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )  # fmt: skip
    theirs = randomise(LlamaForCausalLM(config)).eval()
    model, encoder = ours(
        style="llama", width=width, heads=heads, kv_heads=kv_heads, hidden=hidden, tied=False, rotary_base=base
    )
    copy_llama(model, encoder, theirs)
    check(model, theirs)


def test_qwen3_is_llama_with_query_key_norm() -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    width, heads, head_width, hidden = 19, 6, 10, 13
    config = Qwen3Config(
        **SIZES, hidden_size=width, num_attention_heads=heads, num_key_value_heads=3, head_dim=head_width,
        intermediate_size=hidden, rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )  # fmt: skip
    theirs = randomise(Qwen3ForCausalLM(config)).eval()
    model, encoder = ours(
        style="llama",
        width=width,
        heads=heads,
        kv_heads=3,
        head_width=head_width,
        hidden=hidden,
        tied=False,
        qk_norm=True,
    )
    copy_llama(model, encoder, theirs)
    check(model, theirs)
