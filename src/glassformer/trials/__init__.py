"""Many runs: which model, which settings, how much data."""
