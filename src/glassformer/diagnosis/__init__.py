"""The doctor: what is wrong with a training, in plain words. Each check is a function of a few numbers."""
