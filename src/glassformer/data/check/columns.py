"""What deserves attention in number and category columns."""

from collections.abc import Sequence

from glassformer.data.columns.heuristics import hold_numbers, is_empty, number_in
from glassformer.data.io.table import Table
from glassformer.data.wording import counted, lines_in_words


def column_findings(table: Table, names: Sequence[str]) -> list[str]:
    """One line each: values that are no numbers, empty ones, columns that are the same in every row."""
    findings = []
    for name in names:
        values = table.columns[name]
        different = {value.strip() for value in values}
        if len(different) == 1:
            findings.append(f"column '{name}' is {next(iter(different)) or 'empty'} in every row: it says nothing")
            continue
        numbers = hold_numbers(values)
        filled = [row for row, value in enumerate(values) if not (is_empty(value) if numbers else not value.strip())]
        odd = [table.lines[row] for row in filled if numbers and number_in(values[row]) is None]
        if odd:
            some = counted(len(odd), "value is", "values are")
            findings.append(
                f"column '{name}': {some} no number among numbers, and training would refuse it: {lines_in_words(odd)}"
            )
        if empty := len(values) - len(filled):
            findings.append(f"column '{name}': {counted(empty, 'value is', 'values are')} empty")
    return findings
