"""Number by number: for a short text, every step of what a model computes, the formula beside the numbers."""
