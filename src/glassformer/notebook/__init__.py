"""What a notebook shows: bars that move in place, results as small tables. IPython is used only where it runs."""
