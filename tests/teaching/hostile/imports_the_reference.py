# Imports the reference.
# loses: nothing
# says: imports glassformer.teaching.*not allowed
from glassformer.teaching import exercises
