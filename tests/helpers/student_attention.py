"""Attention as students write it, right, in several styles."""

ATTENTION = """
import math
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask=None):
        B, T, d = x.shape
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        seen = torch.ones(T, T, dtype=torch.bool)
        if self.causal:
            seen = torch.tril(seen)
        if mask is not None:
            seen = seen & mask[:, None, None, :]
        scores = scores.masked_fill(~seen, float("-inf"))
        weights = scores.softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(B, T, d)
        return self.output(mixed)
"""

BARE = """
import torch
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Parameter(torch.randn(d_model, d_model)) for _ in range(4))

    def forward(self, x, mask=None):
        B, T, d = x.shape
        q, k, v = ((x @ W).reshape(B, T, self.h, d // self.h) for W in (self.W_q, self.W_k, self.W_v))
        s = torch.einsum("bqhe,bkhe->bhqk", q, k) * (d // self.h) ** -0.5
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        e = torch.exp(s - s.max(-1, keepdim=True).values)
        w = e / e.sum(-1, keepdim=True)
        return torch.einsum("bhqk,bkhe->bqhe", w, v).reshape(B, T, d) @ self.W_o, w
"""

FUSED = """
import torch
import torch.nn.functional as F
from torch import nn

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head = config.n_head
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size)))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (one.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for one in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        att = att.masked_fill(self.bias[:T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
"""

PER_HEAD = """
import torch
import torch.nn.functional as F
from torch import nn

class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.key = nn.Linear(width, size, bias=False)
        self.query = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)

    def forward(self, x):
        w = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features ** -0.5
        w = w.masked_fill(torch.tril(torch.ones(x.shape[1], x.shape[1])) == 0, float("-inf"))
        return F.softmax(w, dim=-1) @ self.value(x)

class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, head_size, n_embd):
        super().__init__()
        self.heads = nn.ModuleList(Head(n_embd, head_size) for _ in range(num_heads))
        self.proj = nn.Linear(head_size * num_heads, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))
"""

LIKE_TORCH = """
from torch import nn

class MyAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attend = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, query, key, value, key_padding_mask=None):
        return self.attend(query, key, value, key_padding_mask=key_padding_mask, average_attn_weights=False)
"""

ONE_HEAD = """
from torch import nn

class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        w = (self.to_q(x) @ self.to_k(x).mT / x.shape[-1] ** 0.5).softmax(dim=2)
        return w @ self.to_v(x)
"""

BROADCAST_MASK = (
    ATTENTION.replace("mask[:, None, None, :]", "mask.bool()")
    .replace(", causal=False", "")
    .replace("self.heads, self.causal = heads, causal", "self.heads, self.causal = heads, False")
)

FUNCTION = """
import math
import torch

def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
"""

FLAT_FUNCTION = """
import torch

def attention(query, key, value):
    return torch.softmax(query @ key.T / query.shape[1] ** 0.5, dim=1) @ value
"""

CROSS = """
import math
import torch
from torch import nn

class CrossAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory, mask=None):
        B, T, d = x.shape
        q, k, v = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        weights = scores.softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(B, T, d)
        return self.output(mixed)
"""
"""Queries of x, keys and values of a memory."""

CROSS_FUSED = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, dim, context_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, context, context_mask=None):
        k, v = self.to_kv(context).chunk(2, -1)
        q, k, v = (one.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for one in (self.to_q(x), k, v))
        seen = None if context_mask is None else context_mask[:, None, None]
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.to_out(out.transpose(1, 2).flatten(2))
"""
"""A memory of another width, keys and values in one matrix, and a name that does not say cross-attention."""

CROSS_BROADCAST_MASK = CROSS.replace("~mask[:, None, None, :]", "~mask")
"""The mask is B×1×1×S already."""
