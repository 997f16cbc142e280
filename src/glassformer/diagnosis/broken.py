"""Numbers that are no longer finite: where it began."""

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.events import Diverged
from glassformer.training.finding import PROBLEM, Finding


def not_finite(broke: Diverged, advise: Advice) -> Finding:
    began = f"{broke.what}: it began in {broke.tensor}"
    where = broke.where.removesuffix("; ")
    words = f"{began}, {where}." if where else f"{began}."
    weights = broke.tensor.startswith("parameter") or len(broke.rows) != 1
    advice = joined(f"--resume --lr {broke.lr:.1g}", advise.clip(), advise.warmup())
    if not weights:
        advice = f"look at that example (glassformer data check); else {advice}"
    numbers = {"tensor": broke.tensor, "batch": broke.batch, "rows": list(broke.rows), "example": broke.example}
    return Finding("not-finite", broke.batch, PROBLEM, words[0].upper() + words[1:], advice, numbers)
