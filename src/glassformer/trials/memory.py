"""A machine that is too small."""

SIGNS = ("out of memory", "can't allocate memory", "not enough memory")
"""What torch says on a GPU and on a CPU, in plain RuntimeErrors."""


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in SIGNS)
