"""Write the table in docs/trust.md from what the tests of trust said: `make test-trust` does."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- table -->", "<!-- /table -->"


def table(lines: list[str]) -> str:
    """Attempts of one kind are one row: their number is summed."""
    rows: dict[tuple[str, str, str], int] = {}
    for line in lines:
        one = json.loads(line)
        key = one["what"], one["how"], one["result"]
        rows[key] = rows.get(key, 0) + one["times"]
    body = [f"| {what} | {how} | {times:,} | {result} |" for (what, how, result), times in sorted(rows.items())]
    return "\n".join(["| what | how | times | result |", "|---|---|---:|---|", *body])


def main() -> None:
    page = ROOT / "docs" / "trust.md"
    head, _, rest = page.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = (ROOT / "build" / "trust.jsonl").read_text().splitlines()
    page.write_text(f"{head}{BEGIN}\n{table(lines)}\n{END}{tail}")


if __name__ == "__main__":
    main()
