"""What is said of models that begin from a run: whether what it had learned before is worth anything here."""

from collections.abc import Sequence

from glassformer.trials.results.chance import beyond, compared, turned
from glassformer.trials.results.rows import Row, label_of
from glassformer.trials.results.verdict import by, by_within

ENCODER = "model.encoder"


def of_beginnings(rows: Sequence[Row]) -> list[str]:
    """Each that begins from a run beside the same kind of model that begins from nothing, with as much data."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.begins and row.outcomes and (other := _from_nothing(row, rows)):
            found.setdefault((row.name, other.name), []).append(_beside(row, other))
    return [
        f"Is it worth it to begin from what was learned before? {name} beside {other}, which begins from nothing: "
        f"{'; '.join(told)}."
        for (name, other), told in found.items()
    ]


def _from_nothing(row: Row, rows: Sequence[Row]) -> Row | None:
    """The best of them."""
    alike = [one for one in rows if one.is_trained and not one.begins and one.outcomes and one.varied == row.varied]
    same = [one for one in alike if _encoder(one) == _encoder(row)]
    return min(same, key=lambda one: one.rank, default=None)


def _encoder(row: Row) -> str | None:
    return row.outcomes[0].cell.settings.get(ENCODER)


def _beside(row: Row, other: Row) -> str:
    found = compared(row, other)
    where = f"with {varied}, " if (varied := label_of("", row.varied)) else ""
    if found is None:
        return f"{where}not judged on the same examples"
    if beyond(found):
        return f"{where}better by {by(found, row)}"
    if beyond(turned(found)):
        return f"{where}worse by {by(turned(found), row)}"
    return f"{where}not to be told apart ({by_within(found, row)})"
