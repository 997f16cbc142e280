from glassformer.data.prefixes import training_pairs


def test_a_sentence_as_training_pairs() -> None:
    assert training_pairs(["<start>", "the", " cat", "<end>"]) == [
        ("<start>", "the"),
        ("<start>the", " cat"),
        ("<start>the cat", "<end>"),
    ]


def test_nothing_to_predict() -> None:
    assert training_pairs([]) == []
    assert training_pairs(["alone"]) == []
