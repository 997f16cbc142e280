"""Cross-validation: a training for each fold, and what they come to together."""
