"""Comparison of a user's brick with the reference: `gf.check_brick` and `glassformer check --brick FILE.py:Name`."""
