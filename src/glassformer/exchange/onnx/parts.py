"""Which graphs a model becomes: one, or of a translator two; and the written ones as a model that can be called."""

from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.config.errors import Misuse
from glassformer.exchange.comparison import BATCH, LENGTH, SOURCE, Port, ports_of, translator_ports
from glassformer.exchange.onnx.graph import Graph, Session
from glassformer.models.inputs import Shape
from glassformer.models.modules import Seq2Seq, TextPredictor, TokenModel
from glassformer.tasks.answers import Answers, Scale

MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"


class ModelGraph(nn.Module):
    """A whole model: its scores or vectors; and what scores mean, as probabilities or in the unit of the data."""

    def __init__(self, model: nn.Module, shape: Shape, answers: Answers | None) -> None:
        super().__init__()
        self.model = model
        self.answers = answers
        text_inputs = 2 if shape.vocab else 0
        columns = {text_inputs: (torch.float32, shape.numbers), text_inputs + 1: (torch.int64, shape.categories)}
        self.empty = {place: kind for place, (kind, some) in columns.items() if shape.columns and not some}
        """Places of tensors that this model has no columns for: it is called with empty ones."""

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        tensors = list(inputs)
        for place, kind in self.empty.items():
            tensors.insert(place, inputs[0].new_zeros(inputs[0].shape[0], 0, dtype=kind))
        scores: Tensor = self.model(*tensors)
        if self.answers is None:
            return scores
        meaning = self.answers.values if isinstance(self.answers, Scale) else self.answers.probabilities
        return scores, meaning(scores)


class EncoderGraph(nn.Module):
    """The half of a translator that reads."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.embed, self.encoder = model.embed_source, model.encoder

    def forward(self, *inputs: Tensor) -> Tensor:
        source, mask = inputs
        return self.encoder(self.embed(source), mask)


class DecoderGraph(nn.Module):
    """The half of a translator that writes. What follows a token never matters, so that its padding needs no mask."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.embed, self.decoder, self.head = model.embed_target, model.decoder, model.head

    def forward(self, *inputs: Tensor) -> Tensor:
        target, memory, mask = inputs
        return self.head(self.decoder(self.embed(target), memory=Memory(memory, mask)))


def graphs_of(model: nn.Module, shape: Shape, target_vocab: int, answers: Answers | None) -> list[Graph]:
    if isinstance(model, Seq2Seq | TokenModel):
        rows = model.head.out_features  # a table may have more rows than there are tokens
    if isinstance(model, Seq2Seq):
        source, source_mask, target = translator_ports(shape.vocab, target_vocab)
        memory = Port("memory", (BATCH, SOURCE, model.encoder.width), torch.float32)
        reads = "what the decoder looks at: a vector for each token of the source"
        writes = f"{BATCH} × {LENGTH} × {rows}: scores for the next token after each token of the target"
        return [
            Graph(ENCODER, EncoderGraph(model), (source, source_mask), {"memory": reads}),
            Graph(DECODER, DecoderGraph(model), (target, memory, source_mask), {"logits": writes}),
        ]
    if isinstance(model, TokenModel):
        outputs = {"logits": f"{BATCH} × {LENGTH} × {rows}: scores of every token of the vocabulary, at each place"}
    elif answers is None:
        assert isinstance(model, TextPredictor)
        outputs = {"vectors": f"{BATCH} × {model.encoder.width}: a vector for each text"}
    elif isinstance(answers, Scale):
        outputs = {
            "scores": f"{BATCH} × 1: in spreads from the mean",
            "values": f"{BATCH}: the numbers in the unit of the data, scores · spread + mean",
        }
    else:
        outputs = {
            "scores": f"{BATCH} × {answers.outputs}: before softmax or sigmoid",
            "probabilities": f"{BATCH} × {len(answers.names)}: in the order of labels.json",
        }
    return [Graph(MODEL, ModelGraph(model, shape, answers), ports_of(shape), outputs)]


class OnnxModel(nn.Module):
    """The graphs of a folder, called as the model was that they were made of."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        names = [MODEL] if (folder / MODEL).is_file() else [ENCODER, DECODER]
        if not is_onnx(folder):
            raise Misuse(f"{folder} holds no exported model: there is neither {MODEL} nor {ENCODER} and {DECODER}")
        self.sessions = [Session(folder / name) for name in names]

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """Scores, as the model gives them; a mask that is None hides nothing."""
        tensors: list[Tensor] = []
        for tensor in inputs:
            tensors.append(torch.ones_like(tensors[-1], dtype=torch.bool) if tensor is None else tensor)
        if len(self.sessions) == 1:
            (session,) = self.sessions
            filled = [tensor for tensor in tensors if tensor.shape[-1]]
            return session(**dict(zip(session.inputs, filled, strict=True)))[0]
        encoder, decoder = self.sessions
        source, mask, target = tensors[:3]
        (memory,) = encoder(source=source, source_mask=mask)
        return decoder(target=target, memory=memory, source_mask=mask)[0]


def is_onnx(folder: Path) -> bool:
    return (folder / MODEL).is_file() or all((folder / name).is_file() for name in (ENCODER, DECODER))
