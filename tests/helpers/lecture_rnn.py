"""The character model of the lecture on recurrent networks, as a student hands it in."""

import torch
from torch import Tensor, nn

import glassformer as gf


class RNNLayer(nn.Module):
    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.W_ih = nn.Parameter(torch.randn(hidden_size, input_size) * 0.1)
        self.W_hh = nn.Parameter(torch.randn(hidden_size, hidden_size) * 0.1)
        self.bias = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h, states = x.new_zeros(len(x), self.hidden_size), []
        for t in range(x.shape[1]):
            h = torch.tanh(x[:, t] @ self.W_ih.T + h @ self.W_hh.T + self.bias)
            states.append(h)
        return torch.stack(states, 1), h


@gf.register_model("lecture-rnn")
class RNNCharPredictionModel(nn.Module):
    def __init__(self, vocab: int, hidden_size: int = 32) -> None:
        super().__init__()
        self.vocab = vocab
        self.rnn = RNNLayer(vocab, hidden_size)
        self.fc = nn.Linear(hidden_size, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        all_h, _ = self.rnn(nn.functional.one_hot(tokens, self.vocab).float())
        return self.fc(all_h)
