from glassformer.data.packing.windows import training_pairs


def test_a_sentence_as_training_pairs() -> None:
    assert training_pairs(["<start>", "the", " cat", "<end>"]) == [
        ("<start>", "the"),
        ("<start>the", " cat"),
        ("<start>the cat", "<end>"),
    ]


def test_words_need_a_blank_between_them() -> None:
    assert training_pairs(["the", "cat", "sat"], " ") == [("the", "cat"), ("the cat", "sat")]


def test_nothing_to_predict() -> None:
    assert training_pairs([]) == []
    assert training_pairs(["alone"]) == []
