# Searches a pattern without end.
# loses: nothing
# says: takes more than 3 s
import re

re.match("(a+)+b", "a" * 60)
