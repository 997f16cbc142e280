"""From what the cells came to, to a table, pictures and sentences."""
