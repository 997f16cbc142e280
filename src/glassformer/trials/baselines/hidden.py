"""How frequent tokens are, as a guess of those that are hidden: judged as a masked language model is."""

import numpy as np

from glassformer.data.packing.masking import NOTHING
from glassformer.data.packing.shards import how_often
from glassformer.tasks.base import Evaluation
from glassformer.tasks.masked_language_model import MaskedModelling


def judge_hidden(task: MaskedModelling, part: str) -> tuple[Evaluation, int]:
    """Each token that may be hidden is counted once more, so that none is impossible; always the same guess."""
    masking, ids = task.masking, task.parts[part].ids
    counts = np.zeros(masking.size)
    counts[masking.ordinary] = how_often(task.parts["train"].ids, masking.size)[masking.ordinary] + 1
    shares, likeliest = counts / counts.sum(), int(counts.argmax())
    records = []
    for begin, end, counted in task.windows(len(ids)):
        _, answers = masking.to_judge(np.asarray(ids[begin:end], np.int64), begin)
        answers = answers[counted - begin :]
        asked = answers[answers != NOTHING]
        records.append(
            {
                "start": counted,
                "tokens": len(asked),
                "loss": float(-np.log(shares[asked]).sum()),
                "right": int((asked == likeliest).sum()),
                "covered": end - counted,
            }
        )
    return task.judge(part, records), len(masking.ordinary)
