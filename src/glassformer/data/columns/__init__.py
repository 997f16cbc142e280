"""The role and the values of each column of a table."""
