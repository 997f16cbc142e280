"""How sure a number is: intervals, paired tests, calibration. Arrays in, numbers out; no torch."""
