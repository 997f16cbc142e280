"""Trivial baselines, which learn nothing or only count, and references, which are models of scikit-learn."""
