"""Number by number: every step that a model computes for a short text, with formulas and numbers.

A `Step` has a title, the captured values, and a `Term`, the formula that computes them. A term is written twice: in
letters, and with the numbers of one example cell. `Activations` holds the captured tensors and turns steps into panels.
To support a new encoder, register a function that returns its panels with `layer_panels` in `walk.py`.
"""
