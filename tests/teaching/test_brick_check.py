"""A brick of one's own held against ours: right ones pass in every style, wrong ones are told what is wrong."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.bricks.attention import Attention
from glassformer.bricks.feed_forward import FeedForward
from glassformer.bricks.losses import softmax_loss
from glassformer.bricks.norm import LayerNorm, RMSNorm, layer_norm, rms_norm
from glassformer.bricks.pooling import AttentionPool, pool_first, pool_last, pool_max, pool_mean, pool_sum
from glassformer.bricks.positions import LearnedPositions, SineCosine, sine_cosine
from glassformer.bricks.recurrent import Recurrent
from glassformer.cli.main import main
from glassformer.config.errors import Misuse
from glassformer.teaching.brick_check.check import CONTRACTS, KINDS, BrickChecks
from glassformer.teaching.brick_check.rows import ROWS
from helpers import student_attention
from helpers.right_bricks import RIGHT
from helpers.running import one_line
from helpers.wrong_bricks import ZOO, Wrong

Check = Callable[..., BrickChecks]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Checks a brick by its source and its name in it."""

    def run(source: str, name: str, like: str | None = None) -> BrickChecks:
        file = tmp_path / "student_file.py"
        file.write_text(source)
        monkeypatch.delitem(sys.modules, "student_file", raising=False)
        return gf.check_brick(f"{file}:{name}", like)

    return run


def row(checks: BrickChecks, name: str) -> str:
    """What a row says."""
    (found,) = [each for each in checks.checked if each.name == name]
    return f"{found.result}: {found.words}"


OURS = [
    (Attention, None),
    (LayerNorm, None),
    (RMSNorm, None),
    (layer_norm, None),
    (rms_norm, None),
    (SineCosine, None),
    (LearnedPositions, None),
    (sine_cosine, None),
    (pool_mean, None),
    (pool_max, "max-pool"),
    (pool_last, "pooling"),
    (pool_sum, None),
    (pool_first, None),
    (AttentionPool, None),
    (FeedForward, None),
    (Recurrent, "lstm"),
    (Recurrent, "gru"),
    (Recurrent, "rnn"),
    (torch.nn.functional.cross_entropy, None),
    (torch.nn.functional.softmax, None),
    (nn.MultiheadAttention, None),
    (nn.LayerNorm, None),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("brick", "like"), OURS, ids=lambda value: getattr(value, "__name__", value))
def test_ours_and_those_of_torch_pass(brick: Callable[..., object], like: str | None) -> None:
    checks = gf.check_brick(brick, like)
    assert checks.passed, checks.words
    assert row(checks, "forward").startswith("pass")
    assert not checks.hint
    assert not checks.first_wrong


@pytest.mark.sample(7)
@pytest.mark.parametrize("style", RIGHT)
def test_a_right_brick_passes_in_every_style(style: str, check: Check) -> None:
    checks = check(*RIGHT[style])
    assert checks.passed, [(each.name, each.words) for each in checks.failed]
    assert style == "encoder" or row(checks, "forward").startswith("pass")
    assert style == "encoder" or row(checks, "gradients").startswith("pass")


@pytest.mark.sample(7)
@pytest.mark.parametrize("wrong", ZOO, ids=lambda wrong: f"{wrong.name}: {wrong.hint or wrong.fails}")
def test_a_mistake_is_found_and_named(wrong: Wrong, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ROWS, "overfits one batch")  # most of them can learn all the same
    checks = check(wrong.code, wrong.name)
    assert not checks.passed
    assert wrong.fails in [each.name for each in checks.failed]
    assert wrong.hint in checks.hint
    assert checks.first_wrong.startswith(wrong.stage)


def test_many_mistakes_are_known_and_all_differ_from_what_is_right() -> None:
    assert sum(len(contract.mistakes) for contract in CONTRACTS) > 90
    for contract in CONTRACTS:
        hints = [mistake.hint for mistake in contract.known_mistakes()]
        assert all(hint[0].islower() or hint[0] in "1εx" for hint in hints), contract.name
        assert not any(hint.endswith(".") for hint in hints)
        for steps in contract.mistakes.values():
            assert set(steps) <= {*contract.steps, "_along"}, steps.keys()


def test_what_is_said(check: Check) -> None:
    wrong = student_attention.ATTENTION.replace("softmax(-1)", "softmax(-2)")
    checks = check(wrong, "Attention")
    assert "everything before it (queries, keys, values, scores) is right" in checks.first_wrong
    assert checks.first_wrong.startswith("weights[0, 0, 0, 0] is 0.")
    assert checks.to_dict()["hint"] == checks.hint
    assert "Likely reason: softmax goes over the queries" in checks._repr_html_()
    assert row(checks, "gradients") == "does not apply: forward comes first"


def test_two_mistakes_at_once(check: Check) -> None:
    source = student_attention.ATTENTION.replace("/ math.sqrt(q.shape[-1])", "").replace("self.output(mixed)", "mixed")
    checks = check(source, "Attention")
    assert checks.hint.startswith("two things: the scores are not divided")
    assert "W^O is forgotten" in checks.hint


def test_an_unknown_mistake_is_placed_though_not_explained(check: Check) -> None:
    source = student_attention.ATTENTION.replace("weights = scores.softmax(-1)", "weights = scores.softmax(-1) ** 2")
    checks = check(source, "Attention")
    assert not checks.hint
    assert checks.first_wrong.startswith("mixed[0, 0, 0] is")
    assert "(queries, keys, values, scores, weights) is right" in checks.first_wrong


FORWARD = "return self.output(mixed)"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("old", "new", "name", "words"),
    [
        (FORWARD, "raise ValueError('no')", "shapes", r"FAIL: raises ValueError: no \(line \d+ of forward\)"),
        (FORWARD, "pass", "shapes", "FAIL: gives None, not a tensor"),
        (FORWARD, "return mixed[:, 0]", "shapes", "FAIL: gives 2×21, not 2×5×21"),
        (FORWARD, "return self.output(mixed) * float('nan')", "forward", "FAIL: first wrong tensor: output.* is nan"),
        (FORWARD, "return self.output(mixed.detach())", "gradients", "FAIL: no gradient comes to"),
        (FORWARD, "return self.output(mixed).detach()", "gradients", "FAIL: nothing can be learned through it"),
        (
            FORWARD,
            "out = self.output(mixed)\n        x += 1\n        return out",
            "input unchanged",
            "FAIL: it changes x",
        ),
        (FORWARD, "return self.output(mixed) + 1e-9 * torch.rand(1)", "same twice", "FAIL: the same call gives"),
        ("heads, causal=False", "heads, colour", "builds", "FAIL: Attention.__init__ wants colour"),
        (
            "self.query = nn",
            "raise RuntimeError('oh')\n        self.query = nn",
            "builds",
            "FAIL: raises RuntimeError: oh",
        ),
        (
            "self.output = ",
            "self.extra = nn.Linear(3, 5)\n        self.output = ",
            "weights",
            r"FAIL: .* extra\.weight 5×3",
        ),
        ("self.output", "self.blob", "forward", "pass"),
        ("self.query", "self.blob", "forward", "pass"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bricks_that_do_other_things(old: str, new: str, name: str, words: str, check: Check) -> None:
    checks = check(student_attention.ATTENTION.replace(old, new), "Attention")
    assert re.match(words, row(checks, name)), row(checks, name)


def test_a_state_that_is_kept_is_told(check: Check) -> None:
    (wrong,) = [one for one in ZOO if one.fails == "same twice"]
    assert "a state that is not reset between two batches" in row(check(wrong.code, wrong.name), "same twice")


def test_the_future_that_is_seen_is_named(check: Check) -> None:
    source = student_attention.ATTENTION.replace("torch.tril(seen)", "torch.tril(seen, 1)")
    assert "changing token 1 moves output 0 by" in row(check(source, "Attention"), "causality")


def test_a_registered_encoder_is_checked_for_what_must_hold(check: Check) -> None:
    checks = check(*RIGHT["encoder"])
    assert checks.like == "encoder"
    assert row(checks, "cached = uncached").startswith("pass")
    assert row(checks, "forward").startswith("does not apply")


def test_cross_attention_is_told_by_its_forward(check: Check) -> None:
    renamed = student_attention.CROSS.replace("CrossAttention", "Attention")
    assert check(renamed, "Attention").like == "cross-attention"
    assert gf.check_brick(nn.MultiheadAttention, "cross-attention").passed
    swapped = check(renamed.replace("self.query(x)", "self.query(memory)"), "Attention")
    assert re.search(r"FAIL: (gives 2×4×21, not 2×5×21|raises)", row(swapped, "shapes"))
    checks = check(student_attention.CROSS, "CrossAttention")
    assert row(checks, "permutation") == "pass: memory change places together: nothing moves"
    assert row(checks, "causality").startswith("does not apply")
    assert row(checks, "padded = unpadded") == "pass: rows of 4, 2 tokens together and alone"


def test_which_kind_is_meant(check: Check) -> None:
    assert check(student_attention.ATTENTION.replace("class Attention", "class Thing"), "Thing", "attention").passed
    with pytest.raises(Misuse, match=r"what should Thing be.*attention.*lstm"):
        check(student_attention.ATTENTION.replace("class Attention", "class Thing"), "Thing")
    with pytest.raises(Misuse, match="unknown kind of brick 'atention'; did you mean attention"):
        gf.check_brick(Attention, "atention")
    with pytest.raises(Misuse, match="there is no softmax that is a class"):
        gf.check_brick(Attention, "softmax")
    with pytest.raises(Misuse, match=r"a brick is a class of nn\.Module or a function"):
        gf.check_brick(3)  # type: ignore[arg-type]
    assert {"attention", "layer-norm", "sine-positions", "mean-pool", "lstm", "encoder"} < set(KINDS)


def test_a_group_is_searched_for_what_fits(check: Check) -> None:
    source = RIGHT["rms norm"][0].replace("class RMSNorm", "class Mine")
    assert check(source, "Mine", "norm").like == "rms-norm"


def test_the_references_of_the_contracts_are_those_of_torch() -> None:
    """`softmax_loss` gives a number an example: it is not a loss of a batch."""
    checks = gf.check_brick(softmax_loss, "cross-entropy")
    assert "gives 5, not one number" in row(checks, "shapes")


class Quiet(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_random_numbers_go_on_as_if_nothing_had_been() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    assert not gf.check_brick(Quiet, "feed-forward").passed
    assert torch.equal(before, torch.random.get_rng_state())


# --- the command ---


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right_brick.py").write_text(student_attention.ATTENTION)
    (tmp_path / "wrong_brick.py").write_text(student_attention.ATTENTION.replace("softmax(-1)", "softmax(-2)"))
    (tmp_path / "broken_brick.py").write_text("import nothing_of_this_name\n")
    return tmp_path


def test_the_command(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--brick", "right_brick.py:Attention"]) == 0
    out, err = capsys.readouterr()
    assert "Is Attention right?" in out
    assert "11 of 11 checks passed" in err
    assert main(["check", "--brick", "wrong_brick.py:Attention", "--json", "--out", "checks.html"]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["passed"], found["like"]) == (False, "attention")
    assert "softmax goes over the queries" in found["hint"]
    assert "likely reason: softmax goes over the queries" in err
    assert "First wrong tensor: weights" in (files / "checks.html").read_text()


def test_the_only_brick_of_a_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (files / "right_brick.py").read_text()
    decorated = source.replace("class Attention", '@gf.register_brick("attention", "only")\nclass Attention')
    (files / "only_brick.py").write_text(f"import glassformer as gf\n{decorated}")
    assert main(["check", "--brick", "only_brick.py"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "RUN is missing, or --brick FILE.py:Name"),
        (("--brick", "right_brick.py"), "name a class, as in right_brick.py:Attention"),
        (("--brick", "right_brick.py:Atention"), "did you mean Attention?"),
        (("--brick", "nowhere.py:Attention"), "nowhere.py"),
        (("--brick", "broken_brick.py:Attention"), "nothing_of_this_name"),
        (("--brick", "right_brick.py:Attention", "--like", "atention"), "did you mean attention?"),
        (("--brick", "right_brick.py:Attention", "--brick", "right_brick.py:Attention"), "one brick at a time"),
    ],
)
def test_misuse(words: tuple[str, ...], message: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    assert message in one_line(capsys.readouterr().err)
