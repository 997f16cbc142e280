"""What was not trained to its end is marked, and never judged; in every kind of comparison."""

from dataclasses import replace
from typing import Any

import pytest

from glassformer.trials.jobs import Outcome
from glassformer.trials.results.comparison import Comparison, summarise
from helpers.simulated import floor, outcomes_of, reference

WHY = "11 updates, and an epoch takes 125"
WORTH = "Is the Transformer worth it? "


def of(*groups: list[Outcome], mode: str = "ladder") -> Comparison:
    outcomes = [one for group in groups for one in group]
    return summarise(outcomes, title="a comparison", budget="0.3 minutes each", mode=mode)


def late(name: str, accuracy: float, **more: Any) -> list[Outcome]:
    made = outcomes_of(name, accuracy, undertrained=WHY, **more)
    return [replace(one, job=replace(one.job, settings={"training.minutes": 0.3})) for one in made]


def said(comparison: Comparison) -> str:
    return " ".join(comparison.words)


@pytest.mark.parametrize("accuracy", [0.72, 0.95])
def test_a_transformer_that_was_not_trained_to_its_end(accuracy: float) -> None:
    """It may be called neither worse nor best."""
    found = of(floor(), outcomes_of("bag:tfidf", 0.90), outcomes_of("cnn", 0.85), late("transformer", accuracy))
    assert WORTH + "Unknown: not all models were trained to the end (transformer)." in found.words
    assert (
        found.words[-1] == f"Not trained to the end, so not ranked: transformer ({WHY}). Train longer: more --minutes."
    )
    assert found.words[0].startswith("Best of the trained models: bag:tfidf")
    row, behind = next((row, behind) for row, behind in zip(found.rows, found.behind, strict=True) if row.undertrained)
    assert behind is None
    assert row.marks == ["↘ undertrained"]
    assert "transformer ↘" in repr(found)
    assert "↘ undertrained" in found.markdown()
    assert any(note.startswith("↘ undertrained: ") for note in found.notes)
    assert found.best is not None
    assert found.best.name == "bag:tfidf"
    assert found.recommended is found.best
    document = found.to_dict()
    assert next(one for one in document["rows"] if one["name"] == "transformer")["undertrained"] == [WHY] * 3


def test_nothing_was_trained_to_its_end() -> None:
    found = of(floor(), reference(0.8), late("bag", 0.90), late("transformer", 0.7))
    assert found.words[0] == "No model was trained to the end, so there is nothing to compare."
    assert f"so not ranked: bag ({WHY}); transformer ({WHY}). Train longer: more --minutes." in found.words[1]
    assert found.recommended is None
    found.view()


def headline(comparison: Comparison) -> str:
    return next(panel.takeaway for panel in comparison.view().panels if panel.title == "Side by side")


def test_headline_and_table_rank_only_rows_trained_to_the_end() -> None:
    """The headline names the first row of the table, whatever score an undertrained row has."""
    found = of(floor(), outcomes_of("cnn", 0.85), late("transformer", 0.95), outcomes_of("bag", 0.7))
    assert [row.name for row in found.rows] == ["cnn", "bag", "majority class", "transformer"]
    assert headline(found) == "cnn scores best among the ranked rows: accuracy 0.850"
    assert "These rows are not ranked" in " ".join(found.notes)
    baselines = of(floor(), late("bag", 0.95), late("minilm fine-tuned", 0.9))
    assert headline(baselines) == "No model was trained to the end"
    assert baselines.best is None
    assert [row.name for row in baselines.rows] == ["majority class", "bag", "minilm fine-tuned"]


def test_headline_names_the_row_with_the_best_mark() -> None:
    """With less data a model may score higher: the headline follows the table, whose rows it stands above."""
    some, whole = ({"data.train_fraction": share} for share in (0.5, 1.0))
    found = of(floor(), outcomes_of("cnn", 0.9, varied=some), outcomes_of("cnn", 0.8, varied=whole), mode="fractions")
    assert found.best is not None
    assert headline(found) == f"{found.best.label} scores best: accuracy {found.best.score:.3f}"


def test_headline_says_which_rows_are_not_ranked() -> None:
    seen = outcomes_of("runs/old", 0.99, seen=True)
    assert headline(of(outcomes_of("cnn", 0.85), outcomes_of("bag", 0.7), seen)) == (
        "cnn scores best among the ranked rows: accuracy 0.850"
    )
    assert headline(of(outcomes_of("cnn", 0.85), late("lstm", 0.9), seen)) == (
        "cnn scores best among the ranked rows: accuracy 0.850"
    )
    unmasked = outcomes_of("transformer", 0.99, varied={"model.causal_mask": False})
    assert headline(of(outcomes_of("transformer", 0.8), unmasked, mode="ablation")) == (
        "transformer scores best among the ranked rows: accuracy 0.800"
    )


def test_learning_curves_rank_only_models_trained_to_the_end() -> None:
    def ends(*groups: list[Outcome]) -> str:
        return next(panel.takeaway for panel in of(*groups).view().panels if panel.title == "How each learned")

    assert ends(outcomes_of("cnn", 0.8), late("lstm", 0.9), outcomes_of("bag", 0.7)).startswith("cnn ends best (0.7")
    assert ends(late("cnn", 0.8), late("lstm", 0.9)) == "No model was trained to the end"


def test_headline_where_the_whole_model_is_undertrained() -> None:
    part = outcomes_of("transformer", 0.6, varied={"model.residual": False})
    found = of(late("transformer", 0.8), part, mode="ablation")
    assert headline(found).startswith("The whole model was not trained to the end")
    assert found.words[0] == "The whole model was not trained to the end, so the value of its parts cannot be measured."
    assert found.rows[0].varied == {"model.residual": False}


def test_the_other_models_were_not_trained_to_their_end() -> None:
    found = of(late("bag", 0.7), late("cnn", 0.6), outcomes_of("transformer", 0.8))
    assert WORTH + "Unknown: not all models were trained to the end (bag and cnn)." in found.words


def test_most_seeds_decide_and_what_nobody_knows_is_judged() -> None:
    first, *others = outcomes_of("lstm", 0.8)
    one_of_three = [replace(first, undertrained=WHY), *(replace(one, undertrained="") for one in others)]
    assert not of(one_of_three, outcomes_of("cnn", 0.7)).rows[0].undertrained
    two_of_three = [first, *(replace(one, undertrained=WHY) for one in others)]
    assert of(two_of_three, outcomes_of("cnn", 0.7)).rows[-1].undertrained == WHY
    before = of(outcomes_of("lstm", 0.8, undertrained=None), outcomes_of("cnn", 0.7))
    assert before.best is not None
    assert before.best.name == "lstm"


def test_parts_and_data_and_runs_that_were_not_trained_to_their_end() -> None:
    whole = outcomes_of("transformer", 0.85)
    parts = of(whole, late("transformer", 0.6, varied={"model.norm": "none"}), mode="ablation")
    assert "Without a part of it" not in said(parts)
    assert f"so not ranked: norm=none ({WHY})" in said(parts)
    nothing = of(
        late("transformer", 0.8), outcomes_of("transformer", 0.6, varied={"model.norm": "none"}), mode="ablation"
    )
    assert "Without a part of it" not in said(nothing)
    nothing.view()
    part, all_of_it = ({"data.train_fraction": share} for share in (0.3, 1.0))
    data = of(late("lstm", 0.7, varied=part), outcomes_of("lstm", 0.8, varied=all_of_it), mode="fractions")
    assert "gained" not in said(data)
    assert "so not ranked: 30 % of the data" in said(data)
    settings = {"model.encoder": "transformer"}
    begun = [
        replace(one, job=replace(one.job, settings=settings, begins="abc")) for one in late("writer fine-tuned", 0.9)
    ]
    plain = [replace(one, job=replace(one.job, settings=settings)) for one in whole]
    assert "writer fine-tuned (" in said(of(begun, plain))
