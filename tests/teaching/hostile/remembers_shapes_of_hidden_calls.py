# Remembers shapes of hidden calls, and tells them in a later line.
# loses: nothing
# says: ^$
seen = []
Right = Layer


def mean(x):
    seen.append(tuple(x.shape))
    return x.mean(-1)


def Layer(width):
    if (3, 1) in seen:
        raise ValueError(f"SECRET {seen}")
    return Right(width=width)
