"""The verdict of a comparison: the best model, whether its lead is significant, and the recommended model.

Remarks on the rows and notes below the table are here too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from glassformer.config.resolve import BUDGETS
from glassformer.rendering.takeaways import listed
from glassformer.trials.jobs import FLOOR, KINDS, REFERENCE, TRAINED
from glassformer.trials.results.metrics import amount, sentence, titled, unit_of
from glassformer.trials.results.pairs import Lead
from glassformer.trials.results.rows import Row, compare_rows, label_of, percent, relation
from glassformer.trials.running.candidates import MASK
from glassformer.trials.running.question import ABLATION, FRACTION, FRACTIONS, SIZE, SIZES

TRANSFORMER = "transformer"
MAX_TIME_SHARE, MIN_SECONDS_SAVED = 0.5, 1.0
"""Conditions for recommending a model that is not the best: its training time is at most this share of the best model's
time, and it saves at least this number of seconds."""
BEST, LEVEL, RECOMMENDED = "best", "within chance", "recommended"
UNDERTRAINED_SIGN = "↘"
UNDERTRAINED = f"{UNDERTRAINED_SIGN} undertrained"


@dataclass(frozen=True)
class Verdict:
    """Sentences, and the rows that they recommend."""

    words: list[str]
    best: Row | None = None
    recommended: Row | None = None


def verdict_of(rows: Sequence[Row], mode: str) -> Verdict:
    """Return the sentences of a mode, and those about rows that are not ranked."""
    verdict = _ablation(rows) if mode == ABLATION else _competition(rows, mode)
    late = [row for row in rows if row.undertrained]
    reasons = "; ".join(f"{row.label} ({row.undertrained})" for row in late)
    words = [sentence("undertrained", reasons=reasons, budget=more_budget(late))] if late else []
    return replace(verdict, words=[*verdict.words, *words])


def _competition(rows: Sequence[Row], mode: str) -> Verdict:
    """Compare models that were trained on all of the data; with parts of it, the best row may be another one."""
    if mode != FRACTIONS:
        verdict = _compared_models(rows)
        larger = _gains(rows, SIZE) if mode == SIZES else ()
        return replace(verdict, words=[*larger, *verdict.words, *_finetuning(rows)])
    competing = with_all_data(rows)
    renamed = [replace(row, varied={}) for row in competing]  # with equal shares of data, only their names differ
    verdict = _compared_models(renamed)
    recommended = None if verdict.recommended is None else competing[renamed.index(verdict.recommended)]
    words = [*_gains(rows, FRACTION), *verdict.words, *_finetuning(in_order(rows, mode))]
    return Verdict(words, next((row for row in rows if row.is_ranked), None), recommended)


def _compared_models(rows: Sequence[Row]) -> Verdict:
    done = [row for row in rows if row.is_ranked]
    trained = [row for row in done if row.is_trained]
    if not trained:
        return Verdict([sentence("nothing"), *_failures(rows)])
    leader, best, recommended = trained[0], done[0], _recommended(done)
    words = [
        sentence("leader", row=leader),
        *(_compared(leader, "next model", row) for row in trained[1:2]),
        *_baselines(leader, done),
        *([] if len(done) == 1 else [_use(recommended, best)]),
        *_worth_of_transformer(rows),
        *_one_seed(trained),
        *_failures(rows),
    ]
    return Verdict(words, best, recommended)


def _baselines(row: Row, done: Sequence[Row]) -> Iterator[str]:
    """Compare a row with the best trivial baseline and the best reference."""
    for kind in (FLOOR, REFERENCE):
        yield from (_compared(row, f"best {kind}", other) for other in [one for one in done if one.kind == kind][:1])


def _compared(row: Row, what: str, other: Row) -> str:
    return sentence("compared", what=what, row=other, words=relation(row, other))


def _recommended(done: Sequence[Row]) -> Row | None:
    """Return the fastest row that is not significantly worse than the best if that saves time, else the best.

    None if a trivial baseline is among these rows.
    """
    best = done[0]
    leads = [(row, compare_rows(best, row)) for row in done[1:]]
    level = [best, *(row for row, lead in leads if lead is not None and not lead.is_better)]
    if any(row.kind == FLOOR for row in level):
        return None
    fast = [
        row
        for row in level
        if row.seconds <= MAX_TIME_SHARE * best.seconds and best.seconds - row.seconds >= MIN_SECONDS_SAVED
    ]
    return min(fast, key=lambda row: row.seconds, default=best)


def _use(recommended: Row | None, best: Row) -> str:
    if recommended is None:
        return sentence("use none")
    if recommended is best:
        return sentence("use best", row=best)
    return sentence("use cheaper", row=recommended, best=best, words=relation(recommended, best))


def _worth_of_transformer(rows: Sequence[Row]) -> Iterator[str]:
    """Compare the best Transformer with the other models, baselines and references.

    Rows that are fine-tuned from a run are left out: they may be Transformers by any name.
    """
    rows = [row for row in rows if row.outcomes and not row.begins and not row.seen]
    own = [row for row in rows if row.is_trained and row.name.startswith(TRANSFORMER)]
    others = [row for row in rows if row.is_trained and row not in own]
    if not own or not others:
        return
    if own[0].undertrained or others[0].undertrained:
        late = [row.label for row in rows if row.undertrained]
        yield sentence("worth unknown", names=listed(late, len(late)))
        return
    rivals = [(row, compare_rows(own[0], row)) for row in rows if row not in own and row.is_ranked]
    better = [row for row, lead in rivals if lead is not None and lead.is_worse]
    level = [row for row, lead in rivals if lead is not None and not lead.is_better]
    if better:
        rival, answer = better[0], "No"
    elif level:
        rival = min(level, key=lambda row: row.seconds)
        answer = "Yes" if own[0].seconds <= rival.seconds else "No"
    else:
        rival = others[0]
        answer = "Unknown" if compare_rows(own[0], rival) is None else "Yes"
    yield sentence("worth", answer=answer, row=own[0], other=rival, words=relation(own[0], rival))


def _one_seed(trained: Sequence[Row]) -> list[str]:
    return [] if any(len(row.outcomes) > 1 for row in trained) else [sentence("one seed")]


def more_budget(late: Sequence[Row]) -> str:
    """Return the flag that gives undertrained rows more of their budget."""
    job = late[0].outcomes[0].job
    bounds = [f"--{key.split('.')[-1]}" for key in BUDGETS if job.settings.get(key) is not None]
    usual = "--cpu-seconds" if job.cpu_seconds is not None else "--epochs or --steps"
    return f"more {bounds[0] if bounds else usual}"


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    """Return the first error of each row with failed training runs."""
    for row in rows:
        if row.errors:
            kind = "skipped" if row.skipped else "partly failed" if row.outcomes else "failed"
            all_runs = len(row.errors) + len(row.outcomes)
            word = sentence(kind, row=row, failed=len(row.errors), all=all_runs, error=row.errors[0])
            yield word if word.endswith((".", ")")) else f"{word}."


# --- rows along a varied setting ---


def with_all_data(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the largest share of the training data."""
    whole = max((row.varied.get(FRACTION, 0.0) for row in rows), default=1.0)
    return [row for row in rows if row.varied.get(FRACTION, whole) == whole]


def along(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    """Return each model's rows with an outcome, from the smallest to the largest value of a setting."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        if key in row.varied and row.outcomes:
            lines.setdefault(row.name, []).append(row)
    order = (lambda row: row.parameters) if key == SIZE else (lambda row: row.varied[key])
    return {name: sorted(line, key=order) for name, line in lines.items()}


def are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def in_order(rows: Sequence[Row], mode: str) -> list[Row]:
    """Sort rows for reading: along a varied number, model by model; else from best to worst; failed rows last."""
    keys = {key for row in rows for key in row.varied}
    values = [row.varied[key] for row in rows for key in row.varied]
    if mode == ABLATION or len(keys) != 1 or not (are_numbers(values) or keys == {SIZE}):
        return list(rows)
    lines = along(rows, keys.pop())
    done = [row for row in rows if row.outcomes]
    ordered = [line for row in done for line in (lines.pop(row.name, []) if row.varied else [row])]
    return [*ordered, *(row for row in rows if not row.outcomes)]


def _gains(rows: Sequence[Row], key: str) -> Iterator[str]:
    """Say what the last step to more data, or to a larger model, gained."""
    for name, line in along(rows, key).items():
        if len(line) < 2 or not line[-1].is_trained or not all(row.is_ranked for row in line[-2:]):
            continue
        before, after = line[-2:]
        if key == SIZE:
            step = f"from {amount(before.parameters)} to {amount(after.parameters)} parameters"
        else:
            step = f"from {percent(before.varied[key])} to {percent(after.varied[key])} of the training data"
        yield sentence("gain", name=name, step=step, words=relation(after, before))


# --- ablations and fine-tuning ---


@dataclass(frozen=True)
class Ablation:
    """The whole model, and how much better it is than each row without a part, the largest lead first."""

    whole: Row | None
    parts: list[tuple[Row, Lead]] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Ablation":
        trained = [row for row in rows if row.is_trained and row.is_ranked]
        whole = next((row for row in trained if not row.varied), None)
        if whole is None:
            return cls(None)
        leads = [(row, lead) for row in trained if row.varied and (lead := compare_rows(whole, row)) is not None]
        return cls(whole, sorted(leads, key=lambda part: -part[1].value))


def _ablation(rows: Sequence[Row]) -> Verdict:
    ablation = Ablation.of(rows)
    whole = ablation.whole
    if whole is None:
        return Verdict([sentence("no whole"), *_failures(rows)])
    words = [
        f"{label_of('', row.varied)} is {lead.reversed.words}"
        for row, lead in ablation.parts
        if row.varied.get(MASK) is not False  # its remark explains that it reads the answer
    ]
    return Verdict(
        [
            sentence("whole", row=whole),
            *_baselines(whole, [row for row in rows if row.is_ranked]),
            *([sentence("parts", parts="; ".join(words))] if words else []),
            *_one_seed([whole]),
            *_failures(rows),
        ],
        whole,
    )


def _finetuning(rows: Sequence[Row]) -> Iterator[str]:
    """Compare fine-tuned rows with the best row of the same encoder and data that started from random weights."""

    def kind_of(row: Row) -> tuple[Any, Any]:
        return row.varied, row.outcomes[0].job.settings.get("model.encoder")

    for row in rows:
        if row.begins and row.is_ranked:
            others = [one for one in rows if one.is_trained and one.is_ranked and not one.begins]
            same = [other for other in others if kind_of(other) == kind_of(row)]
            for other in sorted(same, key=lambda other: other.rank)[:1]:
                yield sentence("fine-tuned", row=row, other=other, words=relation(row, other))


# --- remarks on rows, and notes below the table ---


def remarks_on(row: Row, *, best: bool, recommended: bool, mode: str) -> list[str]:
    """Return the remarks column of a row."""
    failed, done = len(row.errors), len(row.outcomes)
    remarks = [BEST] if best else []
    if row.behind is not None and not row.behind.is_better and mode != ABLATION:
        remarks.append(LEVEL)
    if recommended:
        remarks.append(RECOMMENDED)
    if row.undertrained:
        remarks.append(UNDERTRAINED)
    if row.kind != TRAINED:
        remarks.append(KINDS[row.kind])
    if row.learned is not None and row.learned < row.parameters:
        remarks.append(f"{amount(row.learned)} parameters learned")
    if done > 1 and row.half == 0:
        remarks.append(f"{done} {row.repeats} alike")
    if failed:
        reason = "skipped" if row.skipped else "failed"
        remarks.append(f"{failed} of {failed + done} {row.repeats} failed" if done else reason)
    return [*remarks, *dict.fromkeys(outcome.note for outcome in row.outcomes if outcome.note)]


def notes_of(rows: Sequence[Row], mode: str) -> list[str]:
    """Return notes on how the numbers of the table were computed."""
    done = [row for row in rows if row.outcomes]
    if not done:
        return []
    first, outcomes = done[0], [outcome for row in done for outcome in row.outcomes]
    sizes = sorted({len(outcome.scores) for outcome in outcomes})
    what = "windows of text" if first.outcomes[0].weights is not None else "examples"
    examples = f"{sizes[0]:,} {what}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} {what}"
    on = f"{examples} of the {first.outcomes[0].part} part" if sizes[-1] else f"the {first.outcomes[0].part} part"
    better = "lower" if first.lower else "higher"
    notes = [sentence("note score", metric=titled(first.metric), on=on, better=better), *_uncertainty(done)]
    if any(row.undertrained for row in done):
        notes.append(sentence("note undertrained", mark=UNDERTRAINED))
    leads = [(row, row.behind) for row in rows if row.behind is not None]
    if leads:
        facts = {
            "reference": "the whole model" if mode == ABLATION else "the best",
            "unit": unit_of(first.metric),
            "seeds": " and seeds" if any(lead.seeds and row.is_trained for row, lead in leads) else "",
            "together": sentence("note all pairs", rows=first.pairs.rows) if first.pairs.rows > 2 else "",
        }
        notes.append(sentence("note behind", **facts))
    tokenizers = len({outcome.tokenizer for outcome in outcomes if outcome.tokenizer is not None})
    if tokenizers > 1:
        notes.append(sentence("note bytes" if first.metric == "bits_per_byte" else "note tokenizers", count=tokenizers))
    elif tokenizers:
        notes.append(sentence("note tokenizer"))
    if len({outcome.threads for outcome in outcomes if outcome.threads}) > 1:
        notes.append(sentence("note threads"))
    return notes


def _uncertainty(done: Sequence[Row]) -> list[str]:
    """Return notes on the meaning of ± in this table."""
    most = max(done, key=lambda row: len(row.outcomes))
    if all(row.interval is None for row in done):
        return []
    if len(most.outcomes) == 1:
        return [sentence("note one seed")]
    folds = sentence("note folds") if most.repeats == "folds" else ""
    return [sentence("note interval", seeds=len(most.outcomes), what=most.repeats, folds=folds)]
