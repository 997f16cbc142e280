"""The doctor: checks that find problems of a training run. Each check is a function of a few numbers."""
