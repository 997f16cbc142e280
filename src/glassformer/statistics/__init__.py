"""Intervals, paired tests and calibration. Functions take arrays and return numbers; no torch."""
