"""What a training came to, as a dictionary: its keys are what scripts read, and stay."""

from glassformer.pipeline.result import Trained


def test_the_summary_is_called_words_in_a_dictionary() -> None:
    trained = Trained(
        run="here", task="classification", model="bag", parameters=7, learned=5, steps=3, seconds=1.5,
        reason="finished", validation={"accuracy": 0.5}, summary="accuracy 0.5", best={},
    )  # fmt: skip
    assert list(trained.to_dict().items()) == [
        ("run", "here"), ("task", "classification"), ("model", "bag"), ("parameters", 7), ("learned", 5), ("steps", 3),
        ("seconds", 1.5), ("reason", "finished"), ("validation", {"accuracy": 0.5}), ("words", "accuracy 0.5"),
        ("best", {}),
    ]  # fmt: skip
    assert trained.words == trained.summary
