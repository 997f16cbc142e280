"""The contracts, one file for each group."""
