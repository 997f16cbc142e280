"""Bricks as students write them, right, in several styles."""

from helpers.student_attention import (
    ATTENTION,
    BARE,
    BROADCAST_MASK,
    CROSS,
    CROSS_BROADCAST_MASK,
    CROSS_FUSED,
    FLAT_FUNCTION,
    FUNCTION,
    FUSED,
    LIKE_TORCH,
    ONE_HEAD,
    PER_HEAD,
)

LAYER_NORM = """
import torch
from torch import nn

class LayerNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        normalised = (x - mean) / torch.sqrt(variance + self.eps)
        return self.gamma * normalised + self.beta
"""

RMS_NORM = """
import torch
from torch import nn

class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        square = x.pow(2).mean(-1, keepdim=True)
        normalised = x * torch.rsqrt(square + 1e-8)
        return normalised * self.scale
"""

SINE = """
import math
import torch
from torch import nn

class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1).float()
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.shape[1]]
"""

LEARNED = """
import torch
from torch import nn

class LearnedPositions(nn.Module):
    def __init__(self, context, width):
        super().__init__()
        self.pos_emb = nn.Embedding(context, width)

    def forward(self, x):
        return x + self.pos_emb(torch.arange(x.shape[1]))
"""

MEAN_POOL = """
from torch import nn

class MeanPool(nn.Module):
    def forward(self, x, mask=None):
        if mask is None:
            return x.mean(1)
        m = mask.unsqueeze(-1).float()
        return (x * m).sum(1) / m.sum(1)
"""

MAX_POOL = """
import torch

def max_pool(x, mask=None):
    if mask is not None:
        x = x.masked_fill(~mask.unsqueeze(-1), float("-inf"))
    return x.max(dim=1).values
"""

LAST_POOL = """
import torch

def last_token(x, mask=None):
    if mask is None:
        return x[:, -1]
    last = mask.sum(1) - 1
    return x[torch.arange(len(x)), last]
"""

ATTENTION_POOL = """
import torch
from torch import nn

class AttentionPooling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x, mask=None):
        scores = self.score(x).squeeze(-1)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        return (weights.unsqueeze(-1) * x).sum(1)
"""

FEED_FORWARD = """
import torch.nn.functional as F
from torch import nn

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))
"""

SEQUENTIAL = """
from torch import nn

class MLP(nn.Module):
    def __init__(self, n_embd, dropout=0.1):
        super().__init__()
        first, second = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)
        self.net = nn.Sequential(first, nn.GELU(), second, nn.Dropout(dropout))

    def forward(self, x):
        return self.net(x)
"""

GATED = """
import torch.nn.functional as F
from torch import nn

class SwiGLU(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.up_proj, self.gate_proj = nn.Linear(dim, hidden_dim, bias=False), nn.Linear(dim, hidden_dim, bias=False)
        self.down_proj = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
"""

LSTM = """
import torch
from torch import nn

class LSTM(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.ih = nn.Linear(input_size, 4 * hidden_size)
        self.hh = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.kept = None

    def forward(self, x):
        B, T, _ = x.shape
        h = x.new_zeros(B, self.hidden_size)
        c = x.new_zeros(B, self.hidden_size)
        states = []
        for t in range(T):
            total = self.ih(x[:, t]) + self.hh(h)
            i, f, g, o = total.chunk(4, -1)
            i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
            c = f * c + i * g
            h = o * torch.tanh(c)
            states.append(h)
        return torch.stack(states, 1), (h, c)
"""

LSTM_BY_GATES = """
import torch
from torch import nn

class MyLSTM(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.d = hidden_size
        both = input_size + hidden_size
        self.forget_gate, self.input_gate = nn.Linear(both, hidden_size), nn.Linear(both, hidden_size)
        self.candidate, self.output_gate = nn.Linear(both, hidden_size), nn.Linear(both, hidden_size)

    def forward(self, x, state=None):
        h, c = state if state is not None else (torch.zeros(len(x), self.d), torch.zeros(len(x), self.d))
        out = []
        for x_t in x.unbind(1):
            z = torch.cat([h, x_t], 1)
            f, i, o = (gate(z).sigmoid() for gate in (self.forget_gate, self.input_gate, self.output_gate))
            c = f * c + i * self.candidate(z).tanh()
            h = o * c.tanh()
            out.append(h)
        return torch.stack(out, 1)
"""

GRU = """
import torch
from torch import nn

class GRU(nn.Module):
    def __init__(self, input_dim, hidden_dim):
        super().__init__()
        i, d = input_dim, hidden_dim
        self.W_r, self.W_z, self.W_n = (nn.Parameter(torch.randn(i, d)) for _ in range(3))
        self.U_r, self.U_z, self.U_n = (nn.Parameter(torch.randn(d, d)) for _ in range(3))
        self.b_r, self.b_z, self.b_n = (nn.Parameter(torch.zeros(d)) for _ in range(3))

    def forward(self, x):
        h, out = x.new_zeros(len(x), self.b_r.shape[0]), []
        for t in range(x.shape[1]):
            x_t = x[:, t]
            r = torch.sigmoid(x_t @ self.W_r + h @ self.U_r + self.b_r)
            z = torch.sigmoid(x_t @ self.W_z + h @ self.U_z + self.b_z)
            n = torch.tanh(x_t @ self.W_n + (r * h) @ self.U_n + self.b_n)
            h = (1 - z) * h + z * n
            out.append(h)
        return torch.stack(out, 1)
"""

RNN = """
import torch
from torch import nn

class RNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.W_xh = nn.Parameter(torch.randn(hidden_size, input_size))
        self.W_hh = nn.Parameter(torch.randn(hidden_size, hidden_size))
        self.b = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x):
        h, out = torch.zeros(x.shape[0], self.b.shape[0]), []
        for t in range(x.shape[1]):
            total = x[:, t] @ self.W_xh.T + h @ self.W_hh.T + self.b
            h = torch.tanh(total)
            out.append(h)
        return torch.stack(out, dim=1)
"""

SOFTMAX = """
import torch

def softmax(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)
"""

CROSS_ENTROPY = """
import torch

def cross_entropy(logits, targets, mask=None):
    logs = torch.log_softmax(logits, -1)
    losses = -logs[torch.arange(len(targets)), targets]
    return losses.mean() if mask is None else (losses * mask).sum() / mask.sum()
"""

ENCODER = '''
import torch
from torch import nn
import glassformer as gf

class State(gf.State):
    def __init__(self, total, count):
        self.total, self.count = total, count

    def select(self, rows):
        return State(self.total[rows], self.count[rows])

    def expand_beams(self, times):
        return State(self.total.repeat_interleave(times, 0), self.count.repeat_interleave(times, 0))

class Means(gf.Encoder):
    """Each token sees the mean of what came so far."""

    def __init__(self, width):
        super().__init__()
        self.width, self.causal = width, True
        self.map = nn.Linear(2 * width, width)

    def forward(self, x, mask=None, *, memory=None, segments=None):
        return self.extend(x, self.init_state(len(x), x.shape[1]), mask)

    def init_state(self, batch, max_tokens, memory=None):
        return State(torch.zeros(batch, self.width), torch.zeros(batch, 1))

    def extend(self, x, state, mask=None):
        real = torch.ones(x.shape[:2]) if mask is None else mask.float()
        total = state.total[:, None] + (x * real[..., None]).cumsum(1)
        count = state.count[:, None] + real.cumsum(1)[..., None]
        state.total, state.count = total[:, -1], count[:, -1]
        return self.map(torch.cat([x, total / count], -1))
'''

RIGHT = {
    "linear maps": (ATTENTION, "Attention"),
    "bare parameters": (BARE, "MultiHeadAttention"),
    "one map for three, always causal": (FUSED, "CausalSelfAttention"),
    "a module a head": (PER_HEAD, "MultiHeadAttention"),
    "torch's own inside": (LIKE_TORCH, "MyAttention"),
    "one head": (ONE_HEAD, "SelfAttention"),
    "a mask of all pairs": (BROADCAST_MASK, "Attention"),
    "cross-attention": (CROSS, "CrossAttention"),
    "cross-attention, one map for two, a wider memory": (CROSS_FUSED, "Attention"),
    "cross-attention, a mask of all pairs": (CROSS_BROADCAST_MASK, "CrossAttention"),
    "attention": (FUNCTION, "attention"),
    "attention of matrices": (FLAT_FUNCTION, "attention"),
    "layer norm": (LAYER_NORM, "LayerNorm"),
    "rms norm": (RMS_NORM, "RMSNorm"),
    "sine": (SINE, "PositionalEncoding"),
    "learned": (LEARNED, "LearnedPositions"),
    "mean": (MEAN_POOL, "MeanPool"),
    "max": (MAX_POOL, "max_pool"),
    "last": (LAST_POOL, "last_token"),
    "attention pool": (ATTENTION_POOL, "AttentionPooling"),
    "feed forward": (FEED_FORWARD, "FeedForward"),
    "sequential": (SEQUENTIAL, "MLP"),
    "gated": (GATED, "SwiGLU"),
    "lstm": (LSTM, "LSTM"),
    "lstm by gates": (LSTM_BY_GATES, "MyLSTM"),
    "gru": (GRU, "GRU"),
    "rnn": (RNN, "RNN"),
    "softmax": (SOFTMAX, "softmax"),
    "cross-entropy": (CROSS_ENTROPY, "cross_entropy"),
    "encoder": (ENCODER, "Means"),
}
"""By style: the source, and the name of the brick in it."""
