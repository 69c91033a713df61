"""What measures: trials, pairs of processes, single updates."""
