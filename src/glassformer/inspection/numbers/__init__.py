"""Number by number: for a short text, every step of what a model computes, the formula beside the numbers.

What a brick does is told as `Step`s: a title, the captured values, and the formula that gives them, a `Term`. A term is
written once and reads twice, in letters and in the numbers of one cell. `Activations` holds what was captured and makes
panels of steps. A new encoder's walk is a function that yields such panels, and a row of `ENCODERS` in `walk.py`.
"""
