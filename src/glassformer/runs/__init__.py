"""Run folders: they are complete and written atomically, and reading them never executes code from them."""
