"""Where the processes of many runs are started: on this machine, by Slurm, on a Ray cluster."""
