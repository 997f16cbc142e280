"""Plain texts, looked at before a language is learned from them: no word of labels."""

import re
from pathlib import Path

import pytest

from glassformer.cli.data import check as check_command
from glassformer.config.sections import DataSettings
from glassformer.data.check.tables import DataCheck, Spread
from glassformer.data.check.texts import check_texts
from glassformer.data.io.source import open_source
from glassformer.data.same_text import DIFFERENCES

LONG = "the quick brown fox jumps over the lazy dog and runs far away into the dark wood where nobody lives"


def checked(path: Path, same_text: str = "normal") -> DataCheck:
    return check_texts(open_source(str(path), DataSettings()), same_text)


def test_one_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.txt"
    file.write_text("the cat sat")
    found = checked(file)
    assert list(found.counts.values()) == [1, 11, 0, 0, 0]
    assert found.lengths == {"characters": Spread(11, 11, 11, 11, 11)}
    check_command([str(file)])
    shown = "".join(capsys.readouterr())
    assert re.search(r"^documents +1\ncharacters +11\nempty documents +0$", shown, re.MULTILINE)
    assert "nothing odd found" in shown
    assert "label" not in shown


def test_documents(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    texts = [LONG, " ", LONG.upper(), LONG + " now", "short"]
    file.write_text("text\n" + "\n".join(f'"{text}"' for text in texts))
    found = checked(file)
    assert list(found.counts.values())[2:] == [1, 1, 1]
    assert found.findings == [
        "1 document is empty and would be left out: number 2",
        f"1 document repeats an earlier document (1 of them written differently: {DIFFERENCES}): number 3",
        "1 document is nearly the same as an earlier one; --data.near_duplicates together keeps such documents in one "
        "part",
    ]
    assert checked(file, "exact").counts["repeated_documents"] == 0
