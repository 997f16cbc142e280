"""Training that begins from what another run has learned: its body, its tokens, and what is new beside them."""
