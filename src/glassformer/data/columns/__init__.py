"""What each column of a table is for."""
