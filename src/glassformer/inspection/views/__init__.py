"""The views of a run: what each is called, what it needs, how it is made."""
