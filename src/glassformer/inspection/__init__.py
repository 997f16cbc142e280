"""Inspection of one run: attention, hidden states and computations of its model."""
