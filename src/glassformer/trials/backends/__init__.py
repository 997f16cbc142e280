"""Backends that start the processes of many runs: this machine, Slurm, Ray."""
