"""Write the table in docs/trust.md from the attempts that the trust tests recorded; `make test-trust` runs this."""

import json
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- table -->", "<!-- /table -->"


def table(lines: list[str]) -> str:
    """Return one row per attack and method; the cases of an attack (`kills: train`) are listed in its row."""
    times: dict[tuple[str, str, str], int] = defaultdict(int)
    cases: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for line in lines:
        attempt = json.loads(line)
        attack, _, case = attempt["what"].partition(": ")
        row = attack, attempt["how"], attempt["result"]
        times[row] += attempt["times"]
        cases[row] |= {case} - {""}
    body = [
        f"| {attack} | {how} | {', '.join(sorted(cases[attack, how, result]))} | {count:,} | {result} |"
        for (attack, how, result), count in sorted(times.items())
    ]
    return "\n".join(["| attack | method | cases | attempts | result |", "|---|---|---|---:|---|", *body])


def main() -> None:
    page = ROOT / "docs" / "trust.md"
    head, _, rest = page.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = (ROOT / "build" / "trust.jsonl").read_text().splitlines()
    page.write_text(f"{head}{BEGIN}\n{table(lines)}\n{END}{tail}")


if __name__ == "__main__":
    main()
