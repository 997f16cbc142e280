"""The loss written out, scores against sacreBLEU, and a few pairs learned by heart."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.config.errors import DataError, Misuse
from glassformer.decoding.beam import Hypothesis
from glassformer.decoding.options import Search
from glassformer.models.modules import Seq2Seq
from glassformer.tasks.translation import PairBatch, Translating, judge, text_scores
from glassformer.training.context import TrainerOptions
from glassformer.training.loop import Trainer
from helpers.settings import training_settings
from helpers.support import ready, same
from helpers.translating import letters_of, mirrored, pair_examples
from helpers.translators import translator

CPU = torch.device("cpu")
ROWS = [("abc", "CBA"), ("d", "D"), ("fedcba", "ABCDEF"), ("ab", "BA"), ("eee", "EEE")]
LETTERS = letters_of([*ROWS, *mirrored(9)])


def task_of(rows: list[tuple[str, str]] = ROWS, context: int = 20, **more: Any) -> Translating:
    examples = pair_examples(rows, LETTERS, context)
    return Translating({"train": examples, "validation": examples}, LETTERS, context=context, **more)


def model_of(encoder: str = "lstm", **more: Any) -> Seq2Seq:
    vocab = LETTERS.vocab_size
    return ready(translator(encoder, encoder, source_vocab=vocab, target_vocab=vocab, **more))


def loss_of_pair(model: Seq2Seq, source: str, target: str, smoothing: float = 0.0) -> Tensor:
    """Of one pair, from its texts: no batch, no padding, no mask."""
    assert LETTERS.start is not None
    assert LETTERS.end is not None
    asked = torch.tensor([[*LETTERS.encode(source), LETTERS.end]])
    written = [*LETTERS.encode(target), LETTERS.end]
    with torch.no_grad():
        scores = model(asked, None, torch.tensor([[LETTERS.start, *written[:-1]]]))[0]
    return F.cross_entropy(scores, torch.tensor(written), reduction="sum", label_smoothing=smoothing)


def loss_of_batch(task: Translating, model: Seq2Seq, batch: PairBatch) -> Tensor:
    with torch.no_grad():
        return task.loss(model, *batch.tensors(CPU))


def whole(task: Translating) -> PairBatch:
    """All pairs as one batch, in their order."""
    rows = np.arange(len(task.parts["train"]))
    train = task.parts["train"]
    return PairBatch(*train.source.padded(rows), *train.target.padded(rows))


# --- batches and their loss ---


@pytest.mark.parametrize("encoder", ["lstm", "transformer"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_that_of_each_pair_alone(encoder: str, smoothing: float) -> None:
    task, model = task_of(smoothing=smoothing), model_of(encoder)
    expected = sum(loss_of_pair(model, *row, smoothing) for row in ROWS)
    same(loss_of_batch(task, model, whole(task)), expected, 1e-5)


def test_what_is_counted() -> None:
    batch = whole(task_of())
    assert batch.size == 5
    assert batch.count == sum(len(target) + 1 for _, target in ROWS)  # END is an answer, START is not
    assert batch.tokens == batch.count + sum(len(source) + 1 for source, _ in ROWS)
    assert batch.source.shape == (5, 7)
    assert batch.target.shape == (5, 8)


def test_padding_changes_nothing() -> None:
    task, model = task_of(), model_of("transformer")
    batch = whole(task)

    def wider(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return F.pad(ids, (0, 3), value=5), F.pad(mask, (0, 3), value=False)

    padded = PairBatch(*wider(batch.source, batch.source_mask), *wider(batch.target, batch.target_mask))
    assert (padded.count, padded.tokens) == (batch.count, batch.tokens)
    same(loss_of_batch(task, model, padded), loss_of_batch(task, model, batch), 1e-6)


def test_rows_of_a_batch() -> None:
    task, model = task_of(), model_of()
    batch = whole(task)
    pieces = [batch.rows(first, last) for first, last in ((0, 2), (2, 3), (3, 5))]
    assert [piece.size for piece in pieces] == [2, 1, 2]
    assert [piece.source.shape[1] for piece in pieces] == [4, 7, 4]  # no more padding than they need
    assert [piece.target.shape[1] for piece in pieces] == [5, 8, 5]
    assert sum(piece.count for piece in pieces) == batch.count
    assert sum(piece.tokens for piece in pieces) == batch.tokens
    same(sum(loss_of_batch(task, model, piece) for piece in pieces), loss_of_batch(task, model, batch), 1e-6)


def test_every_epoch_has_every_pair_once() -> None:
    rows = mirrored(40)
    task = Translating({"train": pair_examples(rows, LETTERS)}, LETTERS, context=20, batch_tokens=60, seed=3)
    steps = round(task.steps_per_epoch)
    batches = [task.batch(step) for step in range(steps)]
    assert 5 < steps < 40
    for batch in batches:
        assert batch.source.numel() + batch.target.numel() <= 60 + batch.size  # START comes on top
    seen = [
        (LETTERS.decode(source), LETTERS.decode(target))
        for batch in batches
        for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True)
    ]
    assert sorted(seen) == sorted(rows)


# --- evaluation ---


def test_the_loss_of_an_evaluation_is_teacher_forcing() -> None:
    model = model_of("transformer")
    evaluation = task_of(smoothing=0.3).evaluate(model, "validation")  # it is plain, however it was learned
    losses = [loss_of_pair(model, *row).item() for row in ROWS]
    tokens = [len(target) + 1 for _, target in ROWS]
    assert [record["loss"] for record in evaluation.records] == pytest.approx(losses, rel=1e-5)
    assert [record["tokens"] for record in evaluation.records] == tokens
    assert evaluation.metrics["loss"] == pytest.approx(sum(losses) / sum(tokens), rel=1e-5)
    assert (evaluation.metrics["pairs"], evaluation.metrics["target_tokens"]) == (5, sum(tokens))


def says(task: Translating, outputs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives these translations, whatever the model."""

    def translations(*args: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(LETTERS.encode(text), -float(place), True)] for place, text in enumerate(outputs)]

    monkeypatch.setattr(task, "translations", translations)


OUTPUTS = ["CBA", "A", "ABCDEF", "ba", "EE"]


def test_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of()
    says(task, OUTPUTS, monkeypatch)
    evaluation = task.evaluate(model_of(), "validation", how=Search(beam=3))
    targets = [target for _, target in ROWS]
    assert evaluation.metrics.keys() == {"chrf", "exact_match", "loss", "pairs", "target_tokens"}
    assert evaluation.metrics["exact_match"] == 2 / 5
    assert evaluation.metrics["chrf"] == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, [targets]).score)
    assert evaluation.details["bleu"] is None
    assert 20 < evaluation.metrics["chrf"] < 95
    assert evaluation.primary == "chrf"
    assert evaluation.score < 0  # lower is better, whatever the metric
    assert "exact match 0.4000 (beam 3)" in evaluation.summary
    assert f"chrF {evaluation.metrics['chrf']:.2f}, no BLEU: " in evaluation.summary  # of single words
    for place, (record, (source, target)) in enumerate(zip(evaluation.records, ROWS, strict=True)):
        kept = {key: record[key] for key in ("source", "target", "output", "score", "exact")}
        assert kept == {
            "source": source,
            "target": target,
            "output": OUTPUTS[place],
            "score": -place,
            "exact": OUTPUTS[place] == target,
        }


def test_scores_are_sacrebleus() -> None:
    outputs = ["The cat sat on the mat, twice.", "it rains in Spain this year", "a b c"]
    targets = ["the cat sat on a mat, twice.", "It rains in Spain every year", "a b c d e"]
    metrics, details = text_scores(outputs, targets, lowercase=True)
    assert metrics == {
        "bleu": pytest.approx(sacrebleu.corpus_bleu(outputs, [targets]).score),
        "chrf": pytest.approx(sacrebleu.corpus_chrf(outputs, [targets]).score),
        "bleu_lowercase": pytest.approx(sacrebleu.corpus_bleu(outputs, [targets], lowercase=True).score),
    }
    assert 5 < metrics["bleu"] < metrics["bleu_lowercase"] < 95
    version = f"version:{sacrebleu.__version__}"
    assert details["signature"] == {
        "bleu": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}",
        "bleu_lowercase": f"nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|{version}",
    }
    plain, details = text_scores(outputs, targets)
    assert plain.keys() == details["signature"].keys() == {"bleu", "chrf"}


JAPANESE = ["猫がマットの上に座った。", "今日は雨が降っている。"]


def test_scripts_without_spaces_are_split_into_characters() -> None:
    outputs = ["猫がマットに座った。", "今日は雪が降っている。"]
    metrics, details = text_scores(outputs, JAPANESE)
    assert metrics["bleu"] == pytest.approx(sacrebleu.corpus_bleu(outputs, [JAPANESE], tokenize="char").score)
    assert metrics["bleu"] > 5
    assert (details["bleu_tokenizer"], "|tok:char|" in details["signature"]["bleu"]) == ("char", True)
    record = {"source": "a", "target": JAPANESE[0], "output": outputs[0], "exact": False, "tokens": 5}
    assert " (tokenizer char), chrF" in judge([record], "greedy").summary
    assert "(tokenizer zh), chrF" in judge([record], "greedy", bleu_tokenizer="zh").summary


@pytest.mark.parametrize("tokenizer", ["13a", "char", "zh", "intl"])
def test_the_tokenizer_of_bleu_can_be_chosen(tokenizer: str) -> None:
    outputs, targets = ["the cat sat — on the mat 3,4", *JAPANESE], ["the cat sat – on a mat 3,4", JAPANESE[0], "雨"]
    metrics, details = text_scores(outputs, targets, bleu_tokenizer=tokenizer)
    assert metrics["bleu"] == pytest.approx(sacrebleu.corpus_bleu(outputs, [targets], tokenize=tokenizer).score)
    assert f"|tok:{tokenizer}|" in details["signature"]["bleu"]


@pytest.mark.skipif(find_spec("MeCab") is not None, reason="MeCab is installed")
def test_a_tokenizer_that_is_not_installed_is_refused() -> None:
    with pytest.raises(Misuse, match=r"--bleu-tokenizer ja-mecab is not installed: pip install 'sacrebleu\[ja\]'"):
        text_scores(JAPANESE, JAPANESE, bleu_tokenizer="ja-mecab")


def test_where_no_target_has_four_words_there_is_no_bleu() -> None:
    """BLEU would be 0 even for a perfect translator."""
    metrics, details = text_scores(["dcba", "cba"], ["dcba", "cba"], lowercase=True)
    assert metrics.keys() == details["signature"].keys() == {"chrf"}
    assert details["bleu"] is details["bleu_lowercase"] is None
    right = {"source": "abcd", "target": "dcba", "output": "dcba", "exact": True, "tokens": 5}
    summary = judge([right], "greedy").summary
    assert summary.startswith("exact match 1.0000 (greedy), chrF 100.00, no BLEU: no target has 4 words in a row")
    longer = {**right, "target": "a b c d", "output": "a b c d"}
    assert judge([right, longer], "greedy").summary.startswith("BLEU 100.00, ")


def test_the_search_is_the_one_asked_for() -> None:
    task, model = task_of(), model_of()
    sources = [task.parts["train"].source.of(row) for row in range(len(ROWS))]
    outputs = []
    for how in (Search(beam=1), Search(beam=4, length_penalty=0.0)):
        found = task.translations(model, sources, how)
        records = task.evaluate(model, "validation", how=how).records
        assert [record["output"] for record in records] == [LETTERS.decode(best[0].ids) for best in found]
        assert [record["score"] for record in records] == [best[0].score for best in found]
        specials = {id for best in found for id in best[0].ids} & LETTERS.specials
        assert not specials
        outputs.append([record["output"] for record in records])
    assert outputs[0] != outputs[1]


def test_at_most_so_many_tokens_spread_over_all_pairs() -> None:
    rows = mirrored(30, longest=4)
    task, model = task_of(rows), model_of()
    tokens = sum(len(target) + 1 for _, target in rows)
    some = task.evaluate(model, "validation", most=tokens // 4)
    apart = [rows.index((record["source"], record["target"])) for record in some.records]
    assert apart == list(range(0, 30, 5))
    for most in (None, tokens, 10 * tokens):
        assert task.evaluate(model, "validation", most=most).metrics["pairs"] == 30
    assert task.evaluate(model, "validation", most=1).metrics["pairs"] == 1
    every = {record["source"]: record for record in task.evaluate(model, "validation").records}
    for record in some.records:
        assert record["loss"] == pytest.approx(every[record["source"]]["loss"], rel=1e-6)


def test_a_part_without_pairs() -> None:
    """All of them were longer than the context."""
    task = Translating({"given": pair_examples([("abcdef", "ABCDEF")], LETTERS, 4)}, LETTERS, context=4)
    with pytest.raises(DataError, match="the given part holds no pair"):
        task.evaluate(model_of(), "given")


def test_without_a_training_part_there_is_only_evaluation() -> None:
    task = Translating({"given": pair_examples(ROWS, LETTERS)}, LETTERS, context=20)
    assert task.evaluate(model_of(), "given").metrics["pairs"] == 5


# --- learning ---


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"encoder": "transformer", "heads": 2, "head_width": 16, "hidden": 64},
    {"encoder": "lstm", "attention": "additive"},
    {"encoder": "gru", "attention": "dot", "input_feeding": True},
], ids=lambda settings: settings["encoder"])  # fmt: skip
def test_a_few_pairs_are_learned_by_heart(settings: dict[str, Any]) -> None:
    rows = mirrored(9)
    task = Translating({name: pair_examples(rows, LETTERS) for name in ("train", "validation")}, LETTERS, context=20,
                       batch_tokens=400)  # fmt: skip
    vocab = LETTERS.vocab_size
    kind = settings["encoder"]
    rest = {key: value for key, value in settings.items() if key != "encoder"}
    model = translator(kind, kind, source_vocab=vocab, target_vocab=vocab, width=32, layers=1, **rest)
    how = training_settings(steps=120, optimizer="adamw", lr=0.01, warmup=5, validate_every=120, batch_tokens=400)
    before = task.evaluate(model.eval(), "validation").metrics["exact_match"]
    Trainer(model, task, how, TrainerOptions(CPU)).run()
    learned = task.evaluate(model.eval(), "validation").metrics
    assert before < 0.5
    assert learned["exact_match"] == 1
    assert learned["chrf"] == 100
    assert task.evaluate(model, "validation", how=Search(beam=5)).metrics["exact_match"] == 1
