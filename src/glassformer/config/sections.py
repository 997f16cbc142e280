"""The sections of a configuration on the tokenizer and on training. The docstring of a setting is its help text."""

from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.config.data_section import DataSettings as DataSettings
from glassformer.config.errors import SettingError
from glassformer.config.setting import TINY, OpenSettings, check, open_setting, setting

TOKENIZER_KINDS = ("char", "word", "bpe")


@dataclass(frozen=True)
class TokenizerSettings:
    kind: str = setting("bpe", choices=TOKENIZER_KINDS)
    """set what a token is"""
    vocab_size: int | None = setting(None, least=5)
    """limit the vocabulary to N tokens; unset: all characters, 20000 words, 4096 for bpe"""
    lowercase: bool = setting(False)
    """convert the text to lower case first (char and word)"""
    min_count: int = setting(1, least=1)
    """ignore characters, words or merges that occur less often than this"""
    sample_mb: int = setting(256, least=1)
    """learn the tokens from at most this many megabytes of text, spread over the corpus"""
    file: str | None = setting(None)
    """use this tokenizer.json instead of training a tokenizer"""
    shared: bool = setting(True)
    """use one tokenizer for both languages of a translation; false: one per language"""

    def __post_init__(self) -> None:
        check("tokenizer", self)
        if self.kind == "bpe" and self.vocab_size is not None and self.vocab_size < 260:
            size = f"tokenizer.vocab_size is {self.vocab_size}"
            raise SettingError(f"{size}, but bpe starts from 256 bytes and needs at least 260")
        if self.kind == "bpe" and self.lowercase:
            raise SettingError("tokenizer.lowercase is for char and word: bpe gives every text back exactly")


class TrainingSettings(OpenSettings):
    """Settings of training, public as `gf.Training`."""

    section: ClassVar[str] = "training"
    steps: int | None = open_setting(default=None, least=1)
    """train for N updates; unset, without epochs and minutes: 2000, or 2 to 10 epochs for labels"""
    epochs: float | None = open_setting(default=None, least=1e-9)
    """train for N passes over the data"""
    minutes: float | None = open_setting(default=None, least=1e-9)
    """finish the whole command, from reading to the report, within this many minutes"""
    batch_size: int = open_setting(default=16, least=1)
    """use this many sequences per update, over all processes"""
    batch_tokens: int | None = open_setting(default=None, least=2)
    """translation: use this many source and target tokens per update, padding included, over all processes"""
    targets: str = open_setting(default="every", choices=("every", "last"))
    """language models: predict the next token after every token of a window, or only after the last one"""
    mask_rate: float = open_setting(default=0.15, least=0.01, most=0.9)
    """masked models: predict this fraction of the tokens (80 % of them masked, 10 % replaced)"""
    whole_words: bool = open_setting(default=False)
    """masked models: mask whole words"""
    last_blocks: int | None = open_setting(default=None, least=0)
    """with --from: train the head and the last N blocks; 0: only the head, on features computed once"""
    layer_decay: float = open_setting(default=1.0, least=TINY, most=1.0)
    """with --from: multiply the learning rate by this from each block to the block below"""
    accumulation_steps: int = open_setting(default=1, least=1)
    """accumulate gradients over N parts of each batch: less memory, the same update"""
    parallel: str = open_setting(default="auto", choices=("auto", "ddp", "fsdp"))
    """with several processes: replicate the model (ddp) or shard it (fsdp); auto: ddp if it fits"""
    recompute: bool = open_setting(default=False)
    """Transformers: recompute each block in the backward pass (activation checkpointing) to save memory"""
    optimizer: str = open_setting(default="muon", choices=("muon", "adamw", "momentum", "sgd"))
    """update rule"""
    lr: float | None = open_setting(default=None, least=0.0)
    """set the learning rate; unset: the default of the optimiser"""
    momentum: float = open_setting(default=0.9, least=0.0, most=0.99999)
    """set the momentum of `momentum`; Muon always uses 0.95"""
    beta1: float = open_setting(default=0.9, least=0.0, most=0.99999)
    """set Adam's decay rate of the gradient average"""
    beta2: float = open_setting(default=0.99, least=0.0, most=0.99999)
    """set Adam's decay rate of the squared-gradient average"""
    weight_decay: float = open_setting(default=0.1, least=0.0)
    """set the decoupled weight decay of matrices (not of vectors, norms and embeddings)"""
    l2: float = open_setting(default=0.0, least=0.0)
    """add l2 · ‖w‖² of the same matrices to the loss"""
    loss: str | None = open_setting(default=None, choices=("softmax", "logistic", "squared"))
    """choose the loss; unset: logistic for two classes, softmax for more, squared for numbers"""
    class_weights: str | None = open_setting(default=None)
    """weight classes in the loss: balanced, or a weight per class, such as spam=5,ham=1; unset: equal weights"""
    label_smoothing: float = open_setting(default=0.0, least=0.0, most=0.99)
    """set the label smoothing: probability shared among all tokens or classes"""
    grad_clip: float | None = open_setting(default=1.0, least=1e-9)
    """clip gradients to this norm; none: no clipping"""
    schedule: str = open_setting(default="cosine", choices=("cosine", "inverse-sqrt", "constant"))
    """choose the learning-rate schedule"""
    schedule_steps: int | None = open_setting(default=None, least=1)
    """plan the learning-rate schedule for N updates; unset: the length of the run"""
    warmup: int = open_setting(default=100, least=0)
    """increase the learning rate over the first N updates (at most a tenth of the run)"""
    lr_floor: float = open_setting(default=0.1, least=0.0, most=1.0)
    """end the cosine schedule at this fraction of the learning rate"""
    seed: int = open_setting(default=0, least=0, most=2**62)
    """seed the initial weights, the order of the data and dropout"""
    device: str = open_setting(default="auto")
    """run on this device: auto, cpu, cuda, cuda:1, mps"""
    precision: str = open_setting(default="auto", choices=("auto", "fp32", "bf16", "fp16"))
    """choose the precision of training; auto: bf16 on a GPU that supports it"""
    compile: str = open_setting(default="auto", choices=("auto", "on", "tuned", "off"))
    """use torch.compile; auto: on CUDA, if the run is long enough"""
    threads: int | None = open_setting(default=None, least=1)
    """CPU threads; unset: torch's choice; kept on resuming"""
    average: int | None = open_setting(default=None, least=2)
    """use the average of the weights over about the last N updates; unset: no averaging"""
    validate_every: int | None = open_setting(default=None, least=1)
    """validate every N updates; unset: ten times per run, more often with --minutes"""
    validation_tokens: int = open_setting(default=200_000, least=1)
    """validate on at most N tokens during training (the last validation uses the whole set)"""
    choose_by: str = open_setting(default="accuracy", choices=("accuracy", "macro_f1", "average_precision", "loss"))
    """classifiers: choose the best weights, trials and models by this validation metric; average_precision (two
    classes only) is that of the rarer class"""
    keep: str = open_setting(default="best", choices=("best", "last"))
    """keep the weights with the best validation score, or the last weights"""
    patience: int | None = open_setting(default=None, least=1)
    """stop after N validations without improvement; unset: with --minutes, when training has converged or
    overfits"""
    checkpoint_every: int | None = open_setting(default=None, least=1)
    """write a checkpoint every N updates, in addition to those at validations"""
    checkpoints: int = open_setting(default=2, least=1)
    """keep the N newest checkpoints for resuming"""
    keep_checkpoints: bool = open_setting(default=False)
    """also keep the weights of about two dozen updates (0, 1, 2, 4, 8, …), to watch the model learn"""
    samples: bool = open_setting(default=True)
    """print a sample at each validation"""

    @property
    def _budgets(self) -> list[str]:
        return [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]

    def derived(self) -> dict[str, Any]:
        rates = {"muon": 3e-3, "adamw": 1e-3, "momentum": 0.1, "sgd": 0.5}
        return {"steps": None if self._budgets else 2000, "lr": rates[self.optimizer]}

    def check(self) -> None:
        if len(self._budgets) > 1:
            raise SettingError(f"training.{self._budgets[0]} and training.{self._budgets[1]}: give one of them")
        if self.keep == "last" and self.patience is not None:
            raise SettingError("training.patience waits for a better validation, and training.keep last for none")
        if self.batch_tokens is None and self.batch_size % self.accumulation_steps:
            pieces = f"training.accumulation_steps {self.accumulation_steps}"
            raise SettingError(f"{pieces} does not divide training.batch_size {self.batch_size}")
