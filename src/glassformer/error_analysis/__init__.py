"""Error analysis: panels from the records of an evaluation, and sentences that summarise them."""
