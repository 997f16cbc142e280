import os
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import DataError, SettingError
from glassformer.config.limits import (
    TIMES,
    VARIABLE,
    LimitExceeded,
    Limits,
    parse_json,
    read_text,
    refuse_beyond,
    refuse_endless,
)


def test_limits_are_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert gf.limits() == Limits()
    monkeypatch.setenv(VARIABLE, "pixels=400M, columns=7")
    assert (gf.limits().pixels, gf.limits().columns) == (400_000_000, 7)
    assert gf.limits(columns=11, unpacked_bytes="1.5GiB").columns == 11
    assert gf.limits().unpacked_bytes == 3 * 2**29
    assert os.environ[VARIABLE].startswith("pixels=400M"), "processes that are started have the same"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pixel": 3}, "unknown limit 'pixel'; did you mean pixels?"),
        ({"pixels": "many"}, "limit pixels wants a number, such as pixels=400M or 4GB, not 'many'"),
        ({"pixels": 0}, "limit pixels is 0, but must be 1 or more"),
        ({"pixels": -1}, "limit pixels wants a number"),
    ],
)
def test_limits_that_cannot_be(changes: dict[str, object], message: str) -> None:
    before = gf.limits()
    with pytest.raises(SettingError) as caught:
        gf.limits(**changes)
    assert str(caught.value).startswith(message)
    assert gf.limits() == before


def test_a_refusal_says_how_to_raise_the_limit() -> None:
    with pytest.raises(LimitExceeded) as caught:
        refuse_beyond("pixels", 169_000_000, "a.png has {} pixels")
    said = "a.png has 169,000,000 pixels, more than the limit of 50,000,000: --limit pixels=169000000 raises it"
    assert str(caught.value) == said
    refuse_beyond("unpacked_bytes", TIMES * 2**30, "a", file_bytes=2**30)
    with pytest.raises(
        LimitExceeded, match=r"a is 50\.0 GiB, more than the limit of 50\.0 GiB: --limit unpacked_bytes="
    ):
        refuse_beyond("unpacked_bytes", TIMES * 2**30 + 1, "a is {}", file_bytes=2**30)


def test_the_command_line_raises_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--limit", "pixels=3k", "--limit", "columns=5"]) == 0
    assert (gf.limits().pixels, gf.limits().columns) == (3000, 5)
    assert main(["data", "list", "--limit", "pixels"]) == 2
    assert "limit pixels wants a number" in capsys.readouterr().err
    assert main(["train", "--help-all"]) == 0
    assert "unpacked_bytes 1.0 GiB" in " ".join(capsys.readouterr().out.split())


def test_what_never_ends_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(DataError, match="is a pipe or a device"):
            refuse_endless(path, streams=True)
    source, target = os.pipe()  # as the shell's <(…)
    os.write(target, b"model:\n  width: 8\n")
    os.close(target)
    assert read_text(f"/dev/fd/{source}", streams=True) == "model:\n  width: 8\n"
    os.close(source)


def test_json_has_a_depth_and_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_json("[" * 100 + "]" * 100, "a") is not None
    with pytest.raises(LimitExceeded, match="a: lists and objects within one another, 101 deep, more than the limit"):
        parse_json("[" * 100 + '{"a": 1}' + "]" * 100, "a")
    with pytest.raises(LimitExceeded, match="a: lists and objects nested deeper than can be read"):
        parse_json("[" * 100_000, "a")
    monkeypatch.setenv(VARIABLE, "json_bytes=5")
    (tmp_path / "a.json").write_text("[1, 2]")
    with pytest.raises(LimitExceeded, match="more than the limit"):
        read_text(tmp_path / "a.json")
