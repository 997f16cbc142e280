"""The table, the pictures and the verdict of a comparison, computed from outcomes."""
