"""Training, validation and test parts."""
