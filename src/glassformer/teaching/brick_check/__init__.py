"""A student's brick held against ours: `gf.check_brick` and `glassformer check --brick FILE.py:Name`."""
