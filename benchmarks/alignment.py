"""Does a date translator look at the right part of its source? Over the test part, whose years it never saw.

    python benchmarks/alignment.py --models lstm,transformer --rows 400

A date is written as YYYY-MM-DD. While its year is written, the weights should lie on the source's year, and so on; the
month in words counts with all letters of the text, the weekday's among them. Beside it the share that evenly spread
weights would have. Only dates that the model gets right count. Of a Transformer: the mean over all heads, and the best.
"""

import argparse
import json
import tempfile

import numpy as np

import glassformer as gf
from glassformer.data.datasets.dates import NUMBER, YEARS, date_test_rows, meanings, readings, shape_of
from glassformer.families.evaluate import encode_example
from glassformer.inspection.attention import attention_of
from glassformer.inspection.views.attention import share_on

PARTS = ["year"] * 4 + [""] + ["month"] * 2 + [""] + ["day"] * 2 + [""]
"""Of each character written; the last is END."""


def spans(text):
    """Where year, month and day stand in a text that means one date; a month in words: all its letters."""
    (day,) = meanings(text)
    numbers = list(NUMBER.finditer(text))
    year = next(number for number in numbers if int(number.group()) in YEARS)
    numbers.remove(year)
    for place, month in readings()[shape_of(text)]:
        if int(numbers[place].group()) == day.day and (month or int(numbers[1 - place].group())) == day.month:
            letters = [at for at, sign in enumerate(text) if not sign.isdecimal() and not sign.isspace()]
            named = letters if month else list(range(*numbers[1 - place].span()))
            return {"year": list(range(*year.span())), "month": named, "day": list(range(*numbers[place].span()))}
    raise ValueError(f"nobody knows how {text!r} is read")


def measure(loaded, rows):
    found, even, right = [], [], 0
    for source, target in rows:
        example = encode_example(loaded, source, beam=1)
        if example.output != target:
            continue
        right += 1
        where = {**spans(source), "": []}
        weights = attention_of(loaded.model, example.inputs)["cross"]
        places = [where[part] for part in PARTS]
        found.append(share_on(weights, places))
        even.append(share_on(np.full(weights.shape[2:], 1 / weights.shape[3]), places))
    return right, np.mean(found, 0), float(np.mean(even))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="lstm,transformer")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--steps", type=int, help="updates (default: the data set's own)")
    options = parser.parse_args()
    rows = list(date_test_rows(rows=4 * options.rows, seed=0, languages=30))
    for model in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            more = {} if options.steps is None else {"steps": options.steps}
            attention = {"model.attention": "additive"} if model != "transformer" else {}
            trained = gf.train("dates", model=model, out=f"{folder}/run", **attention, **more)
            right, heads, even = measure(gf.load(trained.run), rows)
        best = np.unravel_index(heads.argmax(), heads.shape)
        result = {
            "model": model,
            "seconds": trained.seconds,
            "right": f"{right} of {len(rows)}",
            "on the right span, mean over heads": round(float(heads.mean()), 3),
            "best head": f"{best[0]}.{best[1]}: {heads.max():.3f}",
            "spread evenly": round(even, 3),
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
