# Asks for the reference.
# loses: nothing
# says: AttributeError
import glassformer

largest = glassformer.teaching.exercises
