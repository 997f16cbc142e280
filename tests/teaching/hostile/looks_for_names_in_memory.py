# Looks for names in memory.
# loses: nothing
# says:
import gc

found = [
    one
    for one in gc.get_objects()
    if type(one) in (dict, list) and any(isinstance(part, str) and "tiny" + ".md" in part for part in list(one))
]
if found:
    raise ValueError("SECRET")
